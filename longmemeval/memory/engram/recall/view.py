"""The inputs of a search: the facts believed at one moment with arrays over them, and parts held in memory."""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from longmemeval.core.arrays import Vector, Vectors
from longmemeval.core.caches import SingleFlightCache
from longmemeval.memory.engram.part import FACTS, thread_of
from longmemeval.memory.engram.predicates import Slot, slot_of
from longmemeval.memory.engram.records import Fact
from longmemeval.memory.engram.stores.embedded import EmbeddedFacts, EmbeddedVectors
from longmemeval.memory.engram.stores.of_fixture import stores_of
from longmemeval.memory.engram.stores.protocol import When
from longmemeval.memory.engram.stores.synced import Stores
from longmemeval.ranking.history import Names, Scores
from longmemeval.ranking.word_counts import WORDS, WordCounts, count_words
from longmemeval.records import DatasetIdentity, FixtureMeta, Message
from longmemeval.storage.fixture import Fixture
from longmemeval.storage.memory_store import MemoryStore, Thread
from longmemeval.storage.messages_part import MESSAGES
from longmemeval.storage.parts import Part

T = TypeVar("T")
Places = NDArray[np.int64]
"""Positions of messages in a history, or of facts in a view."""
Moments = NDArray[np.datetime64]
Count = Callable[[Sequence[str]], WordCounts]

_VIEWS = 4
"""Number of views cached with a fixture: the questions about a history are asked on few days."""


def moments(dates: Iterable[datetime]) -> Moments:
    """Return naive dates as an array, to the microsecond."""
    return np.array(list(dates), dtype="datetime64[us]")


class OpenedParts(Fixture):
    """Parts in memory, in place of a prepared fixture.

    Args:
        store: the messages.
        parts: the other parts, opened, by name.
        count: counts the words of messages and facts.
    """

    def __init__(self, store: MemoryStore, parts: Mapping[str, Any], count: Count = count_words) -> None:
        name = store.resource.id
        super().__init__(Path(), FixtureMeta(1, DatasetIdentity(name, ""), name, (), name, (), {}))
        self.count = count
        words = count([message.content for message in store.messages])
        self._opened = {MESSAGES.name: store, WORDS.name: words, **parts}

    def part(self, part: Part[T]) -> T:
        """Return an opened part."""
        found: T = self._opened[part.name]
        return found


