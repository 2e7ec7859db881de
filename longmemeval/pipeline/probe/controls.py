"""Memories whose results of deleting and of reading after writing are known beforehand."""

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
from longmemeval.pipeline.probe.lifecycle import Lifecycle, WritableMemory, lifecycle
from longmemeval.records import Haystack


class Forgets:
    """A memory that finds messages at once, by words, and deletes those that mention a subject: it must pass."""

    capabilities: ClassVar[Mapping[str, Any]] = {"models": "none"}

    def __init__(self) -> None:
        self.kept: list[dict[str, Any]] = []

    def add(self, session: Session) -> None:
        """Keep every message."""
        self.kept += [{"text": message.content, "message_ids": [message.id]} for message in session.messages]

    def search(self, query: str, *, date: datetime, limit: int) -> list[dict[str, Any]]:
        """Return the messages that share most words with a question."""
        wanted = {*content_words(query)}
        return sorted(self.kept, key=lambda hit: -len(wanted & {*content_words(hit["text"])}))[:limit]

    def delete(self, subject: str) -> None:
        """Remove the messages that mention a subject."""
        self.kept = [hit for hit in self.kept if subject not in hit["text"]]

    def save(self, folder: Path) -> None:
        """Write all messages."""
        (folder / "kept.json").write_text(json.dumps(self.kept))

    def load(self, folder: Path) -> None:
        """Read all messages."""
        self.kept = json.loads((folder / "kept.json").read_text())


class Keeps(Forgets):
    """A memory that deletes nothing: it cannot pass."""

    def delete(self, subject: str) -> None:
        """Do nothing."""


class NeverReady(Forgets):
    """A memory that finds nothing: it cannot pass."""

    def search(self, query: str, *, date: datetime, limit: int) -> list[dict[str, Any]]:
        """Return nothing."""
        return []


def lifecycle_of_control(control: Literal["floor", "ceiling"], lives: Mapping[str, tuple[Haystack, Life]]) -> Lifecycle:
    """Return the result on these lives of memories that cannot pass, or of one that must."""
    if control == "ceiling":
        return lifecycle(_in_process(Forgets), lives)
    return structs.replace(
        lifecycle(_in_process(NeverReady), lives), deletion=lifecycle(_in_process(Keeps), lives).deletion
    )


def _in_process(memory: type) -> WritableMemory:
    return WritableMemory(MemoryService(lambda on_progress: InProcess(MemoryServer(memory, memory.__name__))))
