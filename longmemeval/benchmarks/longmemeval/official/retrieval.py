"""The official protocol of `retrieval`: LongMemEval's own corpus, rankers and measures, straight from the data file.

Follows `src/retrieval/run_retrieval.py`, index expansion included. Differences: equal scores are ordered by a stable
sort, reversed, so that the later document comes first on every machine (there their order is numpy's and changes with
its version); and lines of the log are in the order of the data set.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longmemeval.benchmarks.longmemeval.loader import LongMemEvalDataset, Record
from longmemeval.benchmarks.longmemeval.official import bm25 as official_bm25
from longmemeval.benchmarks.longmemeval.official.expansion import PARAMETERS, OfficialExpansions, official_expansions
from longmemeval.benchmarks.longmemeval.official.measures import OfficialDocument, official_corpus
from longmemeval.benchmarks.longmemeval.official.scoring import (
    OfficialScoring,
    is_labelled,
    longmemeval_data,
    official_metrics,
)
from longmemeval.benchmarks.retrieval_protocols import RankedQuestion, RankingRequest
from longmemeval.embedding.protocol import Embedder
from longmemeval.errors import HarnessError, IntegrityError, nearest
from longmemeval.measures.notation import Granularity, Ranked, RetrievalResult
from longmemeval.memory.configuration import MemoryConfiguration, resolve_configuration

RETRIEVERS = {"bm25": "flat-bm25", "semantic-recall": "dense"}
"""Memories that rank like the official retrievers, with their names in the manifest."""

CROSS_CHECKED = 3
"""Number of questions of a run whose BM25 scores are compared with those of rank-bm25."""

Scores = NDArray[np.float64] | NDArray[np.float32]
Scorer = Callable[[Sequence[str], str], Scores]
"""Function from the texts of the documents and the question to scores, shape (documents,)."""


def official_ranker(request: RankingRequest) -> "Ranker":
    """Return the protocol, ready to rank by one memory.

    Args:
        request: its configuration is `bm25` or `semantic-recall`, with or without expansions; no other parameter may be
            set.

    Raises:
        HarnessError: the data is not in LongMemEval's format, the memory is not an official retriever, or its
            expansions are missing. Ranking raises `IntegrityError` if rank-bm25 gives other scores.
    """
    configuration = request.configuration
    _check_retriever(configuration)
    expansions = official_expansions(request)
    dense = request.embedder() if configuration.preset == "semantic-recall" else None
    return Ranker(request, dense, expansions)


class Ranker:
    """The ranker and scorer of the official protocol.

    Args:
        request: the task.
        dense: the embedder; None: BM25 ranks.
        expansions: expansions to join with the corpus.
    """

    def __init__(self, request: RankingRequest, dense: Embedder | None, expansions: OfficialExpansions | None) -> None:
        self._dataset = longmemeval_data(request.dataset)
        self._request = request
        self._dense = dense
        self._expansions = expansions
        self._scoring = OfficialScoring(self._dataset, request.level)

    @property
    def settings(self) -> dict[str, Any]:
        """The retriever, the embedder and, if any, the expansions."""
        retriever, dense = RETRIEVERS[self._request.configuration.preset], self._dense
        embedder = {"spec": dense.spec, "fingerprint": dense.fingerprint} if dense else None
        expansion = {"expansion": self._expansions.settings} if self._expansions else {}
        return {"retriever": retriever, "embedder": embedder, **expansion}

    @property
    def fixtures(self) -> dict[str, dict[str, str]]:
        """Fixture parts of the expansions."""
        return self._expansions.fixtures if self._expansions else {}

    def questions(self) -> Iterator["OfficialRanking"]:
        """Yield the questions in the order of the data; raises `IntegrityError` if rank-bm25 gives other scores."""
        scorer = dense_scorer(self._dense) if self._dense else official_bm25.scores
        wanted = frozenset(question.question_id for question in self._request.questions)
        for number, record in enumerate(self._dataset.user_side_records(wanted)):
            ranked = OfficialRanking(self._dataset, record, self._request.level, scorer, self._expansions)
            if not self._dense and number < CROSS_CHECKED:
                _check_against_library(ranked, record)
            yield ranked

    def add(self, question: RankedQuestion, ranked: Sequence[str]) -> None:
        """Score one question."""
        record = question.record if isinstance(question, OfficialRanking) else self._record(question.question_id)
        self._scoring.add(record, ranked)

    def _record(self, question_id: str) -> Record:
        return next(self._dataset.user_side_records({question_id}))

    def results(self, memory: str) -> tuple[RetrievalResult, ...]:
        """Return the means over both denominators."""
        return self._scoring.results(memory)


def _check_retriever(configuration: MemoryConfiguration) -> None:
    preset = configuration.preset
    if preset not in RETRIEVERS:
        raise HarnessError(f"The official protocol does not rank by '{preset}'", fix=nearest(preset, RETRIEVERS))
    # If a preset ranks in several ways, its dense ranking counts.
    known = {name: configuration.parameters[name] for name in PARAMETERS}
    official = [resolve_configuration(preset).parameters | known]
    official += [{**parameters, "retriever": "dense"} for parameters in official if "retriever" in parameters]
    if configuration.parameters not in official:
        raise HarnessError(
            f"Under the official protocol '{preset}' only has the parameters {', '.join(PARAMETERS)}",
            fix="Leave out the other --set, or use --protocol standard",
        )


def _check_against_library(ranking: "OfficialRanking", record: Record) -> None:
    documents = [document.text for document in ranking.corpus]
    if documents and not official_bm25.equals_library(documents, record.question):
        raise IntegrityError(
            f"The BM25 scores differ from those of the installed rank-bm25 {version('rank-bm25')}",
            where=f"question '{record.question_id}'",
            fix="Install rank-bm25 0.2.2, with which the scores are tested; if that is installed, please report this",
        )


class OfficialRanking:
    """One question's corpus, ranked on demand.

    Args:
        dataset: the data set of the question.
        record: the question with its haystack and labels.
        level: level of the documents.
        scorer: scores the documents.
        expansions: expansions to join with the corpus.
    """

    def __init__(
        self,
        dataset: LongMemEvalDataset,
        record: Record,
        level: Granularity,
        scorer: Scorer,
        expansions: OfficialExpansions | None = None,
    ) -> None:
        self._dataset = dataset
        self.record = record
        self._level: Granularity = level
        self._scorer = scorer
        self._expansions = expansions

    @property
    def question_id(self) -> str:
        """Id of the question."""
        return self.record.question_id

    @cached_property
    def corpus(self) -> list[OfficialDocument]:
        """Documents in file order, with those that expansions add at the end."""
        corpus = official_corpus(self.record, self._level)
        return self._expansions.join(self.record, corpus) if self._expansions else corpus

    @cached_property
    def scores(self) -> Scores:
        """Scores of the documents, shape (documents,)."""
        return self._scorer([document.text for document in self.corpus], self.record.question)

    @cached_property
    def order(self) -> list[int]:
        """Indices of the documents, best first; among equal scores, the later document first."""
        order: list[int] = np.argsort(self.scores, kind="stable")[::-1].tolist()
        return order

    @property
    def corpus_ids(self) -> list[str]:
        """Ids of the documents, best first."""
        return [self.corpus[index].corpus_id for index in self.order]

    def items(self) -> Iterator[Ranked]:
        """Return the ranking by official corpus ids."""
        values = self.scores.tolist()
        return (Ranked(self.corpus[index].corpus_id, values[index]) for index in self.order)

    def log_line(self) -> str:
        """Return the line of the log; without labels, where the official code would stop, it has no metrics."""
        labelled = is_labelled(self._dataset, self.record)
        metrics = official_metrics(self.corpus_ids, self._level) if labelled else {}
        return log_line(self._dataset.plain_record(self.question_id), self, metrics)


def dense_scorer(embedder: Embedder) -> Scorer:
    """Return a scorer by the dot product of unit vectors of question and documents; a blank document gets 0."""

    def score(documents: Sequence[str], query: str) -> Scores:
        scores = np.zeros(len(documents), np.float32)
        filled = [index for index, text in enumerate(documents) if text.strip()]
        vectors = embedder.embed([*(documents[index] for index in filled), query])
        scores[filled] = vectors[:-1] @ vectors[-1]
        return scores

    return score


def log_line(plain: dict[str, Any], ranking: OfficialRanking, metrics: Mapping[str, Mapping[str, float]]) -> str:
    """Return one line of the log as `run_retrieval.py` writes it: the record, the whole ranking and the metrics.

    Args:
        plain: the record as in the file.
        ranking: the ranking of its corpus.
        metrics: metrics by level; empty for a question without labels, where the official code would stop.
    """
    keys = (
        *("question_id", "question_type", "question", "answer", "question_date", "haystack_dates"),
        *("haystack_sessions", "haystack_session_ids", "answer_session_ids"),
    )
    documents = [ranking.corpus[index] for index in ranking.order]
    results = {
        "query": plain["question"],
        "ranked_items": [
            {"corpus_id": item.corpus_id, "text": item.text, "timestamp": item.timestamp} for item in documents
        ],
        "metrics": {"session": {}, "turn": {}, **metrics},
    }
    return json.dumps({key: plain[key] for key in keys} | {"retrieval_results": results}) + "\n"
