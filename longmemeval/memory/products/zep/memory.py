"""Zep by the two methods of a memory: a history is a user, a session a thread, a message an episode of a graph.

Runs in the environment of Zep's own client, where longmemeval is not. The key is read from ZEP_API_KEY by that client.
"""

import time
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from importlib import import_module
from secrets import token_hex
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

if TYPE_CHECKING:
    from longmemeval.memory.external.serve import Message, Session

_TOGETHER = 30
"""Messages in one request, the most that Zep takes."""
_PAGE = 50
_LOOK_AGAIN_S, _LONGEST_S = 0.1, 50.0
"""Between two questions whether a user is deleted, and how long it may take."""

Hits = list[dict[str, object]]


class Episode(Protocol):
    """What of an episode is used."""

    uuid_: str
    content: str | None
    metadata: dict[str, str] | None
    processed: bool | None
    reference_time: str | None
    role: str | None
    role_name: str | None
    score: float | None


class Edge(Protocol):
    """What of an edge of the graph is used."""

    fact: str | None
    episode_uuids: list[str] | None
    valid_at: str | None
    invalid_at: str | None
    score: float | None


class ZepMemory:
    """The facts of a user's graph, and the messages they were read from.

    Args:
        scope: what the user is called.
        reference: the user's id at Zep, where the history is there already.
        base_url: of another server than Zep's own.
        items: what is recalled: `facts` (edges of the graph), `messages` (episodes) or `both`, half of each.
        reranker: how Zep orders what it found: `rrf`, `mmr`, `cross_encoder`, …; empty: as Zep does by itself.
        characters: longer messages are sent in pieces: Zep takes 2,500 on its free plan, 14,000 on others.
    """

    packages: ClassVar = ("zep-cloud",)
    capabilities: ClassVar[Mapping[str, object]] = {
        "dates": "native",
        "provenance": "message",
        "unit": "session",
        "max_parallel": 4,
        "models": "own",
        "signals": ["graph", "vectors", "words"],
        "telemetry": "unknown",
    }

    def __init__(
        self,
        scope: str,
        reference: str = "",
        base_url: str = "",
        items: str = "facts",
        reranker: str = "",
        characters: int = 2500,
    ) -> None:
        if items not in ("facts", "messages", "both"):
            raise ValueError(f"items is facts, messages or both, not {items}")
        self._zep: Any = import_module("zep_cloud")
        self._client: Any = self._zep.Zep(base_url=base_url or None)
        self._scope, self._user = scope, reference
        self._items, self._reranker, self._characters = items, reranker, characters
        self._tasks: dict[str, list[str]] = {}
        """What Zep is still doing with the sessions that this object added."""
        self._failed: dict[str, str] = {}
        self._added: set[str] = set()
        self._earlier: dict[str, bool] | None = None
        """Sessions that were there before, and whether Zep has read them."""
        self._attempts: dict[str, str] = {}
        self._sources: dict[str, Episode] | None = None
        """Episodes by id, once they are asked for."""

    def add(self, session: "Session") -> None:
        """Send the messages of a session; Zep reads them in the background."""
        user = self._found_user() or self._client.user.create(user_id=self._scope).uuid_
        self._user, self._sources = user, None
        # The same request again, by a key of its own, changes nothing.
        key = f"{user}:{session.id}"
        attempt = self._attempts.get(session.id, "")
        thread = self._client.thread.create(user_uuid=user, idempotency_key=f"{key}:{attempt}").uuid_
        pieces = [piece for message in session.messages for piece in self._pieces(session, message)]
        tasks = []
        for start in range(0, len(pieces), _TOGETHER):
            added = self._client.thread.add_messages(
                thread, messages=pieces[start : start + _TOGETHER], idempotency_key=f"{thread}:{start}"
            )
            if added.task and added.task.uuid_:
                tasks.append(added.task.uuid_)
        self._tasks[session.id] = tasks
        self._added.add(session.id)

    def _pieces(self, session: "Session", message: "Message") -> Iterator[Any]:
        for start in range(0, max(1, len(message.content)), self._characters):
            yield self._zep.AddMessage(
                role=message.role,
                name=message.speaker or None,
                content=message.content[start : start + self._characters],
                reference_time=f"{session.date.isoformat()}Z",
                metadata={"message": message.id, "session": session.id},
            )

    def forget(self, session: "Session") -> None:
        """Remove the messages of a session, and what was read from them."""
        self._attempts[session.id] = token_hex(4)  # Another attempt is another request.
        self._tasks.pop(session.id, None)
        user = self._found_user()
        for episode in list(self._episodes(user)) if user else ():
            if (episode.metadata or {}).get("session") == session.id:
                self._client.graph.episode.delete(user, episode.uuid_)
        for thread in list(self._client.thread.list(user_uuid=user, page_size=_PAGE)) if user else ():
            first = next(iter(self._client.thread.list_messages(thread.uuid_, page_size=1)), None)
            if first is None or (first.metadata or {}).get("session") == session.id:
                self._client.thread.delete(thread.uuid_)
        self._sources = None

    def ready(self) -> dict[str, object]:
        """Whether Zep has read everything: its tasks, and of an earlier attempt the episodes themselves."""
        for session_id, tasks in list(self._tasks.items()):
            while tasks and (why := self._state(tasks[0])) != "pending":
                tasks.pop(0)
                if why:
                    self._failed[session_id] = why
                    tasks.clear()
            if not tasks:
                del self._tasks[session_id]
        if self._earlier is None or not all(self._earlier.values()):
            self._earlier = self._read_before()
        pending = len(self._tasks) + list(self._earlier.values()).count(False)
        done = len(self._added) + len(self._earlier) - pending - len(self._failed)
        if pending:
            return {"state": "pending", "done": done, "pending": pending}
        failed = [{"batch_id": session_id, "error": why} for session_id, why in self._failed.items()]
        self._added -= set(self._failed)
        self._failed.clear()
        return {"state": "ready", "done": done, "failed": failed}

    def _state(self, task_id: str) -> str:
        """`pending`, why it failed, or nothing: it is done."""
        task = self._client.task.get(task_id)
        if task.status == "succeeded":
            return ""
        if task.status not in ("failed", "partial"):
            return "pending"
        why = task.error.message if task.error and task.error.message else "it does not say why"
        return f"Zep's task {task.status}: {why}"

    def _read_before(self) -> dict[str, bool]:
        """Sessions that this object did not add, and whether all their episodes were read."""
        found: dict[str, bool] = {}
        for episode in self._episodes(self._user) if self._user else ():
            session_id = (episode.metadata or {}).get("session", "")
            if session_id not in self._added:
                found[session_id] = found.get(session_id, True) and bool(episode.processed)
        return found

    def search(self, query: str, *, date: datetime, limit: int) -> Hits:
        """What Zep's own search finds in the graph."""
        user = self._found_user()
        if not user:
            return []
        facts = limit if self._items == "facts" else 0 if self._items == "messages" else (limit + 1) // 2
        named = {"query": query, **({"reranker": self._reranker} if self._reranker else {})}
        found: Hits = []
        if facts:
            edges = self._client.graph.search_edges(user, page_size=facts, **named).items or []
            found += [self._fact(edge) for edge in edges[:facts]]
        if limit > facts:
            episodes = self._client.graph.search_episodes(user, page_size=limit - facts, **named).items or []
            found += [_said(episode) for episode in episodes[: limit - facts]]
        return found

    def _fact(self, edge: Edge) -> dict[str, object]:
        """A fact with the messages it was read from, and the time of the first of them: Zep's own clock is no date."""
        sources = [self._episode(one) for one in edge.episode_uuids or ()]
        told = [source.metadata or {} for source in sources if source]
        said = min((source.reference_time for source in sources if source and source.reference_time), default=None)
        return {
            "text": edge.fact or "",
            "kind": "fact",
            "date": said or edge.valid_at,
            "valid_from": edge.valid_at,
            "valid_to": edge.invalid_at,
            "score": edge.score,
            "message_ids": _once(one.get("message") for one in told),
            "session_ids": _once(one.get("session") for one in told),
        }

    def _episode(self, episode_id: str) -> Episode | None:
        if self._sources is None:
            self._sources = {episode.uuid_: episode for episode in self._episodes(self._user)}
        return self._sources.get(episode_id)

    def _episodes(self, user: str) -> Iterator[Episode]:
        yield from self._client.graph.episode.list(user, page_size=_PAGE)

    def list(self) -> Hits:
        """All episodes: the messages as Zep keeps them."""
        user = self._found_user()
        return [_said(episode) for episode in self._episodes(user)] if user else []

    def reference(self) -> str:
        """The user's id at Zep."""
        return self._found_user()

    def _found_user(self) -> str:
        """The id of the history's user; empty where there is none."""
        if not self._user:
            try:
                self._user = self._client.user.lookup(user_id=self._scope).uuid_
            except self._zep.NotFoundError:
                return ""
        return self._user

    def reset(self) -> None:
        """Delete the user with the graph and all threads, and wait until Zep says that it is done."""
        user = self._found_user()
        self._user, self._sources = "", None
        self._earlier = None
        for kept in (self._tasks, self._failed, self._added):
            kept.clear()
        if not user:
            return
        try:
            task = self._client.user.delete(user).task
        except self._zep.NotFoundError:
            return
        until = time.monotonic() + _LONGEST_S
        while task and task.uuid_ and task.status not in ("succeeded", "failed", "partial"):
            if time.monotonic() > until:
                raise TimeoutError(f"Zep did not delete user {user} within {_LONGEST_S:g} s")
            time.sleep(_LOOK_AGAIN_S)
            task = self._client.task.get(task.uuid_)
        if task and task.status in ("failed", "partial"):
            raise RuntimeError(f"Zep could not delete user {user}")


def _said(episode: Episode) -> dict[str, object]:
    """A message as Zep keeps it."""
    told = episode.metadata or {}
    return {
        "text": episode.content or "",
        "kind": "message",
        "date": episode.reference_time,
        "speaker": episode.role_name or episode.role or "",
        "score": episode.score,
        "message_ids": _once([told.get("message")]),
        "session_ids": _once([told.get("session")]),
    }


def _once(found: Iterable[str | None]) -> list[str]:
    return list(dict.fromkeys(one for one in found if one))
