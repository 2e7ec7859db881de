"""Chroma by the two methods of a memory: each message is a document with its vector, its date and its session.

Runs in Chroma's own environment, where longmemeval is not.
"""

import json
import shutil
import urllib.request
from collections.abc import Mapping, Sequence
from datetime import datetime
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from longmemeval.memory.external.serve import Session

_TOGETHER = 64
"""Texts in one request for vectors."""
_TIMEOUT_S = 120


class ChromaMemory:
    """Plain vectors: what every product should beat.

    Args:
        folder: an empty one to work in.
        embedding_base_url: where vectors come from, by the OpenAI API.
        embedding_model: what makes them there.
        space: how near two vectors are: `cosine`, `l2` or `ip`.
        per: what one document is: a `turn`, or a `session`.
        side: whose messages are kept: of `both`, or of the `user` alone.
    """

    packages: ClassVar = ("chromadb",)
    capabilities: ClassVar[Mapping[str, object]] = {
        "dates": "native",
        "provenance": "message",
        "unit": "session",
        "max_parallel": 4,
        "signals": ["vectors"],
        "telemetry": "off",
    }

    def __init__(
        self,
        folder: str,
        embedding_base_url: str = "",
        embedding_model: str = "default",
        space: str = "cosine",
        per: str = "turn",
        side: str = "both",
    ) -> None:
        if not embedding_base_url:
            raise ValueError("Chroma needs vectors: name an OpenAI-compatible endpoint, --set embedding_base_url=URL")
        if space not in ("cosine", "l2", "ip"):
            raise ValueError(f"space is cosine, l2 or ip, not {space}")
        if per not in ("turn", "session") or side not in ("both", "user"):
            raise ValueError(f"per is turn or session, side both or user, not {per} and {side}")
        self._folder, self._per, self._side = Path(folder), per, side
        self._address, self._model, self._space = f"{embedding_base_url.rstrip('/')}/embeddings", embedding_model, space
        self._open()

    def _open(self) -> None:
        chromadb: Any = import_module("chromadb")
        self._client: Any = chromadb.PersistentClient(
            str(self._folder / "chroma"), settings=chromadb.Settings(anonymized_telemetry=False)
        )
        self._messages: Any = self._client.get_or_create_collection(
            "messages", metadata={"hnsw:space": self._space}, embedding_function=None
        )

    def add(self, session: "Session") -> None:
        """Store the messages of a session, each with its vector."""
        kept = [one for one in session.messages if one.content.strip() and self._side in ("both", one.role)]
        if self._per == "session" and kept:
            text, found_in = "\n".join(one.content for one in kept), {"messages": json.dumps([one.id for one in kept])}
            told = {"session": session.id, "date": session.date.isoformat(), "speaker": "", **found_in}
            self._messages.upsert(
                ids=[session.id], documents=[text], embeddings=self._vectors([text]), metadatas=[told]
            )
            return
        messages = kept
        for start in range(0, len(messages), _TOGETHER):
            some = messages[start : start + _TOGETHER]
            self._messages.upsert(
                ids=[one.id for one in some],
                documents=[one.content for one in some],
                embeddings=self._vectors([one.content for one in some]),
                metadatas=[
                    {"session": session.id, "date": session.date.isoformat(), "speaker": one.speaker or one.role}
                    for one in some
                ],
            )

    def search(self, query: str, *, date: datetime, limit: int) -> "list[dict[str, object]]":
        """The messages nearest to the question."""
        count = min(limit, self._messages.count())
        if not count:
            return []
        found = self._messages.query(query_embeddings=self._vectors([query]), n_results=count)
        columns = (found[name][0] for name in ("ids", "documents", "metadatas"))
        return [
            {**_hit(*row), "score": 1 - distance}
            for *row, distance in zip(*columns, found["distances"][0], strict=True)
        ]

    def list(self) -> "list[dict[str, object]]":
        """All messages that are stored."""
        found = self._messages.get()
        return [_hit(*row) for row in zip(found["ids"], found["documents"], found["metadatas"], strict=True)]

    def save(self, folder: str) -> None:
        """Write everything to `folder`."""
        self.close()  # What SQLite has in its log is in the file then.
        shutil.copytree(self._folder / "chroma", Path(folder) / "chroma")
        self._open()

    def load(self, folder: str) -> None:
        """Take up what was saved; it is not written to."""
        self.close()
        shutil.rmtree(self._folder / "chroma", ignore_errors=True)
        shutil.copytree(Path(folder) / "chroma", self._folder / "chroma")
        self._open()

    def close(self) -> None:
        """Close the database."""
        self._client.close()

    def _vectors(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        body = json.dumps({"model": self._model, "input": texts, "encoding_format": "float"}).encode()
        headers = {"Content-Type": "application/json", "Authorization": "Bearer longmemeval"}
        request = urllib.request.Request(self._address, body, headers)
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as reply:
            data = json.load(reply)["data"]
        return [one["embedding"] for one in sorted(data, key=lambda one: int(one["index"]))]


def _hit(message_id: str, text: str, told: Mapping[str, str]) -> dict[str, object]:
    return {
        "text": text,
        "kind": "message",
        "message_ids": json.loads(told.get("messages", "null")) or [message_id],
        "session_ids": [told["session"]],
        "date": told["date"],
        "speaker": told["speaker"],
    }
