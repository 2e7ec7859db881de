"""The engine as a memory class with `add`, `search` and `delete`, like a user's own."""

import json
import shutil
from collections.abc import Mapping
from datetime import datetime
from math import inf
from pathlib import Path
from typing import Any, ClassVar

from longmemeval.memory.engram.records import Episode
from longmemeval.memory.engram.standalone import Engram
from longmemeval.memory.external.serve import Session
from longmemeval.records import RecalledItem

_FILE, _IDS = "engram.json", "ids.json"


class ServedEngram:
    """The engine, filled session by session.

    Args:
        folder: an empty folder for its file.
        budget: most tokens to recall.
    """

    capabilities: ClassVar[Mapping[str, Any]] = {"models": "none", "signals": ["facts", "vectors", "words"]}

    def __init__(self, folder: Path, budget: int = 1000) -> None:
        self._file, self._budget = Path(folder) / _FILE, budget
        self._engine = Engram(self._file)
        self._ids: dict[str, str] = {}
        """Ids of messages by ids of episodes."""

    def add(self, session: Session) -> None:
        """Add the messages of a session."""
        for number, message in enumerate(session.messages):
            speech = (message.role, message.speaker, message.content)
            # The engine finds an episode's session and place in its id.
            episode_id = f"{session.id}:{number}"
            self._engine.take(Episode(episode_id, session.id, *speech, session.date, session.date))
            self._ids[episode_id] = message.id

    def search(
        self, query: str, *, date: datetime, limit: int, token_budget: int | None = None
    ) -> list[dict[str, Any]]:
        """Return facts and messages, best first, as known on `date`."""
        found = self._engine.search(query, as_of=date, budget=token_budget or self._budget)
        return [
            {
                "text": item.text,
                "kind": item.kind,
                "date": item.date,
                "speaker": item.speaker,
                "message_ids": [self._ids[name] for name in item.message_ids],
            }
            for item in sorted(found, key=_place)[:limit]
        ]

    def delete(self, subject: str) -> None:
        """Remove every message that mentions the subject, and everything that follows from it."""
        self._engine.forget(subject=subject)

    def save(self, folder: Path) -> None:
        """Write the state to a folder."""
        self._engine.save()
        shutil.copy(self._file, folder)
        (Path(folder) / _IDS).write_text(json.dumps(self._ids))

    def load(self, folder: Path) -> None:
        """Restore the state from a folder."""
        shutil.copy(Path(folder) / _FILE, self._file)
        self._ids = json.loads((Path(folder) / _IDS).read_text())
        self._engine = Engram(self._file)


def _place(item: RecalledItem) -> float:
    """Return the rank of an item; items without a rank, which only accompany others, come last."""
    return inf if item.rank is None else item.rank