class FactView(OpenedParts):
    """The facts believed at one moment as a history of messages, so that the retrievers of messages rank them.

    Args:
        fixture: the fixture of the haystack.
        facts: versions, one per believed fact.
        stores: the stores that contain them.
        believed_at: the moment; None: the end of the history.
    """

    def __init__(self, fixture: Fixture, facts: Sequence[Fact], stores: Stores, believed_at: datetime | None) -> None:
        self.facts = list(facts)
        self._stores = stores
        self._when = When(None, believed_at)
        self._positions = fixture.memory.positions
        store = MemoryStore(f"{fixture.meta.haystack_id}#facts")
        for thread_id in dict.fromkeys(thread_of(fact) for fact in facts):
            date = fixture.memory.messages_of(thread_id)[0].created_at
            store.add_thread(Thread(thread_id, store.resource.id, date, date))
        store.add_messages(
            Message(fact.version_id, thread_of(fact), "user", fact.subject, fact.text, fact.created_at, number)
            for number, fact in enumerate(facts)
        )
        count = fixture.count if isinstance(fixture, OpenedParts) else count_words
        super().__init__(store, {}, count)

    @cached_property
    def began(self) -> Moments:
        """The later of when each fact began and when it was last said, shape (facts,)."""
        return moments(max(fact.valid_at, fact.created_at) for fact in self.facts)

    @cached_property
    def salience(self) -> Scores:
        """ln(1 + salience) of each fact, shape (facts,)."""
        return np.log1p([fact.salience for fact in self.facts])

    @cached_property
    def siblings(self) -> Places:
        """The number of facts in the slot of each fact, including itself, shape (facts,)."""
        numbers: dict[Slot, int] = {}
        slots = [
            numbers.setdefault(slot_of(fact.subject, fact.predicate, fact.object), len(numbers)) for fact in self.facts
        ]
        return np.bincount(slots)[slots]

    def distinct(self, order: Places) -> Places:
        """Return the facts of `order` without those whose text repeats an earlier one."""
        if self._texts.max(initial=-1) == len(self._texts) - 1:
            return order
        return order[np.sort(np.unique(self._texts[order], return_index=True)[1])]

    @cached_property
    def _texts(self) -> Places:
        numbers: dict[str, int] = {}
        return np.array(
            [numbers.setdefault(" ".join(fact.text.lower().split()), len(numbers)) for fact in self.facts], np.int64
        )

    def covered_by(self, shown: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return a mask of the facts whose episodes are all among the shown messages, shape (facts,)."""
        places, starts = self._episodes
        covered: NDArray[np.bool_] = np.logical_and.reduceat(shown[places], starts)
        return covered

    @cached_property
    def _episodes(self) -> tuple[Places, Places]:
        """The positions of all facts' episodes in the history, one fact after another, and each fact's start."""
        places = [self._positions[episode] for fact in self.facts for episode in fact.episode_ids]
        counts = [len(fact.episode_ids) for fact in self.facts]
        return np.array(places, np.int64), np.concatenate(([0], np.cumsum(counts)[:-1]))

    def proximity(self, question: str, hops: int) -> Scores:
        """Return the proximity of each fact, in the graph, to names in the question: 1 at the names, halved per hop."""
        near = np.zeros(len(self._names))
        named = self._named(question) if hops else []
        left, right = self._edges
        if isinstance(self._stores.facts, EmbeddedFacts):  # These arrays are quicker than any graph.
            near[[self._names[name] for name in named]] = 1.0
            for _ in range(hops):
                before = near.copy()
                np.maximum.at(near, left, before[right] / 2)
                np.maximum.at(near, right, before[left] / 2)
        else:
            distances = self._stores.facts.distances(named, hops, self._when)
            for name in distances.keys() & self._names.keys():
                near[self._names[name]] = 0.5 ** distances[name]
        return np.maximum(near[left], near[right])

    def dense(self, query: Vector) -> Scores:
        """Return the inner product of each fact's vector with `query`, shape (dimension,); shape (facts,)."""
        if self._rows is not None:
            scores: Scores = (self._rows @ query).astype(np.float64)
            return scores
        found = dict(self._stores.vectors.search(query, len(self.facts), self._when))
        return np.array([found[fact.version_id] for fact in self.facts])

    @cached_property
    def _rows(self) -> Vectors | None:
        """The vectors if they are in memory, shape (facts, dimension)."""
        held = self._stores.vectors
        return held.rows([fact.version_id for fact in self.facts]) if isinstance(held, EmbeddedVectors) else None

    @cached_property
    def _names(self) -> dict[str, int]:
        names = dict.fromkeys(name for fact in self.facts for name in (fact.subject, fact.object))
        return {name: number for number, name in enumerate(names)}

    @cached_property
    def _edges(self) -> tuple[Places, Places]:
        ends = [(self._names[fact.subject], self._names[fact.object]) for fact in self.facts]
        left, right = np.array(ends, np.int64).reshape(-1, 2).T
        return left, right

    @cached_property
    def _known_names(self) -> Names:
        return Names(name for name in self._names if name != "user")

    def _named(self, question: str) -> list[str]:
        """Return the names that occur in a question; the user's is "I"."""
        named = [
            name
            for name in self._known_names.likely(question)
            if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", question, re.IGNORECASE)
        ]
        if "user" in self._names and re.search(r"\b(?:I|me|my|mine)\b", question):
            named.append("user")
        return named


def believed(fixture: Fixture, until: datetime | None, store: str = "embedded", vectors: str = "embedded") -> FactView:
    """Return the facts of a fixture as believed at a moment. The last views are cached.

    Args:
        until: the moment; None: the end of the history.
        store: name of the store to query for facts.
        vectors: name of the store to search for their vectors.
    """
    versions = fixture.part(FACTS).facts
    learned = fixture.cached("engram learned", lambda: sorted(fact.created_at for fact in versions))
    before = len(learned) if until is None else bisect_right(learned, until)
    last = learned[before - 1] if before and until is not None else None
    stores = stores_of(fixture, store, vectors)
    views = fixture.cached(
        ("engram views", store, vectors), lambda: SingleFlightCache[tuple[bool, datetime | None], FactView](_VIEWS)
    )
    return views.get(
        (before > 0, last),
        lambda: FactView(fixture, stores.facts.facts(when=When(None, last)) if before else [], stores, last),
    )
