"""Supermemory by the two methods of a memory: a history is a namespace, a session (or a message) a document of it.

Runs in the environment of Supermemory's own client, where longmemeval is not. The key is read from SUPERMEMORY_API_KEY
by that client.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

if TYPE_CHECKING:
    from longmemeval.memory.external.serve import Session

_PAGE = 100
_FAILED = ("failed",)

Hits = list[dict[str, object]]


class Document(Protocol):
    """What of a document is used."""

    metadata: dict[str, Any]


class Included(Protocol):
    """What a result comes with."""

    document: Document | None


class Result(Protocol):
    """What of a search result is used."""

    memory: str | None
    chunk: str | None
    metadata: dict[str, Any]
    similarity: float
    included: Included | None


class SupermemoryMemory:
    """Memories that Supermemory forms of documents, and passages of these.

    Args:
        scope: what the namespace is called.
        reference: the namespace, where the history is there already.
        base_url: of another server than Supermemory's own.
        documents: what one document is: a `session`, or a `message`, which is then known by its id.
        mode: what is searched: `hybrid`, `memories` or `chunks`.
        dreaming: `dynamic` groups documents before memories are formed, `instant` takes each by itself at once.
        rerank: `none`, `order` or `aggregate`; empty: as Supermemory does by itself.
    """

    packages: ClassVar = ("supermemory",)
    capabilities: ClassVar[Mapping[str, object]] = {
        "dates": "native",
        "provenance": "session",
        "unit": "session",
        "max_parallel": 4,
        "models": "own",
        "signals": ["vectors", "memories"],
        "telemetry": "unknown",
    }

    def __init__(
        self,
        scope: str,
        reference: str = "",
        base_url: str = "",
        documents: str = "session",
        mode: str = "hybrid",
        dreaming: str = "dynamic",
        rerank: str = "",
    ) -> None:
        if documents not in ("session", "message"):
            raise ValueError(f"documents is session or message, not {documents}")
        supermemory: Any = import_module("supermemory")
        self._missing: Any = supermemory.NotFoundError
        self._client: Any = supermemory.Supermemory(base_url=base_url or None)
        self._namespace = reference or scope
        self._documents, self._mode, self._dreaming, self._rerank = documents, mode, dreaming, rerank

    def add(self, session: "Session") -> None:
        """Send a session; Supermemory works on it in the background. A document that is there as it is stays."""
        for document_id, content, told in self._made(session):
            self._client.add(
                self._namespace,
                content=content,
                id=document_id,
                date=f"{session.date.isoformat()}Z",
                metadata={"session": session.id, "date": session.date.isoformat(), **told},
                dreaming=self._dreaming,
            )

    def _made(self, session: "Session") -> Iterator[tuple[str, str, dict[str, str]]]:
        """The documents of a session: id, text and what else is told of each."""
        lines = [(one, f"{one.speaker or one.role}: {one.content}") for one in session.messages]
        if self._documents == "session":
            yield session.id, "\n\n".join(line for _, line in lines), {}
        else:
            for one, line in lines:
                if one.content.strip():  # An empty document is refused.
                    yield one.id, line, {"message": one.id, "speaker": one.speaker or one.role}

    def forget(self, session: "Session") -> None:
        """Remove the documents of a session, with what was formed of them."""
        self._client.documents.delete(self._namespace, ids=[one for one, _, _ in self._made(session)])

    def ready(self) -> dict[str, object]:
        """Whether every document is indexed and its memories are formed."""
        states: dict[str, str] = {}
        for document in self._listed():
            session_id = document.metadata.get("session", "")
            state = "failed" if document.system.status in _FAILED else "done"
            if state == "done" and (document.system.status != "done" or document.system.dreaming_status != "done"):
                state = "pending"
            states[session_id] = max(states.get(session_id, ""), state, key=["", "done", "pending", "failed"].index)
        counts = list(states.values())
        if pending := counts.count("pending"):
            return {"state": "pending", "done": counts.count("done"), "pending": pending}
        failed = [
            {"batch_id": one, "error": "Supermemory could not process it"}
            for one, state in states.items()
            if state == "failed"
        ]
        return {"state": "ready", "done": counts.count("done"), "failed": failed}

    def search(self, query: str, *, date: datetime, limit: int) -> Hits:
        """What Supermemory's own search finds in the namespace."""
        named = {"rerank": self._rerank} if self._rerank else {}
        try:
            found = self._client.search(
                self._namespace,
                query=query,
                search_mode=self._mode,
                limit=limit,
                include={"documents": True},
                **named,
            )
        except self._missing:
            return []
        return [_hit(result) for result in found.results]

    def list(self) -> Hits:
        """All documents."""
        return [
            {"text": document.content or document.summary or "", "kind": "message", **_source(document.metadata)}
            for document in self._listed(content=True)
        ]

    def _listed(self, *, content: bool = False) -> Iterator[Any]:
        page = 1
        while True:
            try:
                listed = self._client.list(
                    self._namespace, "documents", page=page, limit=_PAGE, include={"content": content}
                )
            except self._missing:
                return
            yield from listed.documents
            if page >= listed.pagination.total_pages:
                return
            page += 1

    def reference(self) -> str:
        """The namespace."""
        return self._namespace

    def reset(self) -> None:
        """Delete the namespace with all that is in it."""
        try:
            self._client.namespaces.delete(self._namespace)
        except self._missing:
            return


def _hit(result: Result) -> dict[str, object]:
    """A memory or a passage, with the document it is from."""
    document = result.included.document if result.included else None
    told = document.metadata if document else result.metadata
    return {
        "text": result.memory or result.chunk or "",
        "kind": "fact" if result.memory else "message",
        "score": result.similarity,
        **_source(told),
    }


def _source(told: Mapping[str, Any]) -> dict[str, object]:
    """Where something is from: the date is ours, which Supermemory keeps with the document."""
    return {
        "date": told.get("date"),
        "speaker": told.get("speaker", ""),
        "session_ids": [told["session"]] if told.get("session") else [],
        "message_ids": [told["message"]] if told.get("message") else [],
    }
