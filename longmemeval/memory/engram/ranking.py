"""Scores of facts and messages: four channels, five signals.

Channels: vectors, words, the graph from the question's entities, and recency with salience. Messages are ranked as
`hybrid` ranks them, unless the published profile is asked for; facts are a small history of their own, ranked by the
same code.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from msgspec import Struct

from longmemeval.arrays import Vector
from longmemeval.memory.engram.ledger import facts_at
from longmemeval.memory.engram.parameters import EngramParameters
from longmemeval.memory.engram.part import FACT_VECTORS, FACTS, thread_of
from longmemeval.memory.engram.records import Fact
from longmemeval.memory.engram.stores import EmbeddedFacts
from longmemeval.records import DatasetIdentity, FixtureMeta, Message, Question
from longmemeval.retrieval.fusion import fuse
from longmemeval.retrieval.history import Scores
from longmemeval.retrieval.lexical import LexicalParameters
from longmemeval.retrieval.message_vectors import VECTORS
from longmemeval.retrieval.retriever import Retriever, RetrieverParameters
from longmemeval.retrieval.word_counts import WORDS, count_words
from longmemeval.storage.fixture import Fixture
from longmemeval.storage.memory_store import MemoryStore, Thread
from longmemeval.storage.messages_part import MESSAGES
from longmemeval.storage.parts import Part
from longmemeval.storage.vector_file import VectorItem
from longmemeval.storage.vector_store import VectorStore
from longmemeval.storage.vectors_part import OpenVectors

T = TypeVar("T")

_ASKS_NOW = re.compile(
    r"\b(?:current(?:ly)?|now(?:adays)?|at the moment|these days|latest|newest|most recent(?:ly)?|still|so far"
    r"|any ?more|recently|today|last (?:time|week|month|year))\b",
    re.IGNORECASE,
)
_ALONE = LexicalParameters(window=(), session=0.0)
_DENSE = RetrieverParameters("dense", dense_window=(), speaker=0, statement=0, date=0)
_LEXICAL = RetrieverParameters("bm25", lexical=_ALONE, speaker=0, statement=0, date=0)
_FACTS = RetrieverParameters(lexical=_ALONE, dense_window=(), statement=0)


class Ranked(Struct, frozen=True):
    """Things in the order of the history, each with its score."""

    scores: Scores
    order: list[int]
    """Places, best first, ties in the history's order."""


class OpenedParts(Fixture):
    """Parts in memory, for what reads a fixture.

    Args:
        store: the messages.
        parts: the others, by name, opened.
    """

    def __init__(self, store: MemoryStore, parts: Mapping[str, Any]) -> None:
        name = store.resource.id
        super().__init__(Path(), FixtureMeta(1, DatasetIdentity(name, ""), name, (), name, (), {}))
        words = count_words([message.content for message in store.messages])
        self._opened = {MESSAGES.name: store, WORDS.name: words, **parts}

    def part(self, part: Part[T]) -> T:
        """One of them."""
        found: T = self._opened[part.name]
        return found


class FactView(OpenedParts):
    """The facts believed at one moment as a history of messages, so that the retrievers of messages rank them.

    Args:
        fixture: of the haystack.
        facts: versions, of which one for each fact is believed.
    """

    def __init__(self, fixture: Fixture, facts: Sequence[Fact]) -> None:
        self.facts = list(facts)
        self.graph = EmbeddedFacts()
        for fact in facts:
            self.graph.append(fact)
        store = MemoryStore(f"{fixture.meta.haystack_id}#facts")
        for thread_id in dict.fromkeys(thread_of(fact) for fact in facts):
            date = fixture.memory.messages_of(thread_id)[0].created_at
            store.add_thread(Thread(thread_id, store.resource.id, date, date))
        store.add_messages(
            Message(fact.version_id, thread_of(fact), "user", fact.subject, fact.text, fact.created_at, number)
            for number, fact in enumerate(facts)
        )
        super().__init__(store, {VECTORS.name: _rows_of(fixture.part(FACT_VECTORS), facts)})


