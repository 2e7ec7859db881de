"""The engine with its own search: a memory to use from Python, without the harness."""

import platform
from collections.abc import Sequence
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from longmemeval.core.arrays import Vector
from longmemeval.embedding.hashing import HashingEmbedder
from longmemeval.embedding.protocol import Embedder
from longmemeval.errors import HarnessError
from longmemeval.llm.options import named
from longmemeval.llm.protocol import ChatModel
from longmemeval.llm.registry import load_chat_model
from longmemeval.llm.tokens import CharacterCounter
from longmemeval.memory.engram.engine import Consolidation, Engine, Extractor, Forgotten
from longmemeval.memory.engram.fact_memory import LeanEngram
from longmemeval.memory.engram.parameters import LeanParameters
from longmemeval.memory.engram.part import FACTS, FactsFile, thread_of
from longmemeval.memory.engram.profiles import summaries
from longmemeval.memory.engram.recall import OpenedParts
from longmemeval.memory.engram.stores.embedded import Stores, fill_vectors
from longmemeval.memory.engram.stores.kinds import Namespace, store_kind
from longmemeval.memory.engram.stores.opening import namespace, open_facts, open_vectors, stores_key
from longmemeval.memory.engram.timeline import Decide
from longmemeval.memory.protocol import MemoryTools
from longmemeval.ranking.message_vectors import VECTORS
from longmemeval.ranking.word_counts import TextWords, Vocabulary, WordCounts
from longmemeval.records import Message, Question, RecalledItem, Session
from longmemeval.storage.memory_store import MemoryStore, Thread
from longmemeval.storage.part_files import FORMAT
from longmemeval.storage.vector_index import EmbedderIdentity, VectorIndex, VectorItem


class _ReadText(NamedTuple):
    """A text's vector and words, as the search needs them."""

    vector: Vector
    words: TextWords


