"""Honcho by the two methods of a memory: a history is a workspace, a session a session, a speaker a peer.

Runs in the environment of Honcho's own client, where longmemeval is not. The key is read from HONCHO_API_KEY by that
client.
"""

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from importlib import import_module
from itertools import chain, zip_longest
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

if TYPE_CHECKING:
    from longmemeval.memory.external.serve import Message, Session

_TOGETHER = 100
"""Messages in one request, the most that Honcho takes."""
_CHARACTERS = 25_000
"""Of a message, the most that Honcho takes; longer ones are sent in pieces."""
_PAGE = 50

Hits = list[dict[str, object]]


class Said(Protocol):
    """What of a message at Honcho is used."""

    content: str
    created_at: datetime
    metadata: dict[str, str] | None
    peer_id: str
    session_id: str


class Conclusion(Protocol):
    """What of a conclusion is used."""

    content: str
    session_id: str | None


class HonchoMemory:
    """What Honcho concludes about the people of a conversation, and what they said.

    Args:
        scope: what the workspace is called.
        reference: the workspace, where the history is there already.
        base_url: of another server than Honcho's own.
        items: what is recalled: `conclusions`, `messages` or `both`, half of each in turn.
        observe_assistant: whether conclusions are drawn about an assistant without a name too.
    """

    packages: ClassVar = ("honcho-ai",)
    capabilities: ClassVar[Mapping[str, object]] = {
        "dates": "native",
        "provenance": "session",
        "unit": "session",
        "max_parallel": 4,
        "models": "own",
        "signals": ["vectors", "words", "conclusions"],
        "telemetry": "unknown",
    }

    def __init__(
        self,
        scope: str,
        reference: str = "",
        base_url: str = "",
        items: str = "both",
        observe_assistant: bool = False,
    ) -> None:
        if items not in ("conclusions", "messages", "both"):
            raise ValueError(f"items is conclusions, messages or both, not {items}")
        honcho: Any = import_module("honcho")
        self._types: Any = import_module("honcho.api_types")
        self._missing: Any = import_module("honcho.http.exceptions").NotFoundError
        self._make: Any = lambda: honcho.Honcho(workspace_id=reference or scope, base_url=base_url or None)
        self._client: Any = self._make()
        self._items, self._observe_assistant = items, observe_assistant
        self._emptied = False
        """Asking a workspace that was deleted would make it again."""
        self._dates: dict[str, str] = {}
        """Of sessions, as they were sent."""

    def add(self, session: "Session") -> None:
        """Send the messages of a session; Honcho reads them in the background."""
        date, self._emptied = session.date.isoformat(), False
        kept = self._client.session(session.id, metadata={"date": date}, peers=self._peers(session))
        made = [
            self._types.MessageCreateParams(
                content=text, peer_id=_peer(one), metadata={"message": one.id}, created_at=f"{date}Z"
            )
            for one in session.messages
            for text in _pieces(one.content)
        ]
        for start in range(0, len(made), _TOGETHER):
            kept.add_messages(made[start : start + _TOGETHER])
        self._dates[session.id] = date

    def _peers(self, session: "Session") -> "list[tuple[str, Any]]":
        """Who speaks, and whether conclusions are drawn about them."""
        config = self._types.SessionPeerConfig
        nameless = {_peer(one) for one in session.messages if one.role == "assistant" and not one.speaker}
        return [
            (peer, config(observe_me=self._observe_assistant or peer not in nameless, observe_others=False))
            for peer in dict.fromkeys(map(_peer, session.messages))
        ]

    def forget(self, session: "Session") -> None:
        """Remove a session with all that was concluded from it."""
        try:
            self._client.session(session.id).delete()
        except self._missing:
            return

    def ready(self) -> dict[str, object]:
        """Whether Honcho has worked off its queue for this workspace."""
        told = self._client.queue_status()
        sessions = list(self._sessions())
        left = told.pending_work_units + told.in_progress_work_units
        if not left:
            return {"state": "ready", "done": len(sessions)}
        busy = [
            one
            for one in (told.sessions or {}).values()
            if one.pending_work_units + one.in_progress_work_units and one.session_id
        ]
        return {"state": "pending", "done": max(0, len(sessions) - (len(busy) or 1)), "pending": len(busy) or 1}

    def search(self, query: str, *, date: datetime, limit: int) -> Hits:
        """Conclusions about the peers, and messages, as Honcho's own searches order them."""
        if self._emptied:
            return []
        concluded = limit if self._items == "conclusions" else 0 if self._items == "messages" else (limit + 1) // 2
        facts = self._concluded(query, concluded) if concluded else []
        said = self._client.search(query, limit=min(limit - concluded, 100)) if limit > concluded else []
        pairs = zip_longest(facts, [_said(message) for message in said])
        return [hit for hit in chain.from_iterable(pairs) if hit is not None][:limit]

    def _concluded(self, query: str, limit: int) -> Hits:
        """Conclusions about each peer by itself; their orders are put together by place."""
        found = [
            [self._conclusion(one) for one in peer.conclusions.query(query, top_k=min(limit, 100))]
            for peer in self._client.peers(size=_PAGE)
        ]
        return [hit for hit in chain.from_iterable(zip_longest(*found)) if hit is not None][:limit]

    def _conclusion(self, one: Conclusion) -> dict[str, object]:
        return {
            "text": one.content,
            "kind": "fact",
            "date": self._date(one.session_id) if one.session_id else None,
            "session_ids": [one.session_id] if one.session_id else [],
        }

    def _date(self, session_id: str) -> str | None:
        """Of a session, as it was sent: Honcho's own date of a conclusion may be when it was drawn."""
        if session_id not in self._dates:
            self._dates |= {one.id: str((one.metadata or {}).get("date") or "") for one in self._sessions()}
        return self._dates.get(session_id) or None

    def _sessions(self) -> Iterator[Any]:
        yield from self._client.sessions(size=_PAGE)

    def list(self) -> Hits:
        """All messages."""
        sessions = () if self._emptied else self._sessions()
        return [_said(message) for session in sessions for message in session.messages(size=_PAGE)]

    def reference(self) -> str:
        """The workspace."""
        return str(self._client.workspace_id)

    def reset(self) -> None:
        """Delete all sessions and then the workspace, which Honcho keeps as long as it has sessions."""
        for session in list(self._sessions()):
            session.delete()
        self._client.delete_workspace(self._client.workspace_id)
        self._dates.clear()
        self._emptied = True
        self._client = self._make()  # A workspace is made again by a client that has not seen it.


def _pieces(content: str) -> Iterator[str]:
    for start in range(0, max(1, len(content)), _CHARACTERS):
        yield content[start : start + _CHARACTERS]


def _peer(message: "Message") -> str:
    """The speaker's name as Honcho takes it, else the role."""
    return re.sub(r"[^A-Za-z0-9_-]+", "-", message.speaker).strip("-") or message.role


def _said(message: Said) -> dict[str, object]:
    """A message as Honcho keeps it."""
    told = (message.metadata or {}).get("message")
    return {
        "text": message.content,
        "kind": "message",
        "date": message.created_at.isoformat(),
        "speaker": message.peer_id,
        "session_ids": [message.session_id],
        "message_ids": [told] if told else [],
    }
