"""Scores of facts and messages: four channels, five signals.

Channels: vectors, words, the graph from the question's entities, and recency with salience. Messages are ranked as
`hybrid` ranks them, unless the published profile is asked for; facts are a small history of their own, ranked by the
same code.
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
from longmemeval.ranking.lexical import LexicalParameters
from longmemeval.ranking.retriever import Retriever, RetrieverParameters
from longmemeval.records import Question
from longmemeval.storage.fixture import Fixture

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
    order: Places
    """Places, best first, ties in the history's order."""

    @property
    def best(self) -> float:
        """The best score; 0 where there is nothing."""
        return float(self.scores[self.order[0]]) if len(self.order) else 0.0


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
            return Ranked(np.zeros(0), np.zeros(0, np.int64))
        if self._parameters.fusion == "published":
            weights = self._parameters.weights()
            semantic, lexical = signals(question.text, view, self._embed_query, view.dense)
            matched = [(weights.semantic, semantic), (weights.lexical, lexical)]
            return ranked(fuse([*matched, *self._of_now(question, view)], "ranks"))
        scores = Retriever(view, _FACTS, self._embed_query, dense=view.dense).scores([question.text])
        return ranked(scores + fuse(self._of_now(question, view), "scores") if asks_now(question.text) else scores)

    def _of_now(self, question: Question, view: FactView) -> list[tuple[float, Scores]]:
        """Graph, recency and salience, with their weights."""
        parameters, weights = self._parameters, self._parameters.weights()
        return [
            (weights.graph, view.proximity(question.text, parameters.hops)),
            (weights.recency, recency(view.began, question.date, parameters.recency_days)),
            (weights.salience, view.salience),
        ]


def ranked(scores: Scores) -> Ranked:
    """Scores with the order they give."""
    return Ranked(scores, order(scores))


def signals(
    text: str, fixture: Fixture, embed_query: Callable[[str], Vector], dense: Callable[[Vector], Scores] | None = None
) -> tuple[Scores, Scores]:
    """The dense and the lexical signal of every message of a fixture: no neighbours, no sessions, no priors.

    Args:
        text: the question's.
        fixture: messages, words and vectors.
        embed_query: a text to its vector.
        dense: the dense score of each for a vector; None: from the fixture's vectors.
    """
    semantic, lexical = (Retriever(fixture, one, embed_query, dense=dense).scores([text]) for one in (_DENSE, _LEXICAL))
    return semantic, lexical


def asks_now(question: str) -> bool:
    """Whether a question asks for what is so now, or was lately."""
    return _ASKS_NOW.search(question) is not None


def recency(began: Moments, now: datetime, days: float) -> Scores:
    """exp(-age / days) by event time: the later of when a fact began and when it was last said; never by the clock.

    0 days: 0 for every fact.
    """
    if not days:
        return np.zeros(len(began))
    seconds = (np.datetime64(now, "us") - began).astype(np.int64) / 10**6
    return np.exp(-np.maximum(0.0, seconds / 86400) / days)
