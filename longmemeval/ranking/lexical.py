"""BM25 over stemmed content words, each unit counted together with its neighbours and its session.

The window adds counts, not scores: a turn that says "yes, last week" is found by the words of the turns around it.
Words are counted in advance (`word_counts`); words that are not in the question are never read.
"""

import math
import re
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from longmemeval.core.text.quantities import MONTHS
from longmemeval.core.text.words import search_words
from longmemeval.ranking.history import HistoryView, Scores
from longmemeval.ranking.word_counts import Integers, WordCounts

Counts = NDArray[np.float64]
"""Number of occurrences in each document, shape (documents,)."""


class LexicalParameters(Struct, frozen=True):
    """Parameters of the lexical score.

    docs/results.md explains how the defaults were chosen, and has the ablation.
    """

    k1: float = 1.5
    b: float = 0.75
    window: tuple[float, ...] = (0.5, 0.25)
    """Weight of a neighbour's words, by distance in the same session."""
    session: float = 0.3
    """Weight of the score of the whole session."""


class UnitWords(NamedTuple):
    """Counted texts, and the unit that each of them belongs to."""

    words: WordCounts
    units: Integers
    """Position of each text's unit, shape (texts,); -1: the text belongs to none."""


class _Weights(NamedTuple):
    """Addends of one word to the scores of the documents that contain it."""

    documents: Integers
    weights: NDArray[np.float64]


class LexicalIndex:
    """The lexical score of every unit of a history.

    Args:
        found_by: words by which units are found; None: the words of their messages.
    """

    def __init__(
        self, history: HistoryView, parameters: LexicalParameters, found_by: Sequence[UnitWords] | None = None
    ) -> None:
        self._parameters = parameters
        self._history = history
        self._sources = [UnitWords(history.words, history.unit_of)] if found_by is None else list(found_by)
        # A neighbour's weight if there is one at that distance in the same session, else 0.
        self._window = [
            (distance, weight * history.is_near(distance))
            for distance, weight in enumerate(parameters.window, start=1)
            if distance < len(history)
        ]
        lengths = self._per_unit()
        self._unit_damping = self._damping(self._windowed(lengths))
        self._session_damping = self._damping(self._per_session(lengths))
        self._words: dict[str, tuple[_Weights, _Weights]] = {}

    def scores(self, query: str) -> Scores:
        """Return BM25 of each unit with its window, plus the weighted BM25 of its session.

        A repeated word counts each time.
        """
        found = [self._weights(word) for word in search_words(query)]
        scores = _added([unit_weights for unit_weights, _ in found], len(self._history))
        if self._parameters.session and len(scores):
            sessions = _added([session_weights for _, session_weights in found], self._history.thread_count)
            scores = scores + self._parameters.session * sessions[self._history.threads]
        return scores

    def _weights(self, word: str) -> tuple[_Weights, _Weights]:
        """Return the addends of `word` to the units and to the sessions; computed on first use."""
        if word not in self._words:
            own = self._per_unit(word)
            self._words[word] = (
                self._bm25(self._windowed(own), self._unit_damping),
                self._bm25(self._per_session(own), self._session_damping),
            )
        return self._words[word]

    def _per_unit(self, word: str | None = None) -> Counts:
        """Count the occurrences of `word` in each unit; None: those of all words."""
        total = np.zeros(len(self._history))
        for words, units in self._sources:
            entries = slice(None) if word is None else words.entries(word)
            places, counts = units[words.places[entries]], words.counts[entries]
            total += np.bincount(places[places >= 0], weights=counts[places >= 0], minlength=len(total))
        return total

    def _per_session(self, own: Counts) -> Counts:
        summed = np.bincount(self._history.threads, weights=own, minlength=self._history.thread_count)
        return summed.astype(np.float64, copy=False)

    def _windowed(self, own: Counts) -> Counts:
        """Return `own` plus the weighted counts of each neighbour."""
        total = own.copy()
        for distance, weights in self._window:
            total[distance:] += own[:-distance] * weights
            total[:-distance] += own[distance:] * weights
        return total

    def _damping(self, lengths: Counts) -> Counts:
        """Return the addend to a count in the denominator: the longer the document, the larger."""
        mean = lengths.mean() if lengths.any() else 1.0
        damping: Counts = self._parameters.k1 * (1 - self._parameters.b + self._parameters.b * lengths / mean)
        return damping

    def _bm25(self, counts: Counts, damping: Counts) -> _Weights:
        """Return BM25 (Robertson and Zaragoza 2009) with the never-negative idf ln(1 + (n - df + 1/2) / (df + 1/2)).

        Args:
            counts: counts of one word.
            damping: damping of the documents.
        """
        documents = np.flatnonzero(counts)
        nonzero, n, frequency = counts[documents], len(counts), len(documents)
        idf = np.log(1 + (n - frequency + 0.5) / (frequency + 0.5))
        return _Weights(documents, idf * nonzero * (self._parameters.k1 + 1) / (nonzero + damping[documents]))


