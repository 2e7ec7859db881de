"""BM25 over stemmed content words, each unit counted together with its neighbours and its session.

The window adds counts, not scores: a turn that says "yes, last week" is found by the words of the turns around it.
Words are counted in advance (`word_counts`); words that are not in the question are never read.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from longmemeval.core.text.words import content_words
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
        found = [self._weights(word) for word in content_words(query)]
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
