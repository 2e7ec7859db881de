"""Mem0's open-source version on disk: Qdrant for the vectors, SQLite for the history of memories.

Runs in an environment of its own: the standard library and the product are all it imports.
"""

import json
import logging
import os
import shutil
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

if TYPE_CHECKING:
    from longmemeval.memory.external.serve import Message, Session

Theirs: TypeAlias = Any
"""An object of the product, whose types are not known here."""

_KEY, _USER, _USUAL_DIMENSION = "longmemeval", "history", 1536
_ALL = 1_000_000
_USERS = "users.json"
_SESSION, _MESSAGES = "session_id", "message_ids"

_session_date: ContextVar[datetime | None] = ContextVar("session_date", default=None)


def _product() -> Theirs:
    """The product, which reads these variables when it is imported."""
    os.environ.setdefault("MEM0_TELEMETRY", "False")
    # For what it would write to the home folder.
    os.environ.setdefault("MEM0_DIR", str(Path(sys.prefix) / "mem0-home"))
    return import_module("mem0")


class _Capabilities:
    """What is told of the class, found out when it is asked for: importing this file loads nothing."""

    def __get__(self, instance: object, owner: type) -> Mapping[str, object]:
        sent = os.environ.get("MEM0_TELEMETRY", "False").lower() in ("true", "1", "yes")
        return {
            "dates": "native",
            "provenance": "session",
            "unit": "session",
            "signals": _signals(),
            "telemetry": "on" if sent else "off",
        }


def _signals() -> list[str]:
    """What its search goes by here: words need fastembed's BM25 model, entities spaCy's English one."""
    active = ["vectors"]
    if find_spec("fastembed"):
        try:
            import_module("fastembed").SparseTextEmbedding(model_name="Qdrant/bm25")
            active.append("words")
        except Exception as error:
            logging.getLogger(__name__).warning("No BM25 model: %s", error)
    if find_spec("spacy") and find_spec("en_core_web_sm"):
        active.append("entities")
    return active


