"""Search the history: the nearest messages by embedding, or a ranking of all units."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from longmemeval.core.arrays import Vector
from longmemeval.errors import HarnessError
from longmemeval.memory.parameters import RetrievalParameters
from longmemeval.ranking.dense import MESSAGE_GRAPH
from longmemeval.ranking.history import RankedUnit, Scores
from longmemeval.ranking.questions import QuestionAnalysis, analyse_by_rules
from longmemeval.ranking.rerank import load_reranker
from longmemeval.ranking.retriever import Method, Retriever, text_to_embed
from longmemeval.records import Question
from longmemeval.storage.fixture import Fixture
from longmemeval.storage.messages import question_thread_id

Analyse = Callable[[Question], QuestionAnalysis]


class Search(Protocol):
    """Finds the units that a question is about."""

    def rank(self, question: Question, fixture: Fixture, limit: int | None = None) -> list[RankedUnit]:
        """Return the best `limit` units, best first; all of them for None."""
        ...

    def notes(self, question: Question, fixture: Fixture) -> tuple[str, ...]:
        """Return notes on what in the question could not be used, with the reason."""
        ...

    def texts_to_embed(self, question: Question, names: Sequence[str]) -> Sequence[str]:
        """Return the texts to embed for a question, asked of a history in which people of these `names` speak."""
        ...

    def ingredients(self, question: Question, fixture: Fixture, units: Sequence[RankedUnit]) -> list[dict[str, float]]:
        """Return the addends of each unit's score, by name."""
        ...


class NearestSearch:
    """Finds the nearest messages by cosine similarity, from the fixture's index.

    Args:
        embed_query: returns the vector of a text.
        within_thread: search the question's own thread only.
    """

    def __init__(self, embed_query: Callable[[str], Vector], within_thread: bool) -> None:
        self._embed_query = embed_query
        self._within_thread = within_thread

    def ingredients(self, question: Question, fixture: Fixture, units: Sequence[RankedUnit]) -> list[dict[str, float]]:
        """Return the cosine similarity of each of `units`, which is its whole score."""
        return [{"vectors": unit.score} for unit in units]

    def rank(self, question: Question, fixture: Fixture, limit: int | None = None) -> list[RankedUnit]:
        """Return the nearest messages; without a limit every message that has a vector."""
        thread = question_thread_id(question.question_id)
        found = fixture.part(MESSAGE_GRAPH).query(
            self._embed_query(question.text),
            limit or max(1, len(fixture.memory.messages)),
            matching=(lambda item: item.thread_id == thread) if self._within_thread else None,
        )
        return [RankedUnit(hit.item.id, hit.item.thread_id, (hit.item.id,), hit.score) for hit in found]

    def notes(self, question: Question, fixture: Fixture) -> tuple[str, ...]:
        """Return a note if only the question's own thread is searched and it is empty."""
        if self._within_thread and not fixture.memory.messages_of(question_thread_id(question.question_id)):
            return ("the search found nothing: scope is the question's own thread, which is empty",)
        return ()

    def texts_to_embed(self, question: Question, names: Sequence[str]) -> Sequence[str]:
        """Return the question's text."""
        return [question.text]


class RankedSearch:
    """Ranks all units of the history by the scores of a `Retriever`.

    Args:
        method: lexical, dense or both.
        embed_query: returns the vector of a text; called for all methods but `bm25`.
        analyse: returns a chat model's analysis of a question; None if no model was called.

    Raises:
        HarnessError: there is no such reranker, or the parameters need a chat model's analyses and there are none.
    """

    def __init__(
        self,
        method: Method,
        parameters: RetrievalParameters,
        embed_query: Callable[[str], Vector],
        analyse: Analyse | None = None,
    ) -> None:
        self._method = method
        self._parameters = parameters
        self._embed_query = embed_query
        self._reranker = load_reranker(parameters.reranker) if parameters.reranker else None
        self._analyse = _analyst(parameters, analyse)

    def rank(self, question: Question, fixture: Fixture, limit: int | None = None) -> list[RankedUnit]:
        """Return the best units, equal scores in the history's order."""
        retriever = self._retriever(fixture)
        places, scores = retriever.ranked(self._analyse(question))
        found = zip(places[:limit].tolist(), scores[places[:limit]].tolist(), strict=True)
        units = [(retriever.history.unit(place), score) for place, score in found]
        return [RankedUnit(unit.unit_id, unit.thread_id, unit.message_ids, score) for unit, score in units]

    def order(self, question: Question, fixture: Fixture) -> tuple[NDArray[np.int64], Scores]:
        """Return the positions of all units, best first, ties in the history's order, and the scores by position."""
        return self._retriever(fixture).ranked(self._analyse(question))

    def ingredients(self, question: Question, fixture: Fixture, units: Sequence[RankedUnit]) -> list[dict[str, float]]:
        """Return the addends of each unit's score, by name (`Retriever.ingredients`)."""
        retriever = self._retriever(fixture)
        found = retriever.ingredients(self._analyse(question))
        places = {unit.unit_id: place for place, unit in enumerate(retriever.history.units)}
        return [{name: float(scores[places[unit.unit_id]]) for name, scores in found.items()} for unit in units]

    def _retriever(self, fixture: Fixture) -> Retriever:
        return Retriever(fixture, self._method, self._parameters, self._embed_query, self._reranker)

    def notes(self, question: Question, fixture: Fixture) -> tuple[str, ...]:
        """Return why a time that the question seems to name is not used, and why a chat model's analysis failed."""
        return self._analyse(question).notes

    def texts_to_embed(self, question: Question, names: Sequence[str]) -> Sequence[str]:
        """Return the whole question and its parts; nothing if only words are compared."""
        if self._method == "bm25":
            return []
        return [text_to_embed(query, names) for query in self._analyse(question).queries]


def _analyst(parameters: RetrievalParameters, by_model: Analyse | None) -> Analyse:
    """Return the function that analyses questions: by rules, unless the parameters require a chat model."""
    method = parameters.analysis
    if not method.asks_model:
        return partial(analyse_by_rules, method=method)
    if by_model is None:
        wanted = [
            f"{key}=model"
            for key, analyst in (("decompose", method.parts), ("time_range_by", method.time))
            if analyst == "model"
        ]
        raise HarnessError(
            f"These parameters need a chat model to analyse the questions, but none is named: {', '.join(wanted)}",
            fix="Name one with --query-model, or change these parameters",
        )
    return by_model
