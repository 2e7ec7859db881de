"""Mem0 Platform by the two methods of a memory: a history is a user; facts are read out of each session.

Runs in the environment of Mem0's own client, where longmemeval is not. The key is read from MEM0_API_KEY by that
client.
"""

import os
import tempfile
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from longmemeval.memory.external.serve import Session

_PAGE = 100
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.05, 2.0
"""Between two questions whether an addition is done."""

Hits = list[dict[str, object]]


class Mem0PlatformMemory:
    """Facts about the people of a conversation, from Mem0's hosted service.

    Args:
        scope: what the user is called.
        reference: the same, where the history is there already.
        base_url: of another server than Mem0's own.
        infer: whether facts are read out of messages; else the messages themselves are kept.
        rerank: whether Mem0 orders what it found again.
        threshold: least score of what is found; 0: as Mem0 does by itself.
        as_of: whether words such as "last week" in a question count from its date.
    """

    packages: ClassVar = ("mem0ai",)
    capabilities: ClassVar[Mapping[str, object]] = {
        "dates": "native",
        "provenance": "session",
        "unit": "session",
        "max_parallel": 4,
        "models": "own",
        "signals": ["vectors", "words", "entities"],
        "telemetry": "off",
    }

    def __init__(
        self,
        scope: str,
        reference: str = "",
        base_url: str = "",
        infer: bool = True,
        rerank: bool = False,
        threshold: float = 0.0,
        as_of: bool = True,
    ) -> None:
        # Its package writes settings of its own, in the home folder unless it is told otherwise.
        os.environ.setdefault("MEM0_DIR", str(Path(tempfile.gettempdir(), "longmemeval-mem0")))
        mem0: Any = import_module("mem0")
        self._client: Any = mem0.MemoryClient(host=base_url or None)
        self._user = reference or scope
        self._infer, self._rerank, self._threshold, self._as_of = infer, rerank, threshold, as_of

    def add(self, session: "Session") -> None:
        """Send a session and wait until Mem0 says that it is done: what it cannot do is a failed batch, not a gap."""
        messages = [
            {"role": one.role, "content": one.content, **({"name": one.speaker} if one.speaker else {})}
            for one in session.messages
            if one.content.strip()
        ]
        if not messages:
            return
        told = self._client.add(
            messages,
            user_id=self._user,
            timestamp=_seconds(session.date),
            metadata={"session": session.id, "date": session.date.isoformat()},
            infer=self._infer,
        )
        if event_id := told.get("event_id"):
            self._wait(str(event_id))

    def _wait(self, event_id: str) -> None:
        """Ask until the event is done; how long it may take is decided by who calls `add`."""
        wait = _FIRST_WAIT_S
        while True:
            # The client has no method for events; this is its own connection, with its key.
            reply = self._client.client.get(f"/v1/event/{event_id}/")
            reply.raise_for_status()
            event = reply.json()
            if event["status"] == "SUCCEEDED":
                return
            if event["status"] == "FAILED":
                raise RuntimeError(f"Mem0 could not read the session: {event.get('metadata') or event.get('results')}")
            time.sleep(wait)
            wait = min(wait * 1.5, _LONGEST_WAIT_S)

    def forget(self, session: "Session") -> None:
        """Remove what was read out of a session."""
        for memory in list(self._all(session.id)):
            self._client.delete(memory["id"])

    def search(self, query: str, *, date: datetime, limit: int) -> Hits:
        """What Mem0's own search finds."""
        named: dict[str, object] = {"threshold": self._threshold} if self._threshold else {}
        if self._as_of:
            named["reference_date"] = _seconds(date)
        found = self._client.search(
            query, filters={"AND": [{"user_id": self._user}]}, top_k=limit, rerank=self._rerank, **named
        )
        return [_hit(memory) for memory in found["results"]]

    def list(self) -> Hits:
        """All memories."""
        return [_hit(memory) for memory in self._all()]

    def _all(self, session_id: str = "") -> Iterator[dict[str, Any]]:
        """The user's memories, or those of one session."""
        filters: Hits = [{"user_id": self._user}]
        if session_id:
            filters.append({"metadata": {"session": session_id}})
        page = 1
        while True:
            found = self._client.get_all(filters={"AND": filters}, page=page, page_size=_PAGE)
            yield from found["results"]
            if not found.get("next"):
                return
            page += 1

    def reference(self) -> str:
        """The user."""
        return self._user

    def reset(self) -> None:
        """Delete all memories of the user, and the user."""
        self._client.delete_all(user_id=self._user)
        try:
            self._client.delete_users(user_id=self._user)
        except import_module("mem0.exceptions").MemoryNotFoundError:
            return


def _hit(memory: Mapping[str, Any]) -> dict[str, object]:
    """A fact with the session it was read out of, and that session's date: Mem0's own is when it was stored."""
    told = memory.get("metadata") or {}
    return {
        "text": memory["memory"],
        "kind": "fact",
        "date": told.get("date"),
        "session_ids": [told["session"]] if told.get("session") else [],
        "score": memory.get("score"),
    }


def _seconds(date: datetime) -> int:
    """Seconds since 1970, as if the date were in UTC: none is converted."""
    return int(date.replace(tzinfo=UTC).timestamp())
