"""The official protocol of `retrieval`: LongMemEval's own corpus, rankers and measures, straight from the data file.

Follows `src/retrieval/run_retrieval.py`, index expansion included. Differences: equal scores are ordered by a stable
sort, reversed, so that the later document comes first on every machine (there their order is numpy's and changes with
its version); and lines of the log are in the order of the dataset.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib.metadata import version
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from longmemeval.benchmarks.longmemeval.loader import LongMemEvalDataset, Record
from longmemeval.benchmarks.longmemeval.official import bm25 as official_bm25
from longmemeval.benchmarks.longmemeval.official.bm25 import (
    CorpusItem,
    OfficialExpansion,
    official_cache,
    official_join,
    official_method,
    official_unit_id,
    read_official_cache,
)
from longmemeval.benchmarks.longmemeval.official.measures import OfficialDocument, official_corpus
from longmemeval.benchmarks.longmemeval.official.scoring import (
    OfficialScoring,
    is_labelled,
    longmemeval_data,
    official_metrics,
)
from longmemeval.benchmarks.retrieval_protocols import RankedQuestion, RankedRun, RankingRequest
from longmemeval.core.files import sha256_file
from longmemeval.core.text.figures import listed
from longmemeval.embedding.protocol import Embedder
from longmemeval.errors import HarnessError, IntegrityError, nearest
from longmemeval.measures.notation import Granularity, Ranked, RetrievalResult
from longmemeval.memory.configuration import MemoryConfiguration, resolve_configuration
from longmemeval.ranking.expansion.chat import ExpansionKind, ExpansionLevel
from longmemeval.ranking.expansion.part import JoinMode, keys_part

# Index expansion under the official protocol: the source of the expansions, and the corpus with them.

PARAMETERS = ("expansion", "expansion_level", "expansion_join")
"""Parameters of a memory that the official protocol supports."""

_Cache = Mapping[str, OfficialExpansion]


@dataclass(frozen=True)
class OfficialExpansions:
    """Expansions to join with each question's corpus."""

    level: ExpansionLevel
    mode: JoinMode
    cache_of: Callable[[str], _Cache]
    """Function from a haystack id to the expansions, as in an official cache file."""
    settings: dict[str, Any]
    """Settings of the expansions for the run's manifest."""
    fixtures: dict[str, dict[str, str]] = field(default_factory=dict)
    """Hashes (sha256) of the parts that hold them, by haystack id and part."""

    def join(self, record: Record, corpus: list[OfficialDocument]) -> list[OfficialDocument]:
        """Return the corpus of one question with the expansions, as the official code builds it."""
        items = [CorpusItem(document.corpus_id, document.text, document.timestamp) for document in corpus]
        units = list(_units(record, self.level))
        joined = official_join(items, units, self.cache_of(record.question_id), self.mode)
        return [OfficialDocument(*item) for item in joined]


def official_expansions(request: RankingRequest) -> OfficialExpansions | None:
    """Return the expansions that a configuration asks for; None when it asks for none.

    Args:
        request: its configuration has `expansion`, `expansion_level` and `expansion_join`; the expansions are read from
            its preparation or its file in the official format.

    Raises:
        HarnessError: the official code does not join such expansions, or they are missing or damaged.
    """
    parameters, cache_file = request.configuration.parameters, request.expansion_cache
    kind: ExpansionKind | None = parameters.get("expansion")
    if kind is None:
        if cache_file:
            raise HarnessError(
                "--expansion-cache names expansions, but the memory does not use any",
                fix=f"Add --set expansion=KIND ({', '.join(get_args(ExpansionKind)[:3])})",
            )
        return None
    level: ExpansionLevel = parameters["expansion_level"]
    mode: JoinMode = parameters["expansion_join"]
    method = official_method(kind, level, request.level)
    if cache_file:
        cache = read_official_cache(cache_file, method)
        settings = {"method": method, "join": mode, "cache_sha256": sha256_file(cache_file)}
        return OfficialExpansions(level, mode, lambda _: cache, settings)
    # Only the expansions are read, for any memory.
    reader = resolve_configuration("bm25", [f"expansion={kind}", f"expansion_level={level}"])
    fixtures = request.fixtures(reader)
    part = keys_part(kind, level)

    def cache_of(haystack_id: str) -> _Cache:
        texts = fixtures.open(haystack_id).part(part).texts
        return official_cache(kind, {official_unit_id(unit_id, level): own for unit_id, own in texts.items()})

    settings = {"method": method, "join": mode, "preparation": request.prepared}
    return OfficialExpansions(level, mode, cache_of, settings, fixtures.hashes(request.questions))