def _rows_of(vectors: OpenVectors, facts: Sequence[Fact]) -> OpenVectors:
    items, rows = vectors.rows()
    places = {item.id: place for place, item in enumerate(items)}
    chosen = [places[fact.version_id] for fact in facts]
    store = VectorStore()
    store.create("facts", rows.shape[1], engine="exact")
    named = [VectorItem(fact.version_id, thread_of(fact), number) for number, fact in enumerate(facts)]
    store.upsert("facts", named, rows[chosen])
    return OpenVectors(store, "facts", vectors.embedder)


def believed(fixture: Fixture, until: datetime | None) -> FactView:
    """The facts of a fixture as they were believed at a moment; None: at the end. Kept with the fixture."""
    versions = fixture.part(FACTS).facts
    moments = [fact.created_at for fact in versions if until is None or fact.created_at <= until]
    last = max(moments, default=None)
    return fixture.kept(
        ("engram", last if until is not None else None),
        lambda: FactView(fixture, facts_at(versions, None, last if until is not None else None) if moments else []),
    )


class FactRanker:
    """Ranks the facts of a history for a question.

    Args:
        parameters: fusion, weights, how far the graph is followed.
        embed_query: a text to its vector.
    """

    def __init__(self, parameters: EngramParameters, embed_query: Callable[[str], Vector]) -> None:
        self._parameters = parameters
        self._embed_query = embed_query

    def rank(self, question: Question, view: FactView) -> Ranked:
        """All facts of the view."""
        if not view.facts:
            return Ranked(np.zeros(0), [])
        parameters, weights = self._parameters, self._parameters.weights()
        extra = [
            (weights.graph, proximity(question.text, view, parameters.hops)),
            (weights.recency, recency(view.facts, question.date, parameters.recency_days)),
            (weights.salience, np.log1p([fact.salience for fact in view.facts])),
        ]
        if parameters.fusion == "published":
            semantic, lexical = signals(question.text, view, self._embed_query)
            return ranked(fuse([(weights.semantic, semantic), (weights.lexical, lexical), *extra], "ranks"))
        scores = Retriever(view, _FACTS, self._embed_query).scores([question.text])
        return ranked(scores + fuse(extra, "scores") if asks_now(question.text) else scores)


def ranked(scores: Scores) -> Ranked:
    """Scores with the order they give."""
    return Ranked(scores, np.argsort(-scores, kind="stable").tolist())


def signals(text: str, fixture: Fixture, embed_query: Callable[[str], Vector]) -> tuple[Scores, Scores]:
    """The dense and the lexical signal of every message of a fixture: no neighbours, no sessions, no priors.

    Args:
        text: the question's.
        fixture: messages, words and vectors.
        embed_query: a text to its vector.
    """
    dense, lexical = (Retriever(fixture, one, embed_query).scores([text]) for one in (_DENSE, _LEXICAL))
    return dense, lexical


def asks_now(question: str) -> bool:
    """Whether a question asks for what is so now, or was lately."""
    return _ASKS_NOW.search(question) is not None


def proximity(question: str, view: FactView, hops: int) -> Scores:
    """How near each fact is, in the graph, to what the question names: 1 at it, half for each hop."""
    known = dict.fromkeys(name for fact in view.facts for name in (fact.subject, fact.object))
    named = [name for name in known if _names(question, name)]
    distances = view.graph.distances(named, hops) if hops else {}
    near = [
        max((0.5 ** distances[name] for name in (fact.subject, fact.object) if name in distances), default=0.0)
        for fact in view.facts
    ]
    return np.array(near)


def _names(question: str, name: str) -> bool:
    if name == "user":
        return re.search(r"\b(?:I|me|my|mine)\b", question) is not None
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", question, re.IGNORECASE) is not None


def recency(facts: Iterable[Fact], now: datetime, days: float) -> Scores:
    """exp(-age / days) by event time: the later of when a fact began and when it was last said; never by the clock.

    0 days: 0 for every fact.
    """
    if not days:
        return np.zeros(len(list(facts)))
    ages = [max(0.0, (now - max(fact.valid_at, fact.created_at)).total_seconds() / 86400) for fact in facts]
    return np.exp(-np.array(ages) / days)