class Mem0:
    """Mem0: facts that a chat model extracts from each session, found by their vectors.

    Args:
        folder: empty, to work in.
        per: what one `add` of the product gets: a `session`, a `pair` of a user's message with what follows it, or
            `two` messages.
        users: whose memories they are: `one` user's, or those of each of the named `speakers`, who is the user in them
            while the others are the assistant.
        instructions: for the extraction, besides the product's own.
        threshold: the least score of a memory that is found.
        infer: whether a chat model extracts facts; without it messages are stored as they are.
        chat_base_url: where that model is called; as the product is configured itself if it is empty.
        chat_model: which one.
        embedding_base_url: where vectors are made; the same.
        embedding_model: by which model.
        embedding_dimension: how long they are.
    """

    capabilities: ClassVar = _Capabilities()
    packages: ClassVar = ("mem0ai", "qdrant-client", "openai")

    def __init__(
        self,
        folder: Path,
        per: str = "session",
        infer: bool = True,
        users: str = "one",
        instructions: str = "",
        threshold: float = 0.0,
        chat_base_url: str = "",
        chat_model: str = "",
        embedding_base_url: str = "",
        embedding_model: str = "",
        embedding_dimension: int = _USUAL_DIMENSION,
    ) -> None:
        if per not in ("session", "pair", "two"):
            raise ValueError(f"per is 'session', 'pair' or 'two', not '{per}'")
        if users not in ("one", "speakers"):
            raise ValueError(f"users is 'one' or 'speakers', not '{users}'")
        self._by_speaker, self._threshold = users == "speakers", threshold
        self._folder, self._per, self._infer = Path(folder), per, infer
        chat, embedder = _endpoint(chat_base_url, chat_model), _endpoint(embedding_base_url, embedding_model)
        vectors = {"collection_name": "memories", "embedding_model_dims": embedding_dimension, "on_disk": True}
        self._configuration = {
            "llm": {"provider": "openai", "config": chat},
            "embedder": {"provider": "openai", "config": embedder},
            "vector_store": {"provider": "qdrant", "config": {**vectors, "path": str(self._folder / "qdrant")}},
            "history_db_path": str(self._folder / "history.db"),
            **({"custom_instructions": instructions} if instructions else {}),
        }
        if chat_base_url:
            # Where it is set, the product calls OpenRouter, whatever it is told.
            os.environ.pop("OPENROUTER_API_KEY", None)
        self._opened: Theirs = None
        self._changed = False

    @property
    def _memory(self) -> Theirs:
        if self._opened is None:
            product = _product()
            _date_the_extraction()
            self._opened = product.Memory.from_config(self._configuration)
        return self._opened

    def add(self, session: "Session") -> None:
        """Hand a session over.

        Raises:
            RuntimeError: the product logged that something of it is lost, which it passes over.
        """
        if not self._infer:
            groups = list(_pairs(session.messages))
        elif self._per == "two":
            groups = [list(session.messages[start : start + 2]) for start in range(0, len(session.messages), 2)]
        else:
            groups = [list(session.messages)] if self._per == "session" else list(_pairs(session.messages))
        for user in self._users_in(session):
            for messages in groups:
                self._add(session, messages, user)

    def _users_in(self, session: "Session") -> list[str]:
        """Whose memories a session gives; those of speakers are noted, for searches."""
        named = [_id_of(one) for one in session.messages if one.speaker] if self._by_speaker else []
        users = list(dict.fromkeys(named)) or [_USER]
        if self._by_speaker:
            (self._folder / _USERS).write_text(json.dumps(list(dict.fromkeys([*self._users, *users]))))
        return users

    @property
    def _users(self) -> list[str]:
        """Whose memories there are."""
        noted = self._folder / _USERS
        users: list[str] = json.loads(noted.read_text()) if noted.exists() else [] if self._by_speaker else [_USER]
        return users

    def _add(self, session: "Session", messages: "Sequence[Message]", user: str) -> None:
        self._changed = True
        metadata: dict[str, Any] = {"created_at": session.date.isoformat(), _SESSION: session.id}
        if not self._infer:
            for one in messages:
                if one.content.strip():
                    sent = {"role": one.role, "content": one.content, **({"name": one.speaker} if one.speaker else {})}
                    told = {**metadata, _MESSAGES: [one.id]}
                    self._memory.add([sent], user_id=user, infer=False, metadata=told)
            return
        if self._per != "session":
            metadata[_MESSAGES] = [one.id for one in messages]
        before = _session_date.set(session.date)
        try:
            with _losses_raised():
                self._memory.add([_named(one, user) for one in messages], user_id=user, metadata=metadata)
        finally:
            _session_date.reset(before)

    def search(self, query: str, *, date: datetime, limit: int) -> "list[dict[str, Any]]":
        """The best memories; it has no search as of a date."""
        if self._changed:  # Qdrant breaks ties by the order in which it holds its points: always that on disk.
            self.close()
        users = self._users
        found: list[Any] = []
        for user in users:
            most = max(1, limit // len(users))
            filters = {"user_id": user}
            found += self._memory.search(query, top_k=most, filters=filters, threshold=self._threshold)["results"]
        if len(users) > 1:
            found.sort(key=lambda one: one.get("score") or 0.0, reverse=True)
        return [self._hit(one) for one in found]

    def _hit(self, found: Mapping[str, Any]) -> dict[str, Any]:
        told = found.get("metadata") or {}
        return {
            "text": found["memory"],
            "kind": "fact" if self._infer else "message",
            "date": found["created_at"],
            "score": found.get("score"),
            "speaker": "" if self._infer else found.get("actor_id") or found.get("role") or "",
            "message_ids": told.get(_MESSAGES, ()),
            "session_ids": [told[_SESSION]],
        }

    def list(self) -> list[dict[str, Any]]:
        """All memories."""
        return [self._hit(one) for one in self._everything()]

    def _everything(self) -> Sequence[Any]:
        every = (self._memory.get_all(filters={"user_id": user}, top_k=_ALL)["results"] for user in self._users)
        return [one for found in every for one in found]

    def forget(self, session: "Session") -> None:
        """Remove what an attempt at adding a session left that did not come to its end."""
        for one in self._everything():
            if (one.get("metadata") or {}).get(_SESSION) == session.id:
                self._memory.delete(one["id"])
        self._changed = True

    def save(self, folder: Path) -> None:
        """Copy both databases, in which every write is committed."""
        _ = self._memory
        shutil.copytree(self._folder, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns(".lock"))

    def load(self, folder: Path) -> None:
        """Take up what was saved."""
        self.close()
        shutil.copytree(folder, self._folder, dirs_exist_ok=True)
        _ = self._memory  # Opening it is no part of a search.

    def reset(self) -> None:
        """Begin anew, without what was added."""
        self.close()
        for one in self._folder.iterdir():
            shutil.rmtree(one) if one.is_dir() else one.unlink()

    def close(self) -> None:
        """Close both databases."""
        if self._opened is not None:
            self._opened.vector_store.client.close()
            self._opened.close()
            self._opened = None
        self._changed = False


def _endpoint(base_url: str, model: str) -> dict[str, Any]:
    """The configuration of one of the product's OpenAI clients."""
    where = {"openai_base_url": base_url, "api_key": _KEY} if base_url else {}
    return {**where, "model": model} if model else where


def _id_of(message: "Message") -> str:
    """The id of a speaker as a user."""
    return "_".join(message.speaker.split())


def _named(message: "Message", user: str) -> dict[str, str]:
    """A message as the product takes it. It leaves names out of its prompt: they go before the text."""
    content = f"{message.speaker}: {message.content}" if message.speaker else message.content
    role = message.role if user == _USER else "user" if _id_of(message) == user else "assistant"
    return {"role": role, "content": content}


def _pairs(messages: "Sequence[Message]") -> "Iterator[list[Message]]":
    """Each user's message with what follows it."""
    pair: list[Message] = []
    for message in messages:
        if pair and message.role == "user":
            yield pair
            pair = []
        pair.append(message)
    if pair:
        yield pair


def _date_the_extraction() -> None:
    """Have the product's prompt of extraction say the date of the session where it says that of today.

    Its builder takes both dates, "Observation Date" and "Current Date", as arguments; the open-source `Memory.add`
    passes neither (and refuses `timestamp=`), so that both were today's. Nothing else of the prompt is changed.

    Raises:
        RuntimeError: this version has no such builder, so the date cannot be told.
    """
    module: Theirs = import_module("mem0.memory.main")
    build = getattr(module, "generate_additive_extraction_prompt", None)
    if build is None:
        raise RuntimeError("this version of mem0ai builds its prompt elsewhere: the session's date cannot be told")
    if not isinstance(build, _Dated):
        module.generate_additive_extraction_prompt = _Dated(build)


class _Dated:
    """The product's builder, called with the date of the session that is being added.

    Args:
        build: the builder.
    """

    def __init__(self, build: Callable[..., str]) -> None:
        self._build = build

    def __call__(self, *arguments: object, **named: object) -> str:
        if date := _session_date.get():
            day = date.date().isoformat()
            named |= {"timestamp": day, "current_date": day}
        return self._build(*arguments, **named)


@contextmanager
def _losses_raised() -> Iterator[None]:
    """Raise what the product only logs: a reply it cannot parse is to it a session without facts."""
    lost: list[str] = []
    thread = threading.get_ident()

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            text = record.getMessage()
            if record.thread == thread and (record.levelno >= logging.ERROR or text.startswith("Failed to")):
                lost.append(text)

    handler, logger = Handler(logging.WARNING), logging.getLogger("mem0.memory.main")
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
    if lost:
        raise RuntimeError(f"mem0 logged: {lost[0]}")
