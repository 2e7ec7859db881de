"""Scores of facts and messages: four channels, five signals.

The channels are vectors, words, the graph from the question's entities, and recency with salience. Messages are ranked
as `hybrid` ranks them, except in the published profile; facts are a small history of their own, ranked by the same
code.
"""

import re
from collections.abc import Callable
from datetime import datetime

import numpy as np
from msgspec import Struct

from longmemeval.core.arrays import Vector
from longmemeval.memory.engram.parameters import EngramParameters
from longmemeval.memory.engram.recall.view import FactView, Moments, Places
from longmemeval.ranking.fusion import fuse, order
from longmemeval.ranking.history import Scores
from longmemeval.ranking.parameters import RankingParameters
from longmemeval.ranking.retriever import Method, Retriever
from longmemeval.records import Question
from longmemeval.storage.fixture import Fixture

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
