"""Search entries by the words and vectors of their embedding texts, and by people and times in the question."""

import re
from collections.abc import Callable
from datetime import date

import numpy as np
from msgspec import Struct

from longmemeval.core.arrays import Vector
from longmemeval.core.text.dates_in_text.phrases import TimeRange, resolve_range
from longmemeval.memory.nodes.entries import Entry, text_of
from longmemeval.memory.nodes.parameters import NodeParameters
from longmemeval.memory.nodes.part import NodesPart, NodeVectors
from longmemeval.ranking.dense import DenseIndex
from longmemeval.ranking.fusion import fuse, order
from longmemeval.ranking.history import HistoryView, Scores
from longmemeval.ranking.lexical import LexicalIndex, LexicalParameters, Priors, without_names
from longmemeval.ranking.questions import apply_range, in_range
from longmemeval.ranking.retriever import text_to_embed
from longmemeval.records import Message, Question
from longmemeval.storage.fixture import Fixture
from longmemeval.storage.memory_store import MemoryStore, Thread

_LEXICAL = LexicalParameters(window=(), session=0.0)


class FoundEntry(Struct, frozen=True):
    """An entry in a ranking."""

    entry: Entry
    score: float


class _Index(Struct, frozen=True):
    """The index of the entries of one fixture."""

    entries: tuple[Entry, ...]
    history: HistoryView
    """The entries as if they were messages, so that the ranking of messages ranks them."""
    lexical: LexicalIndex
    dense: DenseIndex
    priors: Priors
    people: tuple[str, ...]
    """The people that each entry is about, in lower case."""
    days: tuple[tuple[date, date], ...]
    """The days that each entry is about: those of its node's filter field, else the day on which it was said."""


class EntrySearch:
    """Ranks the entries of a fixture.

    Args:
        nodes: the part with the entries.
        vectors: the part with their vectors.
        parameters: weights and filters of the ranking.
        embed_query: returns the vector of a text.
    """

    def __init__(
        self, nodes: NodesPart, vectors: NodeVectors, parameters: NodeParameters, embed_query: Callable[[str], Vector]
    ) -> None:
        self._nodes, self._vectors = nodes, vectors
        self._parameters, self._embed_query = parameters, embed_query

    def ranked(self, question: Question, fixture: Fixture) -> tuple[list[FoundEntry], tuple[str, ...]]:
        """Return all entries within the time the question names, best first, and notes on what could not be used."""
        index = fixture.cached(("nodes", self._nodes.name), lambda: self._index(fixture))
        if not index.entries:
            return [], ()
        scores = self._scores(question.text, index, fixture.memory)
        places = order(scores).tolist()
        notes: tuple[str, ...] = ()
        if self._parameters.entry_time != "off":
            time = resolve_range(question.text, question.date)
            notes = (time.note,) if time.note else ()
            if time.range:
                places = apply_range(places, self._inside(index, time.range), self._parameters.entry_time)
        return [FoundEntry(index.entries[place], float(scores[place])) for place in places], notes

    def _inside(self, index: _Index, range: TimeRange) -> list[bool]:
        return [in_range([days], range, self._parameters.time_margin_days) for days in index.days]

    def _scores(self, text: str, index: _Index, store: MemoryStore) -> Scores:
        names = sorted({message.speaker for message in store.messages} - {""})
        lexical = index.lexical.scores(without_names(text, names))
        dense = index.dense.scores(self._embed_query(text_to_embed(text, names)))
        scores = fuse([(1.0, lexical), (self._parameters.dense_weight, dense)], self._parameters.fusion)
        mentioned = [name.lower() for name in names if re.search(rf"\b{re.escape(name)}\b", text, re.IGNORECASE)]
        if mentioned and self._parameters.entry_people:
            about = np.array([any(name in people for name in mentioned) for people in index.people], dtype=np.float64)
            scores = scores + self._parameters.entry_people * about
        return scores + self._parameters.date_weight * index.priors.date(text)

    def _index(self, fixture: Fixture) -> _Index:
        entries = fixture.part(self._nodes).entries
        nodes = {node.name: node for node in self._nodes.nodes.nodes}
        store = _message_store(entries, [text_of(entry, nodes[entry.node].embed) for entry in entries])
        history = HistoryView(store)
        items, vectors = fixture.part(self._vectors).rows()
        people = [
            " ".join(_names(entry.values.get(name, "")) for name in nodes[entry.node].filters.people)
            for entry in entries
        ]
        days = [_days(entry, nodes[entry.node].filters.time) for entry in entries]
        return _Index(
            tuple(entries),
            history,
            LexicalIndex(history, _LEXICAL),
            DenseIndex(history, items, vectors, ()),
            Priors(history),
            tuple(people),
            tuple(days),
        )


def _message_store(entries: tuple[Entry, ...], texts: list[str]) -> MemoryStore:
    """Return entries in the form of messages, so that the ranking of messages ranks them."""
    store = MemoryStore("entries")
    for thread, said_at in dict.fromkeys((entry.thread_id, entry.said_at) for entry in entries):
        store.add_thread(Thread(thread, "entries", said_at, said_at))
    store.add_messages(
        Message(f"entry:{number}", entry.thread_id, "user", "", text, entry.said_at, number)
        for number, (entry, text) in enumerate(zip(entries, texts, strict=True))
    )
    return store


def _names(value: object) -> str:
    return " ".join(value).lower() if isinstance(value, list) else str(value).lower()


def _days(entry: Entry, field: str) -> tuple[date, date]:
    named = entry.dates.get(field)
    return (named.start, named.end) if named else (entry.said_at.date(), entry.said_at.date())
