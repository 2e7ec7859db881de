"""One retriever over one prepared history: lexical, dense or both, with priors."""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial, reduce
from operator import add
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from longmemeval.core.arrays import Vector
from longmemeval.ranking.dates import DATES, Interval
from longmemeval.ranking.dense import DenseIndex, UnitKeys
from longmemeval.ranking.expansion.part import joined_words
from longmemeval.ranking.fusion import fuse, order
from longmemeval.ranking.history import HistoryView, Scores
from longmemeval.ranking.lexical import LexicalIndex, LexicalParameters, Priors, UnitWords, without_names
from longmemeval.ranking.message_vectors import VECTORS
from longmemeval.ranking.parameters import RankingParameters
from longmemeval.ranking.questions import QuestionAnalysis, apply_range, fuse_parts, in_range
from longmemeval.ranking.rerank import Reranker, rerank
from longmemeval.ranking.statements import STATEMENT_VECTORS
from longmemeval.ranking.word_counts import WORDS
from longmemeval.storage.fixture import Fixture

_WORD = re.compile(r"\w+")

Method = Literal["bm25", "dense", "hybrid"]


def text_to_embed(question: str, names: Sequence[str]) -> str:
    """Return the text to embed for a question: without speakers' names, unless it consists of names."""
    return without_names(question, names) or question