def _added(words: Sequence[_Weights], documents: int) -> Scores:
    """Return the scores of all documents, added word by word in the query's order."""
    if not words:
        return np.zeros(documents)
    numbers = np.concatenate([word.documents for word in words])
    weights = np.concatenate([word.weights for word in words])
    return np.bincount(numbers, weights=weights, minlength=documents).astype(np.float64, copy=False)


# Priors of a unit, independent of its match: its speaker, whether it states anything, its date.
#
# All three depend only on the question and the history, and are in [0, 1], like a min-max score.

_FIRST_PERSON = re.compile(r"\b(?:i|me|my|mine|myself|we|us|our|ours|ourselves)\b", re.IGNORECASE)
_SECOND_PERSON = re.compile(r"\b(?:you|your|yours|yourself)\b", re.IGNORECASE)
_HALF = 5.0
"""Number of content words at which a unit gets half of the statement prior."""


def without_names(question: str, names: Sequence[str]) -> str:
    """Return `question` without the speakers' names.

    They are in half of the turns and say nothing about the content.
    """
    if not names:
        return question
    for name in names:
        question = re.sub(rf"\b{re.escape(name)}(?:['\u2019]s)?(?!\w)", "", question, flags=re.IGNORECASE)
    return re.sub(r"\s+([?.,!])", r"\1", " ".join(question.split()))


class Priors:
    """The priors of every unit of a history."""

    def __init__(self, history: HistoryView) -> None:
        self._history = history
        spoken = history.unit_of >= 0
        stated = history.words.stated[spoken]
        words = np.bincount(history.unit_of[spoken], weights=stated, minlength=len(history))
        self.statement: Scores = words / (words + _HALF)
        """Prior that grows with the words a unit has outside of questions: a speaker who asks seldom answers."""
        dates = [_date_words(thread.created_at) for thread in history.store.threads]
        counts = Counter(word for words_of_day in dates for word in words_of_day)
        self._idf = {word: math.log(1 + (len(dates) - n + 0.5) / (n + 0.5)) for word, n in counts.items()}
        self._dates: dict[str, list[int]] = {word: [] for word in counts}
        for number, words_of_thread in enumerate(dates):
            for word in words_of_thread:
                self._dates[word].append(number)
        self._threads = len(dates)

    def speaker(self, question: str) -> Scores:
        """Return 1 for units of speakers the question names, or, without names, refers to as I or you; else 0."""
        likely = self._history.names_in(question)
        named = {name for name in likely if re.search(rf"\b{re.escape(name)}\b", question, re.IGNORECASE)}
        if not self._history.names:
            named |= {"user"} if _FIRST_PERSON.search(question) else set()
            named |= {"assistant"} if _SECOND_PERSON.search(question) else set()
        speaks = np.zeros(len(self._history))
        if named:
            for name in named & self._history.speakers.keys():
                speaks[self._history.speakers[name]] = 1
        return speaks

    def date(self, question: str) -> Scores:
        """Return the share of the question's date words that the unit's session date matches, weighted by idf.

        Date words are months, years and days.
        """
        date_words = sorted(word for word in words_of_date(question) if word in self._idf)
        total = sum(self._idf[word] for word in date_words)
        if not total:
            return np.zeros(len(self._history))
        by_thread = np.zeros(self._threads)
        for word in date_words:
            by_thread[self._dates[word]] += self._idf[word]
        return (by_thread / total)[self._history.threads]


def words_of_date(text: str) -> set[str]:
    """Return the capitalised months, the years from 1900 to 2099, and the days next to a month."""
    found = {f"y{year}" for year in re.findall(r"\b(?:19|20)\d\d\b", text)}
    for number, month in enumerate(MONTHS, start=1):
        if re.search(rf"\b{month}\b", text):
            found.add(f"m{number}")
            day = r"(\d{1,2})(?:st|nd|rd|th)?"
            days = re.findall(rf"\b{day}(?: of)? {month}\b|\b{month} {day}\b", text)
            found.update(f"d{number}-{int(before or after)}" for before, after in days)
    return found


def _date_words(date: datetime) -> set[str]:
    return {f"y{date.year}", f"m{date.month}", f"d{date.month}-{date.day}"}
