"""Recall of the engine's facts."""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cached_property, lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from longmemeval.core.arrays import Vector, Vectors
from longmemeval.core.caches import SingleFlightCache
from longmemeval.memory.engram.parameters import EngramParameters, Slot, definition, slot_of
from longmemeval.memory.engram.part import FACTS, thread_of
from longmemeval.memory.engram.profiles import Summary
from longmemeval.memory.engram.records import Fact
from longmemeval.memory.engram.stores.embedded import EmbeddedFacts, EmbeddedVectors, Stores
from longmemeval.memory.engram.stores.opening import stores_of
from longmemeval.memory.engram.stores.protocol import When
from longmemeval.memory.items import Hit
from longmemeval.memory.working_memory.statements import sentences
from longmemeval.ranking.fusion import fuse, order
from longmemeval.ranking.history import Names, Scores
from longmemeval.ranking.parameters import RankingParameters
from longmemeval.ranking.retriever import Method, Retriever
from longmemeval.ranking.word_counts import WORDS, WordCounts, count_words
from longmemeval.records import DatasetIdentity, FixtureMeta, Message, Question, RecalledItem
from longmemeval.storage.fixture import Fixture
from longmemeval.storage.memory_store import MemoryStore, Thread
from longmemeval.storage.messages_part import MESSAGES
from longmemeval.storage.parts import Part

__path__: list[str] = []
"""Names of version 0.2 below this one are found (`core/moved.py`)."""


# The inputs of a search: the facts believed at one moment with arrays over them, and parts held in memory.

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


# Scores of facts and messages: four channels, five signals.
#
# The channels are vectors, words, the graph from the question's entities, and recency with salience. Messages are
# ranked as `hybrid` ranks them, except in the published profile; facts are a small history of their own, ranked by
# the same code.

_ASKS_NOW = re.compile(
    r"\b(?:current(?:ly)?|now(?:adays)?|at the moment|these days|latest|newest|most recent(?:ly)?|still|so far"
    r"|any ?more|recently|today|last (?:time|week|month|year))\b",
    re.IGNORECASE,
)
_FACTS = RankingParameters(window=(), session_weight=0, statement_weight=0)
_CHANNELS: tuple[Method, Method] = ("dense", "bm25")
_CHANNEL = RankingParameters(window=(), session_weight=0, speaker_weight=0, statement_weight=0, date_weight=0)


class Ranked(Struct, frozen=True):
    """Scores in the order of the history, with the ranking they give."""

    scores: Scores
    order: Places
    """Positions, best first, ties in the history's order."""

    @property
    def best(self) -> float:
        """The best score; 0 if there is none."""
        return float(self.scores[self.order[0]]) if len(self.order) else 0.0


class FactRanker:
    """Ranks the facts of a history for a question.

    Args:
        parameters: fusion, weights and the number of hops in the graph.
        embed_query: returns the vector of a text.
    """

    def __init__(self, parameters: EngramParameters, embed_query: Callable[[str], Vector]) -> None:
        self._parameters = parameters
        self._embed_query = embed_query

    def rank(self, question: Question, view: FactView) -> Ranked:
        """Rank all facts of the view."""
        if not view.facts:
            return Ranked(np.zeros(0), np.zeros(0, np.int64))
        if self._parameters.fusion == "published":
            weights = self._parameters.weights()
            semantic, lexical = signals(question.text, view, self._embed_query, view.dense)
            matched = [(weights.semantic, semantic), (weights.lexical, lexical)]
            return ranked(fuse([*matched, *self._present_signals(question, view)], "ranks"))
        scores = Retriever(view, "hybrid", _FACTS, self._embed_query, dense=view.dense).scores([question.text])
        if asks_now(question.text):
            scores = scores + fuse(self._present_signals(question, view), "scores")
        return ranked(scores)

    def _present_signals(self, question: Question, view: FactView) -> list[tuple[float, Scores]]:
        """Return the signals of graph, recency and salience, with their weights."""
        parameters, weights = self._parameters, self._parameters.weights()
        return [
            (weights.graph, view.proximity(question.text, parameters.hops)),
            (weights.recency, recency(view.began, question.date, parameters.recency_days)),
            (weights.salience, view.salience),
        ]


def ranked(scores: Scores) -> Ranked:
    """Return the scores with the order they give."""
    return Ranked(scores, order(scores))


def signals(
    text: str, fixture: Fixture, embed_query: Callable[[str], Vector], dense: Callable[[Vector], Scores] | None = None
) -> tuple[Scores, Scores]:
    """Return the dense and the lexical signal of every message of a fixture: no neighbours, no sessions, no priors.

    Args:
        text: the question.
        fixture: has the messages, words and vectors.
        embed_query: returns the vector of a text.
        dense: returns the dense scores for a vector; None: computed from the fixture's vectors.
    """
    semantic, lexical = (
        Retriever(fixture, method, _CHANNEL, embed_query, dense=dense).scores([text]) for method in _CHANNELS
    )
    return semantic, lexical


def asks_now(question: str) -> bool:
    """Return whether a question asks for the present or most recent state."""
    return _ASKS_NOW.search(question) is not None


def recency(began: Moments, now: datetime, days: float) -> Scores:
    """Return exp(-age / days) of each fact, by event time: the later of when it began and when it was last said.

    The clock is never read. With 0 days the result is 0 for every fact.
    """
    if not days:
        return np.zeros(len(began))
    seconds = (np.datetime64(now, "us") - began).astype(np.int64) / 10**6
    return np.exp(-np.maximum(0.0, seconds / 86400) / days)