class Retriever:
    """Ranks the units of one history.

    Everything computed from the whole history is cached with the fixture: the first question computes it, and
    retrievers with the same parameters share it.

    Args:
        fixture: messages, vectors for all methods but `bm25`, and parts that the parameters need.
        embed_query: returns the vector of a text; called for all methods but `bm25`.
        reranker: scores the best units again; None: no reranking.
        dense: returns the dense score of each unit for a vector; None: from the fixture's vectors.

    Raises:
        HarnessError: keys of sessions were requested for smaller units.
    """

    def __init__(
        self,
        fixture: Fixture,
        method: Method,
        parameters: RankingParameters,
        embed_query: Callable[[str], Vector],
        reranker: Reranker | None = None,
        dense: Callable[[Vector], Scores] | None = None,
    ) -> None:
        self._fixture = fixture
        self._parameters = parameters
        self._embed_query = embed_query
        self._reranker = reranker
        units = (parameters.units, parameters.side)
        keys = (parameters.expansion, parameters.expansion_level, parameters.expansion_join)
        self.history = fixture.cached(
            ("history", units), lambda: HistoryView(fixture.memory, *units, words=fixture.part(WORDS))
        )
        self._priors = fixture.cached(("priors", units), partial(Priors, self.history))
        words = LexicalParameters(window=parameters.window, session=parameters.session_weight)
        self._lexical: list[LexicalIndex] = []
        if method != "dense":
            self._lexical = fixture.cached(("lexical", units, keys, words), partial(self._lexical_indexes, words))
        self._dense = dense if method != "bm25" else None
        if method != "bm25" and dense is None:
            key = ("dense", units, keys, parameters.window, parameters.statements)
            self._dense = fixture.cached(key, self._dense_index).scores
        self._lengths = None
        if parameters.length_exponent:
            self._lengths = fixture.cached(("lengths", units), self._count_words)

    def scores(self, queries: Sequence[str]) -> Scores:
        """Return the score of every unit, from the whole question, which comes first, and its parts."""
        scores = [self._scores_of(query) for query in queries]
        return fuse_parts(scores) if len(scores) > 1 else scores[0]

    def _scores_of(self, question: str) -> Scores:
        """Add comparable parts by weight, then the priors, and divide by the length prior."""
        return self._combined(self._ingredients_of(question))

    def _combined(self, ingredients: Mapping[str, Scores]) -> Scores:
        scores: Scores = reduce(add, ingredients.values())
        exponent = self._parameters.length_exponent
        return scores if self._lengths is None else scores / self._lengths**exponent

    def _ingredients_of(self, question: str) -> dict[str, Scores]:
        weights = self._parameters
        names = self.history.names_in(question)
        query = without_names(question, names)
        ingredients: dict[str, Scores] = {}
        if self._lexical:
            words = np.max([index.scores(query) for index in self._lexical], axis=0)
            ingredients["words"] = fuse([(1.0, words)], weights.fusion)
        if self._dense:
            vector = self._embed_query(text_to_embed(question, names))
            ingredients["vectors"] = fuse([(weights.dense_weight, self._dense(vector))], weights.fusion)
        ingredients["speaker"] = weights.speaker_weight * self._priors.speaker(question)
        ingredients["statement"] = weights.statement_weight * self._priors.statement
        ingredients["date"] = weights.date_weight * self._priors.date(question)
        return ingredients

    def ingredients(self, question: QuestionAnalysis) -> dict[str, Scores]:
        """Return the addends of every unit's score, for the whole question.

        Returns:
            Weighted scores by position: `words` and `vectors`, as far as the method compares them, and the priors
            `speaker`, `statement` and `date`. `length` is the change caused by dividing by a unit's length. Parts of a
            question (`decompose`) and a reranker are not included.
        """
        ingredients = self._ingredients_of(question.queries[0])
        if self._lengths is not None:
            ingredients["length"] = self._combined(ingredients) - reduce(add, ingredients.values())
        return ingredients

    def candidates(self, question: QuestionAnalysis) -> tuple[str, list[str]]:
        """Return what a reranker reads: the whole question, and the texts of the first `rerank_depth` units."""
        places = order(self.scores(question.queries))[: self._parameters.rerank_depth]
        return question.queries[0], [self.history.texts[place] for place in places]

    def ranked(self, question: QuestionAnalysis) -> tuple[NDArray[np.int64], Scores]:
        """Return the positions of units, best first, ties in the history's order, and all scores by position.

        A reranker reorders the first `rerank_depth` units; a time range moves the units inside it to the front, or
        drops the others. Scores stay those of the first stage.
        """
        scores = self.scores(question.queries)
        places = order(scores)
        if self._reranker:
            whole, depth = question.queries[0], self._parameters.rerank_depth
            places = np.array(rerank(places.tolist(), self.history.texts, whole, self._reranker, depth), np.int64)
        mode = self._parameters.time_range
        if mode != "off" and question.range:
            margin = self._parameters.time_margin_days
            within = [in_range(days, question.range, margin) for days in self._days]
            places = np.array(apply_range(places.tolist(), within, mode), np.int64)
        return places, scores

    @property
    def _days(self) -> list[list[Interval]]:
        """Days of each unit: its session's, and those its messages mention."""
        return self._fixture.cached(("days", self.history.granularity, self.history.side), self._read_days)

    def _read_days(self) -> list[list[Interval]]:
        mentioned = self._fixture.part(DATES).intervals
        days: list[list[Interval]] = []
        for unit in self.history.units:
            messages = self.history.messages(unit)
            own = [(message.created_at.date(), message.created_at.date()) for message in messages[:1]]
            days.append(own + [day for message in messages for day in mentioned.get(message.message_id, ())])
        return days

    def _count_words(self) -> Scores:
        return np.array([max(1, len(_WORD.findall(text))) for text in self.history.texts], dtype=np.float64)

    def _keys(self) -> UnitKeys | None:
        kind = self._parameters.expansion
        return UnitKeys(self.history, self._fixture, kind, self._parameters.expansion_level) if kind else None

    def _lexical_indexes(self, parameters: LexicalParameters) -> list[LexicalIndex]:
        """Return an index over the words of the units, and a second one if keys are documents of their own."""
        own, keys = UnitWords(self.history.words, self.history.unit_of), self._keys()
        found_by = [[own]]
        if keys:
            unit_ids = [unit.unit_id for unit in self.history.units]
            found_by = joined_words(own, unit_ids, keys.texts(), self._parameters.expansion_join)
        return [LexicalIndex(self.history, parameters, words) for words in found_by]

    def _dense_index(self) -> DenseIndex:
        items, vectors = self._fixture.part(VECTORS).rows()
        keys, parameters = self._keys(), self._parameters
        key_vectors = keys.vectors() if keys else None
        stated = self._fixture.part(STATEMENT_VECTORS).rows() if parameters.statements else None
        window, join = parameters.window, parameters.expansion_join
        return DenseIndex(self.history, items, vectors, window, key_vectors, join, stated)
