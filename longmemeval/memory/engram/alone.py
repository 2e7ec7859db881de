"""The engine with a search of its own: a memory to use from Python, without the harness."""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from longmemeval.embedding.hashing import HashingEmbedder
from longmemeval.embedding.protocol import Embedder
from longmemeval.event_loop import complete
from longmemeval.llm.tokens import CharacterCounter
from longmemeval.memory.engram.engine import Engine, Extractor
from longmemeval.memory.engram.memory import LeanEngram
from longmemeval.memory.engram.parameters import LeanParameters
from longmemeval.memory.engram.part import FACT_VECTORS, FACTS, FactsFile, thread_of
from longmemeval.memory.engram.ranking import OpenedParts
from longmemeval.memory.engram.summaries import summaries
from longmemeval.memory.engram.timeline import Decide, unclear
from longmemeval.memory.protocol import MemoryTools
from longmemeval.records import Message, Question, RecalledItem
from longmemeval.retrieval.message_vectors import VECTORS
from longmemeval.storage.format import FORMAT
from longmemeval.storage.memory_store import MemoryStore, Thread
from longmemeval.storage.vector_file import EmbedderIdentity, VectorItem
from longmemeval.storage.vector_store import VectorStore
from longmemeval.storage.vectors_part import OpenVectors


class Engram(Engine):
    """Episodes of one person, or of people who talk to each other, the facts that follow, and a search over both.

    Args:
        path: the file it is kept in, read if it exists; None: in memory alone.
        extractor: reads claims; the rules unless given.
        decide: asked of contradictions that nothing else can settle, a chat model say.
        embedder: for the search; the hashing embedder unless given. Vectors are not stored.

    Raises:
        FixtureError: the file is damaged or of a newer format.
    """

    def __init__(
        self,
        path: Path | str | None = None,
        extractor: Extractor | None = None,
        decide: Decide = unclear,
        embedder: Embedder | None = None,
    ) -> None:
        super().__init__(path, extractor, decide)
        self._embedder: Embedder = embedder or HashingEmbedder()
        self._view: tuple[int, OpenedParts] | None = None

    def search(self, query: str, *, as_of: datetime | None = None, budget: int = 1000) -> list[RecalledItem]:
        """What a model should see to answer: facts, then messages in the order of time, as `engram-lean` recalls them.

        Args:
            query: the question.
            as_of: the day it is asked; nothing said or learned later is found. None: by all that is known.
            budget: most tokens, by rule of thumb four characters each.
        """
        if not self.episodes:
            return []
        asked = as_of or max(max(one.event_at, one.ingested_at) for one in self.episodes)
        settings = {"budget": budget, "as_of": as_of is not None}
        tools = MemoryTools(lambda text: self._embedder.embed([text])[0], count_tokens=CharacterCounter().count)
        memory = LeanEngram(LeanParameters.model_validate(settings), tools)
        question = Question("query", query, asked, f"{asked:%Y-%m-%d}", "memory")
        return list(complete(memory.recall(question, self._opened())).items)

    def _opened(self) -> OpenedParts:
        """What the search reads, made again when something was added or forgotten."""
        versions = self.ledger.store.versions()
        if self._view is None or self._view[0] != self.changes:
            store = _stored(self)
            facts = [(fact.version_id, thread_of(fact), fact.text) for fact in versions]
            messages = [(one.message_id, one.thread_id, one.content) for one in store.messages if one.content.strip()]
            opened = {
                VECTORS.name: self._embedded("messages", messages),
                FACTS.name: FactsFile(FORMAT, versions, summaries(store.messages, versions)),
                FACT_VECTORS.name: self._embedded("facts", facts),
            }
            self._view = (self.changes, OpenedParts(store, opened))
        return self._view[1]

    def _embedded(self, name: str, texts: Sequence[tuple[str, str, str]]) -> OpenVectors:
        store = VectorStore()
        store.create(name, self._embedder.dimension, engine="exact")
        items = [VectorItem(one, thread_id, number) for number, (one, thread_id, _) in enumerate(texts)]
        if items:
            store.upsert(name, items, self._embedder.embed([text for _, _, text in texts]))
        return OpenVectors(store, name, EmbedderIdentity(self._embedder.spec, self._embedder.fingerprint))


def _stored(engine: Engine) -> MemoryStore:
    """The episodes as messages, oldest session first."""
    store = MemoryStore("memory")
    starts: dict[str, datetime] = {}
    for episode in engine.episodes:
        starts.setdefault(episode.session_id, episode.event_at)
    for session_id in sorted(starts, key=starts.__getitem__):
        store.add_thread(Thread(session_id, store.resource.id, starts[session_id], starts[session_id]))
    in_order = sorted(engine.episodes, key=lambda one: starts[one.session_id])
    store.add_messages(
        Message(
            one.episode_id,
            one.session_id,
            "assistant" if one.role == "assistant" else "user",
            one.speaker,
            one.text,
            one.event_at,
            int(one.episode_id.rpartition(":")[2]),
        )
        for one in in_order
    )
    return store