# Messages that differ only in the end of a sentence: versions of one statement, of which the newest holds.
#
# "The mayor of Ulm is Ivo Gönner." and, later, "The mayor of Ulm is Gunter Czisch.": words and vectors find both and
# cannot tell them apart. Only plain sentences about others are compared; statements of speakers about themselves
# become facts.

_NUMBER = re.compile(r"^\W*\d+[.):]\s+")
_LONGEST = 40
_LONGEST_END = 10
"""Maximum words of a sentence that is compared, and of its end."""
_BE = frozenset(["is", "are", "was", "were", "has", "have", "had", "became"])
_BEFORE_VALUE = frozenset(["of", "in", "by", "to", "at", "for", "with", "as", "from", "on"])
_VERB = re.compile(r"[a-z]{2,}(?:s|ed)")
_OF_THE_SPEAKERS = re.compile(r"\b(?:I|[Ww]e|[Mm]y|[Oo]ur|[Mm]e|[Yy]ou|[Yy]our)\b")


@lru_cache(maxsize=1 << 16)
def beginnings(text: str) -> tuple[str, ...]:
    """Return the beginnings that a sentence may share with another version of it, longest first; none for other texts.

    A beginning has a verb and ends with a verb or a preposition; a name or a short phrase follows it.
    """
    found = list(sentences(_NUMBER.sub("", text.strip())))
    words = found[0].rstrip(".! ").split() if len(found) == 1 else []
    if not 3 <= len(words) <= _LONGEST or text.rstrip().endswith("?") or _OF_THE_SPEAKERS.search(text):
        return ()
    shareable = []
    verb = False
    for place, (word, _) in enumerate(pairwise(words), start=1):
        is_verb = place > 1 and (word in _BE or _VERB.fullmatch(word) is not None)
        verb = verb or is_verb
        if (is_verb or (verb and word in _BEFORE_VALUE)) and _is_value(words[place:]):
            shareable.append(" ".join(words[:place]).casefold())
    return tuple(reversed(shareable))


def _is_value(words: Sequence[str]) -> bool:
    named = not words[0][0].islower()
    return len(words) <= _LONGEST_END and not any(
        word in _BE or (word in _BEFORE_VALUE and not named) for word in words
    )


def groups(messages: Iterable[Message]) -> Places:
    """Return a number for each message, the same for versions of one statement; -1 for a message without versions."""
    found = [beginnings(message.content) for message in messages]
    counts: dict[str, int] = {}
    for known in found:
        for beginning in known:
            counts[beginning] = counts.get(beginning, 0) + 1
    numbers: dict[str, int] = {}
    return np.fromiter(_numbered(found, counts, numbers), np.int64, len(found))


def _numbered(found: Sequence[Sequence[str]], counts: dict[str, int], numbers: dict[str, int]) -> Iterator[int]:
    for known in found:
        shared = next((beginning for beginning in known if counts[beginning] > 1), None)
        yield -1 if shared is None else numbers.setdefault(shared, len(numbers))


def newest_first(order: Places, group: Places, age: Places) -> Places:
    """Return a ranking in which versions of one statement keep their places among them, but the newest comes first.

    Args:
        order: positions of messages, best first.
        group: a number for each message, as `groups` returns them, shape (messages,).
        age: a larger number for each later message, shape (messages,).
    """
    ranks = np.flatnonzero(group[order] >= 0)
    members = order[ranks]
    places = ranks[np.lexsort((ranks, group[members]))]
    arranged = order.copy()
    arranged[places] = members[np.lexsort((-age[members], group[members]))]
    return arranged


# The items that the engine recalls: facts and summaries as lines, and their order.


def fact_item(fact: Fact, siblings: int, said_at: datetime, hit: Hit) -> RecalledItem:
    """Return a fact as a line: the day it was last said, its text, and whether it still holds if its slot has changed.

    Args:
        fact: the version to show.
        siblings: number of facts of its slot, including itself.
        said_at: the moment it was last said.
        hit: its rank and score.
    """
    mark = ""
    if fact.disputed:
        mark = " [disputed]"
    elif fact.invalid_at is not None:
        mark = f" [until {fact.invalid_at:%Y-%m-%d}]"
    elif siblings > 1 and definition(fact.predicate).functional:
        mark = " [current]"
    return RecalledItem(
        kind="fact",
        text=fact.text + mark,
        date=said_at,
        message_ids=fact.episode_ids,
        thread_ids=tuple(dict.fromkeys(episode.rpartition(":")[0] for episode in fact.episode_ids)),
        rank=hit.rank,
        score=hit.score,
    )


def summary_item(summary: Summary, date: datetime) -> RecalledItem:
    """Return a summary as a line under the day of its session."""
    return RecalledItem("summary", summary.text, date, "", summary.message_ids, (summary.thread_id,))


def by_position(items: Iterable[RecalledItem], positions: Callable[[str], int]) -> list[RecalledItem]:
    """Return facts and summaries in their order, then messages in the history's order."""
    listed = list(items)
    messages = [item for item in listed if item.kind == "message"]
    messages.sort(key=lambda item: positions(item.message_ids[0]))
    return [item for item in listed if item.kind != "message"] + messages
