"""The official protocol of `retrieval`: LongMemEval's own corpus, rankers and measures, straight from the data file.

Follows `src/retrieval/run_retrieval.py`, index expansion included. What differs: equal scores are ordered by a stable
sort, reversed, so that the later document comes first on every machine (there their order is numpy's and changes with
its version); and lines of the log come in the order of the data set.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from longmemeval.benchmarks.longmemeval.loader import LongMemEvalDataset, Record
from longmemeval.embedding.protocol import Embedder
from longmemeval.embedding.registry import DEFAULT_EMBEDDER, load_embedder
from longmemeval.errors import HarnessError, IntegrityError, nearest
from longmemeval.evaluation.measures.official import Granularity, OfficialDocument, official_corpus
from longmemeval.memory.configuration import MemoryConfiguration, resolve_configuration
from longmemeval.pipeline.retrieval.official_expansion import PARAMETERS, OfficialExpansions, official_expansions
from longmemeval.pipeline.retrieval.official_scoring import OfficialScoring, is_labelled, official_metrics
from longmemeval.pipeline.runs.manifest import RunManifest
from longmemeval.pipeline.runs.progress import progress
from longmemeval.pipeline.runs.rankings import Ranked, RetrievalJob, RetrievalRun, ranking_run
from longmemeval.retrieval import official_bm25

RETRIEVERS = {"bm25": "flat-bm25", "semantic-recall": "dense"}
"""Memories that rank as the official retrievers do, and the name in the manifest."""

CROSS_CHECKED = 3
"""Questions of a run whose BM25 scores are held against those of rank-bm25."""

Scores = NDArray[np.float64] | NDArray[np.float32]
Scorer = Callable[[Sequence[str], str], Scores]
"""From the texts of the documents and the question to scores, shape (documents,)."""


def plan_official(
    job: RetrievalJob,
    configuration: MemoryConfiguration,
    run_id: str,
    *,
    embedder: str | None,
    log: Path | None,
    prepared: str = "default",
    expansion_cache: Path | None = None,
) -> Callable[[], RetrievalRun]:
    """Check that the protocol can be followed; the function returned does it.

    Args:
        job: the data, the questions and the level.
        configuration: `bm25` or `semantic-recall`, with expansions or without; of its parameters nothing else counts.
        run_id: of its run.
        embedder: spec of the embedder for `semantic-recall`; None: the one that `prepare` takes.
        log: where to write the official log; None: nowhere.
        prepared: the preparation to read expansions from.
        expansion_cache: a file in the official format to read them from instead.

    Raises:
        HarnessError: the data is not of LongMemEval's shape, the memory is no official retriever, or the expansions it
            asks for are not there. The function returned raises `IntegrityError` when rank-bm25 gives other scores.
    """
    dataset = job.dataset
    if not isinstance(dataset, LongMemEvalDataset):
        raise HarnessError(
            f"The official retrieval protocol is LongMemEval's; '{dataset.name}' has another shape",
            where=str(dataset.path),
            fix="Use --protocol standard: for LoCoMo its recall@k is LoCoMo's official one",
        )
    _check_retriever(configuration)
    expansions = official_expansions(job, configuration, prepared=prepared, cache_file=expansion_cache)
    dense = None
    if configuration.preset == "semantic-recall":
        cache = job.where.cache_dir / "embeddings.sqlite"
        dense = load_embedder(embedder or DEFAULT_EMBEDDER, cache_path=cache, account=job.accounts.of(run_id))
    manifest = _manifest(job, configuration, run_id, dense, expansions)
    scorer = dense_scorer(dense) if dense else official_bm25.scores

    def execute() -> RetrievalRun:
        scoring = OfficialScoring(dataset, job.level)
        job.accounts.of(run_id)
        with (
            ranking_run(job.where.results_dir / run_id, manifest, job.level) as rankings,
            progress(run_id, rankings.missing) as rankings.bar,
            _log_file(log) if log else nullcontext() as lines,
        ):
            for number, record in enumerate(dataset.user_side_records(frozenset(manifest.question_ids))):
                ranked = OfficialRanking(record, job.level, scorer, expansions)
                if not dense and number < CROSS_CHECKED:
                    _check_against_library(ranked, record)
                ranking = rankings.ranking(record.question_id, ranked.items)
                scoring.add(record, [item.id for item in ranking.ranked])
                if lines:
                    metrics = official_metrics(ranked.corpus_ids, job.level) if is_labelled(dataset, record) else {}
                    lines.write(log_line(dataset.plain_record(record.question_id), ranked, metrics))
        return job.finish(manifest, rankings.new, scoring.results(configuration.name))

    return execute


def _manifest(
    job: RetrievalJob,
    configuration: MemoryConfiguration,
    run_id: str,
    dense: Embedder | None,
    expansions: OfficialExpansions | None,
) -> RunManifest:
    """What the run begins with."""
    settings: dict[str, Any] = {
        "memory": configuration.model_dump(),
        "reads_gold": False,
        "protocol": "official",
        "granularity": job.level,
        "retriever": RETRIEVERS[configuration.preset],
        "embedder": {"spec": dense.spec, "fingerprint": dense.fingerprint} if dense else None,
    }
    if expansions:
        settings["expansion"] = expansions.settings
    return job.manifest(run_id, settings, expansions.fixtures if expansions else {})


def _check_retriever(configuration: MemoryConfiguration) -> None:
    preset = configuration.preset
    if preset not in RETRIEVERS:
        raise HarnessError(f"The official protocol does not rank by '{preset}'", fix=nearest(preset, RETRIEVERS))
    # Where a preset ranks in several ways, the dense one is meant.
    known = {name: configuration.parameters[name] for name in PARAMETERS}
    official = [resolve_configuration(preset).parameters | known]
    official += [{**parameters, "retriever": "dense"} for parameters in official if "retriever" in parameters]
    if configuration.parameters not in official:
        raise HarnessError(
            f"Under the official protocol '{preset}' has no parameters but {', '.join(PARAMETERS)}",
            fix="Leave out the other --set, or use --protocol standard",
        )


def _check_against_library(ranking: "OfficialRanking", record: Record) -> None:
    documents = [document.text for document in ranking.corpus]
    if documents and not official_bm25.equals_library(documents, record.question):
        raise IntegrityError(
            f"The BM25 scores are not those of the installed rank-bm25 {version('rank-bm25')}",
            where=f"question '{record.question_id}'",
            fix="Install rank-bm25 0.2.2, against which the scores are tested; if it is that, please report this",
        )


class OfficialRanking:
    """One question's corpus, ranked when it is asked for.

    Args:
        record: the question with its haystack and labels.
        level: what a document is.
        scorer: scores the documents.
        expansions: what is joined with the corpus.
    """

    def __init__(
        self, record: Record, level: Granularity, scorer: Scorer, expansions: OfficialExpansions | None = None
    ) -> None:
        self._record = record
        self._level: Granularity = level
        self._scorer = scorer
        self._expansions = expansions

    @cached_property
    def corpus(self) -> list[OfficialDocument]:
        """The documents in file order, those that expansions add behind them."""
        corpus = official_corpus(self._record, self._level)
        return self._expansions.join(self._record, corpus) if self._expansions else corpus

    @cached_property
    def scores(self) -> Scores:
        """One per document."""
        return self._scorer([document.text for document in self.corpus], self._record.question)

    @cached_property
    def order(self) -> list[int]:
        """Indices of the documents, best first; of equal ones the later first."""
        order: list[int] = np.argsort(self.scores, kind="stable")[::-1].tolist()
        return order

    @property
    def corpus_ids(self) -> list[str]:
        """The ids of the documents, best first."""
        return [self.corpus[index].corpus_id for index in self.order]

    def items(self) -> Iterator[Ranked]:
        """The ranking by official corpus ids."""
        values = self.scores.tolist()
        return (Ranked(self.corpus[index].corpus_id, values[index]) for index in self.order)


def dense_scorer(embedder: Embedder) -> Scorer:
    """Scores by the dot product of unit vectors, of the question and the documents; a blank document gets 0."""

    def score(documents: Sequence[str], query: str) -> Scores:
        scores = np.zeros(len(documents), np.float32)
        filled = [index for index, text in enumerate(documents) if text.strip()]
        vectors = embedder.embed([*(documents[index] for index in filled), query])
        scores[filled] = vectors[:-1] @ vectors[-1]
        return scores

    return score


@contextmanager
def _log_file(path: Path) -> Iterator[IO[str]]:
    """A text file that appears under its name when it is complete."""
    unfinished = path.with_name(f".{path.name}.tmp")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with unfinished.open("w", encoding="utf-8") as handle:
            yield handle
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def log_line(plain: dict[str, Any], ranking: OfficialRanking, metrics: Mapping[str, Mapping[str, float]]) -> str:
    """One line of the log as `run_retrieval.py` writes it: the record, everything ranked, the metrics.

    Args:
        plain: the record as the file has it.
        ranking: of its corpus.
        metrics: by level; empty for a question without labels, at which the official code would stop.
    """
    keys = (
        *("question_id", "question_type", "question", "answer", "question_date", "haystack_dates"),
        *("haystack_sessions", "haystack_session_ids", "answer_session_ids"),
    )
    documents = [ranking.corpus[index] for index in ranking.order]
    results = {
        "query": plain["question"],
        "ranked_items": [
            {"corpus_id": one.corpus_id, "text": one.text, "timestamp": one.timestamp} for one in documents
        ],
        "metrics": {"session": {}, "turn": {}, **metrics},
    }
    return json.dumps({key: plain[key] for key in keys} | {"retrieval_results": results}) + "\n"
