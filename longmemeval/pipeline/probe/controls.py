"""Memories whose results at deleting and reading after writing are known beforehand."""

import json
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar, Literal

from msgspec import structs

from longmemeval.benchmarks.lives.making import Life
from longmemeval.core.text.words import content_words
from longmemeval.memory.external.serve import MemoryServer, Session
from longmemeval.memory.external.transports.service import MemoryService
from longmemeval.memory.external.transports.transport import InProcess
from longmemeval.pipeline.probe.lifecycle import Door, Lifecycle, lifecycle
from longmemeval.records import Haystack


class Forgets:
    """Finds what it was given at once, by words, and deletes what mentions a subject: it must pass."""

    capabilities: ClassVar[Mapping[str, Any]] = {"models": "none"}

    def __init__(self) -> None:
        self.kept: list[dict[str, Any]] = []

    def add(self, session: Session) -> None:
        """Keep every message."""
        self.kept += [{"text": said.content, "message_ids": [said.id]} for said in session.messages]

    def search(self, query: str, *, date: datetime, limit: int) -> list[dict[str, Any]]:
        """Return the messages that share most words with a question."""
        wanted = {*content_words(query)}
        return sorted(self.kept, key=lambda hit: -len(wanted & {*content_words(hit["text"])}))[:limit]

    def delete(self, subject: str) -> None:
        """Remove the messages that mention it."""
        self.kept = [hit for hit in self.kept if subject not in hit["text"]]

    def save(self, folder: Path) -> None:
        """Write all of it."""
        (folder / "kept.json").write_text(json.dumps(self.kept))

    def load(self, folder: Path) -> None:
        """Read all of it."""
        self.kept = json.loads((folder / "kept.json").read_text())


class Keeps(Forgets):
    """Deletes nothing: it cannot pass."""

    def delete(self, subject: str) -> None:
        """Do nothing."""


class NeverReady(Forgets):
    """Finds nothing of what was added to it: it cannot pass."""

    def search(self, query: str, *, date: datetime, limit: int) -> list[dict[str, Any]]:
        """Return nothing."""
        return []


def lifecycle_of_control(control: Literal["floor", "ceiling"], lives: Mapping[str, tuple[Haystack, Life]]) -> Lifecycle:
    """Return what memories that cannot pass, or one that must, show on these lives."""
    if control == "ceiling":
        return lifecycle(_door(Forgets), lives)
    return structs.replace(lifecycle(_door(NeverReady), lives), deletion=lifecycle(_door(Keeps), lives).deletion)


def _door(memory: type) -> Door:
    return Door(MemoryService(lambda on_progress: InProcess(MemoryServer(memory, memory.__name__))))
