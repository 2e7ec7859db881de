"""LangMem by the two methods of a memory, over LangGraph's SQLite store; with `mode="raw"` the store alone.

Runs in an environment of its own, where longmemeval is not.
"""

import inspect
import json
import shutil
import sqlite3
import sys
from collections.abc import Mapping
from datetime import datetime
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from longmemeval.memory.external.serve import Session

_KEY = "longmemeval"
_PAGE = 100
_NAMESPACE = ("history", "memories")


class LangMem:
    """Memories that a chat model extracts from each session and keeps up to date.

    Args:
        folder: an empty one to work in.
        chat_base_url: of the model that extracts, by the OpenAI API; empty: as the environment says.
        chat_model: its name.
        embedding_base_url: where vectors come from, likewise.
        embedding_model: what makes them there.
        embedding_dimension: their length; 0: one text is embedded to see.
        mode: `extract`, or `raw`: every message is stored as it is, and no model is asked.
        deletes: whether the model may remove memories.
    """

    packages: ClassVar = ("langmem", "langgraph", "langgraph-checkpoint-sqlite", "langchain-openai", "trustcall")
    capabilities: ClassVar[Mapping[str, object]] = {
        "dates": "text",
        "provenance": "session",
        "unit": "session",
        "max_parallel": 4,
        "signals": ["vectors"],
        "telemetry": "off",
    }

    def __init__(
        self,
        folder: str,
        chat_base_url: str = "",
        chat_model: str = "gpt-4o-mini",
        embedding_base_url: str = "",
        embedding_model: str = "text-embedding-3-small",
        embedding_dimension: int = 0,
        mode: str = "extract",
        deletes: bool = True,
    ) -> None:
        if mode not in ("extract", "raw"):
            raise ValueError(f"mode is extract or raw, not {mode}")
        self._folder, self._mode, self._deletes = Path(folder), mode, deletes
        openai: Any = import_module("langchain_openai")
        self._embed: Any = openai.OpenAIEmbeddings(
            model=embedding_model, check_embedding_ctx_length=False, **_at(embedding_base_url)
        )
        self._model: Any = None
        if mode == "extract":
            self._model = openai.ChatOpenAI(model=chat_model, temperature=0, **_at(chat_base_url))
        self._dimension = embedding_dimension or len(self._embed.embed_query("dimension"))
        self._sources: dict[str, dict[str, Any]] = {}
        self._open()

    def _open(self) -> None:
        database: Any = _sqlite_with_extensions()
        store: Any = import_module("langgraph.store.sqlite")
        index: dict[str, Any] = {"dims": self._dimension, "embed": self._embed}
        if self._mode == "raw":
            index["fields"] = ["text"]
        file = str(self._folder / "store.db")
        self._connection: Any = database.connect(file, check_same_thread=False, isolation_level=None)
        self._store: Any = store.SqliteStore(self._connection, index=index)
        self._store.setup()

    def add(self, session: "Session") -> None:
        """Have the model keep its memories up to date by a session, or store its messages."""
        if self._mode == "raw":
            for one in session.messages:
                told = {"text": one.content, "speaker": one.speaker or one.role, "date": session.date.isoformat()}
                self._store.put(_NAMESPACE, one.id, {**told, "session": session.id})
            return
        create: Any = import_module("langmem").create_memory_store_manager
        usual = inspect.signature(create).parameters["instructions"].default
        manager = create(
            self._model,
            namespace=_NAMESPACE,
            store=self._store,
            enable_deletes=self._deletes,
            # The product has no place for a date.
            instructions=f"{usual}\n\nThe conversation took place on {session.date:%A, %d %B %Y, %H:%M}.",
        )
        messages = [
            {"role": one.role, "content": f"{one.speaker}: {one.content}" if one.speaker else one.content}
            for one in session.messages
        ]
        for written in manager.invoke({"messages": messages}):
            source = self._sources.setdefault(written["key"], {"sessions": []})
            source["sessions"] = [*dict.fromkeys([*source["sessions"], session.id])]
            source["date"] = session.date.isoformat()

    def search(self, query: str, *, date: datetime, limit: int) -> "list[dict[str, object]]":
        """The memories, or messages, nearest to the question."""
        found = self._store.search(_NAMESPACE, query=query, limit=limit)
        return [{**self._hit(item.key, item.value), "score": item.score} for item in found]

    def list(self) -> "list[dict[str, object]]":
        """All that is stored."""
        hits: list[dict[str, object]] = []
        while found := self._store.search(_NAMESPACE, limit=_PAGE, offset=len(hits)):
            hits += [self._hit(item.key, item.value) for item in found]
        return hits

    def _hit(self, key: str, told: Mapping[str, Any]) -> dict[str, object]:
        if self._mode == "raw":
            fixed = {"kind": "message", "text": told["text"], "speaker": told["speaker"], "date": told["date"]}
            return {**fixed, "message_ids": [key], "session_ids": [told["session"]]}
        content = told["content"]
        text = content["content"] if set(content) == {"content"} else json.dumps(content)
        source = self._sources[key]
        return {"kind": "fact", "text": text, "date": source["date"], "session_ids": source["sessions"]}

    def save(self, folder: str) -> None:
        """Write everything to `folder`."""
        self.close()  # What SQLite has in its log is in the file then.
        shutil.copyfile(self._folder / "store.db", Path(folder) / "store.db")
        (Path(folder) / "sources.json").write_text(json.dumps(self._sources))
        self._open()

    def load(self, folder: str) -> None:
        """Take up what was saved; it is not written to."""
        self.close()
        for file in self._folder.glob("store.db*"):
            file.unlink()
        shutil.copyfile(Path(folder) / "store.db", self._folder / "store.db")
        self._sources = json.loads((Path(folder) / "sources.json").read_text())
        self._open()

    def close(self) -> None:
        """Close the database."""
        self._connection.close()


def _at(base_url: str) -> dict[str, str]:
    """Where a client is to call; nothing: as it is configured by the environment."""
    return {"base_url": base_url, "api_key": _KEY} if base_url else {}


def _sqlite_with_extensions() -> ModuleType:
    """SQLite that loads extensions, which not every Python is built with; the store needs one for vectors."""
    if not hasattr(sqlite3.Connection, "enable_load_extension"):
        sys.modules["sqlite3"] = import_module("pysqlite3")
    return sys.modules["sqlite3"]