class Engram(Engine):
    """Bi-temporal memory: episodes of one or more people, the facts extracted from them, and a search over both.

    Args:
        path: the file of the engine, read if it exists; None: in memory only.
        extractor: reads claims; None: the rules.
        decide: called for contradictions that nothing else can resolve; by default the chat model.
        embedder: for the search; by default the hashing embedder. Vectors are kept in memory and not stored.
        chat_model: the model, or its name, that reads facts at `consolidate` instead of the extractor. None: rules
            read them at once.
        fact_prompt: the instruction to the chat model; None: the built-in text.
        store: where facts are looked up: `embedded`, `falkordb`, `ladybug`, `postgres` or one from another package. A
            database is filled from the file, follows additions and removals, and needs a path.
        vectors: where their vectors are searched: `embedded`, `postgres`, `qdrant`, `lancedb` or one from another
            package.

    Raises:
        FixtureError: the file is damaged or of a newer format.
        FatalModelError: the chat model cannot be called.
        HarnessError: a store is unknown, not installed or not reachable, or has no path.
    """

    def __init__(
        self,
        path: Path | str | None = None,
        extractor: Extractor | None = None,
        decide: Decide | None = None,
        embedder: Embedder | None = None,
        *,
        chat_model: ChatModel | str | None = None,
        fact_prompt: str | None = None,
        store: str = "embedded",
        vectors: str = "embedded",
    ) -> None:
        self.chat_model = load_chat_model(*named(chat_model)) if isinstance(chat_model, str) else chat_model
        chat = Consolidation(self.chat_model, fact_prompt) if self.chat_model else None
        self._names = (store, vectors)
        self.place = _place_of(path, self._names)
        """The namespace in a database."""
        database = None if store_kind(store, "facts").in_memory else open_facts(store, self.place)
        super().__init__(path, extractor, decide, chat, database)
        self._embedder: Embedder = embedder or HashingEmbedder()
        self._vectors = open_vectors(vectors, self.place)

    def _clear(self) -> None:
        super()._clear()
        self._view: tuple[int, OpenedParts] | None = None
        self._vocabulary = Vocabulary()
        self._read_texts: dict[str, _ReadText] = {}

    def add(self, session: Session, learned_at: datetime | None = None) -> None:
        """Add a session as `Engine.add` does; its turns are embedded and counted at once."""
        super().add(session, learned_at)
        self._texts([turn.content for turn in session.turns])

    def close(self) -> None:
        """Close databases that are files, so that another process may open them; the next question reopens them."""
        self.fact_store.close()
        self._vectors.close()

    def forget(
        self, *, subject: str | None = None, session_id: str | None = None, before: datetime | None = None
    ) -> Forgotten:
        """Forget as `Engine.forget` does; the vectors are removed, and the next search stores them again."""
        gone = super().forget(subject=subject, session_id=session_id, before=before)
        self._vectors.remove()
        return gone

    def search(self, query: str, *, as_of: datetime | None = None, budget: int = 1000) -> list[RecalledItem]:
        """Return facts, then messages in time order, for a model to answer from, as `engram-lean` recalls them.

        Args:
            query: the question.
            as_of: the date of the question; nothing said or learned later is found. None: search everything known.
            budget: maximum tokens, estimated as four characters each.
        """
        if self.latest is None:
            return []
        asked_on = as_of or self.latest
        store, vectors = self._names
        settings = {"budget": budget, "as_of": as_of is not None, "store": store, "vectors": vectors}
        embed = cache(lambda text: self._embedder.embed([text])[0])
        tools = MemoryTools(embed, count_tokens=CharacterCounter().count)
        memory = LeanEngram(LeanParameters.model_validate(settings), tools)
        question = Question("query", query, asked_on, f"{asked_on:%Y-%m-%d}", "memory")
        return list(memory.recalled(question, self._opened()).items)

    def _opened(self) -> OpenedParts:
        """Return the parts that the search reads, rebuilt after additions and removals."""
        if self._view is None or self._view[0] != self.changes:
            store, versions = _message_store(self), self.ledger.store.versions()
            facts = [(fact.version_id, thread_of(fact), fact.text) for fact in versions]
            self._texts([text for _, _, text in facts])
            messages = [
                (message.message_id, message.thread_id, message.content)
                for message in store.messages
                if message.content.strip()
            ]
            opened = {
                VECTORS.name: self._embedded("messages", messages),
                FACTS.name: FactsFile(FORMAT, versions, summaries(store.messages, versions)),
            }
            view = OpenedParts(store, opened, self._counted)
            self._vectors = open_vectors(self._names[1], self.place)
            fill_vectors(self._vectors, versions, self._embedded("facts", facts).rows()[1])
            view.cached(stores_key(*self._names), lambda: Stores(self.fact_store, self._vectors))
            self._view = (self.changes, view)
        return self._view[1]

    def _counted(self, texts: Sequence[str]) -> WordCounts:
        return self._vocabulary.counts([read.words for read in self._texts(texts)])

    def _texts(self, texts: Sequence[str]) -> list[_ReadText]:
        """Return vectors and words of texts; new ones that are not blank are embedded in one batch."""
        fresh = [text for text in dict.fromkeys(texts) if text not in self._read_texts]
        filled = [text for text in fresh if text.strip()]
        vectors = dict(zip(filled, self._embedder.embed(filled), strict=True)) if filled else {}
        zero = np.zeros(self._embedder.dimension, np.float32)
        for text in fresh:
            self._read_texts[text] = _ReadText(vectors.get(text, zero), self._vocabulary.read(text))
        return [self._read_texts[text] for text in texts]

    def _embedded(self, name: str, texts: Sequence[tuple[str, str, str]]) -> VectorIndex:
        items = [VectorItem(text_id, thread_id, number) for number, (text_id, thread_id, _) in enumerate(texts)]
        vectors = [read.vector for read in self._texts([text for _, _, text in texts])]
        rows = np.stack(vectors) if vectors else np.zeros((0, self._embedder.dimension), np.float32)
        return VectorIndex.of(name, items, rows, EmbedderIdentity(self._embedder.spec, self._embedder.fingerprint))


def _place_of(path: Path | str | None, names: tuple[str, str]) -> Namespace:
    """Return the namespace of a file, unique on this machine; files of databases lie beside it."""
    if path is None:
        if not (store_kind(names[0], "facts").in_memory and store_kind(names[1], "vectors").in_memory):
            raise HarnessError(
                "A memory without a path cannot have a database", fix="Give it a path when you create it"
            )
        return namespace("memory", "", Path())
    file = Path(path).resolve()
    return namespace(file.stem, f"{platform.node()}:{file}", file.with_name(f"{file.name}.stores"))


def _message_store(engine: Engine) -> MemoryStore:
    """Return the episodes as messages, oldest session first."""
    store = MemoryStore("memory")
    starts: dict[str, datetime] = {}
    for episode in engine.episodes:
        starts.setdefault(episode.session_id, episode.event_at)
    for session_id in sorted(starts, key=starts.__getitem__):
        store.add_thread(Thread(session_id, store.resource.id, starts[session_id], starts[session_id]))
    in_order = sorted(engine.episodes, key=lambda episode: starts[episode.session_id])
    store.add_messages(
        Message(
            episode.episode_id,
            episode.session_id,
            "assistant" if episode.role == "assistant" else "user",
            episode.speaker,
            episode.text,
            episode.event_at,
            int(episode.episode_id.rpartition(":")[2]),
        )
        for episode in in_order
    )
    return store