def _units(record: Record, level: ExpansionLevel) -> Iterator[tuple[str, str]]:
    """Yield id and timestamp of every session, or every user turn, as in the data."""
    columns = zip(record.haystack_session_ids, record.haystack_sessions, record.haystack_dates, strict=True)
    for session_id, session, date in columns:
        if level == "session":
            yield session_id, date
        else:
            for number, turn in enumerate(session, start=1):
                if turn.role == "user":
                    yield f"{session_id}_{number}", date


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
        dataset: the dataset of the question.
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


# Notes under tables of the official protocol of retrieval.

_NAMED_QUESTIONS = 5
_MERGE_FAULTS = (
    "an empty list of facts takes its document out of the corpus, gold or not (without gold left recall_all is 1, the "
    "others 0); unlabelled documents of evidence sessions (noans) are not expanded; a session that a haystack holds "
    "twice is expanded twice."
)
_SEPARATE_FAULTS = (
    "an expansion is one more document under the id as the data has it, so those of unlabelled documents of evidence "
    "sessions (noans) count as gold."
)


def notes(runs: Sequence[RankedRun]) -> list[str]:
    """Return the notes, a sentence or two each."""
    return [
        "Cutoffs 1, 3, 30 and 50 are in the metrics file and under --json.",
        "Ties: the later document first (a stable sort, reversed).",
        *_unlabelled_note(runs),
        *_bm25_note(runs),
        *_expansion_notes([run.settings for run in runs]),
    ]


def _unlabelled_note(runs: Sequence[RankedRun]) -> list[str]:
    """Return a note on questions without a value because the data does not label their evidence."""
    results = [result for run in runs for result in run.results]
    without = list(dict.fromkeys(question_id for result in results for question_id in result.without_labels))
    if not without:
        return []
    return [
        f"Without turn labels (has_answer), and so without a value: {listed(without, _NAMED_QUESTIONS)}. The official "
        "code stops at such data; the standard protocol goes by answer_session_ids."
    ]


def _bm25_note(runs: Sequence[RankedRun]) -> list[str]:
    """Return a note on the library that the scores of BM25 were compared with."""
    selected = [run.questions for run in runs if run.settings["retriever"] == RETRIEVERS["bm25"]]
    checked = min(CROSS_CHECKED, max(selected, default=0))
    if not checked:
        return []
    whose = f"the first {checked} questions" if checked > 1 else "the first question"
    library = f"rank-bm25 {version('rank-bm25')}"
    return [f"BM25 is our own code; its scores of {whose} equal those of {library} bit for bit (compared in this run)."]


def _expansion_notes(settings: Sequence[Mapping[str, object]]) -> list[str]:
    """Return notes on the official code's treatment of expansions that readers of the figures would not expect."""
    expansions = [record["expansion"] for record in settings if record.get("expansion")]
    joined = {expansion["join"]: expansion["method"] for expansion in expansions if isinstance(expansion, dict)}
    return [
        f"Expansions ({method}, {mode}) are joined as by the official code, its faults included: "
        f"{_SEPARATE_FAULTS if mode == 'separate' else _MERGE_FAULTS}"
        for mode, method in joined.items()
    ]
