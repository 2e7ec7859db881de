"""Measure how well memories find the evidence, without answering, for `retrieval`."""

from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from longmemeval.benchmarks.catalogue import benchmark_of
from longmemeval.benchmarks.retrieval_protocols import OfficialRanking, OfficialScoring
from longmemeval.benchmarks.spec import Benchmark
from longmemeval.core.executors.registry import executor_named
from longmemeval.core.journal import is_locked, iterate_journal
from longmemeval.dataset import Dataset
from longmemeval.errors import HarnessError, nearest
from longmemeval.llm.costs import SPENDING, Account
from longmemeval.llm.options import with_options
from longmemeval.measures.notation import Granularity, Ranking, RetrievalProtocol
from longmemeval.memory.configuration import MemoryConfiguration, as_configuration
from longmemeval.pipeline.options import RetrievalOptions
from longmemeval.pipeline.retrieval.official import plan_official
from longmemeval.pipeline.retrieval.ranking_run import RetrievalJob, RetrievalReport, RetrievalRun
from longmemeval.pipeline.retrieval.scoring import Scoring, chosen_measures, official_scoring, standard_scoring
from longmemeval.pipeline.retrieval.standard import Planning, Workers, rank_all
from longmemeval.pipeline.retrieval.verdict import retrieval_sentence
from longmemeval.pipeline.run.question_analysis import QueryModel
from longmemeval.records import Question
from longmemeval.results.lines import RANKINGS
from longmemeval.results.manifest import check_run_id, default_run_id, runs_by_change, stored_manifest
from longmemeval.results.selection import Selection, part_of, select, sharded_id
from longmemeval.results.settings import RetrievalSettings, memory_settings
from longmemeval.settings import Folders

__all__ = ["RetrievalOptions", "retrieve"]


def retrieve(
    dataset: Dataset,
    memories: Sequence[MemoryConfiguration | str],
    *,
    selection: Selection = Selection(),
    options: RetrievalOptions = RetrievalOptions(),
    folders: Folders | None = None,
) -> RetrievalReport:
    """Rank every selected question's history by each memory and score the rankings.

    The same command goes on with runs of it that did not finish.

    Each memory makes a run: `results/<run_id>/run.json`, `rankings.jsonl` (appended question by question) and
    `metrics/retrieval-<granularity>.json`. A run id that exists is continued if no decisive setting has changed;
    a finished run is scored again, perhaps by other measures.

    Args:
        memories: configurations, or names of presets.
        selection: the questions to rank for.
        options: protocol, level, measures and more.
        folders: the folders; None: from the environment.

    Raises:
        HarnessError: an argument is invalid, fixtures are missing or damaged, or the run id has other settings.
        SpendingLimitError, EndpointDownError: ranking stopped early; finished rankings are saved.
    """
    folders = folders or Folders()
    _check(options)
    benchmark = benchmark_of(dataset)
    protocol = _official_protocol(benchmark, dataset) if options.protocol == "official" else None
    chosen = select(list(dataset.questions()), selection, dataset.question_type)
    level = options.granularity or (protocol or benchmark.retrieval).level
    configurations = [as_configuration(memory) for memory in memories]
    bases = _run_ids(configurations, dataset, chosen, level, options, folders)
    run_ids = [sharded_id(base, selection.shard) for base in bases]
    accounts = {run_id: Account(folders.results_dir.absolute() / run_id / SPENDING) for run_id in run_ids}
    job = RetrievalJob(dataset, chosen, level, folders, selection, accounts, options.spending, options.twice)
    named = list(zip(configurations, run_ids, strict=True))
    # All are planned before the first begins, so that a mistake in the last does not surface after hours.
    if isinstance(protocol, OfficialRanking):
        _check_own_corpus(options, len(memories))
        runs = _official(job, protocol, named, options)
    else:
        _check_prepared(options)
        measures = chosen_measures(options.measures, options.cutoffs, benchmark.retrieval)
        scoring = official_scoring(dataset, level, protocol) if protocol else standard_scoring(dataset, level, measures)
        runs = _from_fixtures(job, named, scoring, options)
    part = part_of(selection, len(chosen), len(dataset))
    return RetrievalReport(
        dataset.name,
        options.protocol,
        job.level,
        runs,
        part,
        benchmark.name,
        options.twice,
        retrieval_sentence(runs),
    )


def _official_protocol(benchmark: Benchmark, dataset: Dataset) -> OfficialScoring | OfficialRanking:
    if benchmark.official_retrieval is None:
        raise HarnessError(
            f"{benchmark.title} has no official protocol of retrieval",
            where=f"dataset '{dataset.name}'",
            fix="Use --protocol standard",
        )
    return benchmark.official_retrieval


_Named = Sequence[tuple[MemoryConfiguration, str]]
"""Memories with the ids of their runs."""


def _from_fixtures(
    job: RetrievalJob, memories: _Named, scoring: Scoring, options: RetrievalOptions
) -> tuple[RetrievalRun, ...]:
    planning = Planning(
        job,
        protocol=scoring.protocol,
        prepared=options.prepared,
        embedder=options.embedder,
        query_model=QueryModel(options.query_model, options.model_options.connection) if options.query_model else None,
        reached_by=options.model_options,
    )
    plans = [planning.plan(configuration, run_id) for configuration, run_id in memories]
    for advice in dict.fromkeys(advice for plan in plans for advice in plan.fixtures.advice):
        if options.tell:
            options.tell(advice)
    return rank_all(plans, scoring, Workers(options.jobs, options.executor))


def _official(
    job: RetrievalJob, protocol: OfficialRanking, memories: _Named, options: RetrievalOptions
) -> tuple[RetrievalRun, ...]:
    plans = [plan_official(job, protocol, configuration, run_id, options) for configuration, run_id in memories]
    return tuple(execute() for execute in plans)


def _check(options: RetrievalOptions) -> None:
    """Raise if an option is invalid or options conflict, for any benchmark."""
    for kind, value, valid in (
        ("protocol", options.protocol, get_args(RetrievalProtocol)),
        ("granularity", options.granularity, get_args(Granularity)),
    ):
        if value is not None and value not in valid:
            raise HarnessError(f"Unknown retrieval {kind} '{value}'", fix=nearest(value, valid))
    official = options.protocol == "official"
    if official and (options.measures or options.cutoffs):
        raise HarnessError("The official protocol has its own measures and cutoffs", fix="Leave out --measure and --k")
    if options.log and not official:
        raise HarnessError("--log writes the official log", fix="Give --protocol official with it")
    if options.expansion_cache and not official:
        raise HarnessError("--expansion-cache is read by the official protocol", fix="Give --protocol official with it")
    if options.executor:
        executor_named(options.executor)
    if options.jobs is not None and options.jobs < 1:
        raise HarnessError(f"--jobs must be at least 1, not {options.jobs}")


def _check_own_corpus(options: RetrievalOptions, memories: int) -> None:
    """Raise if options do not fit a protocol with a corpus of its own."""
    if options.twice:
        raise HarnessError(
            "The official protocol has its own corpus and rankers; no memory is used", fix="Leave out --twice"
        )
    if options.query_model:
        raise HarnessError("The official protocol uses no chat model", fix="Leave out --query-model")
    if options.jobs not in (None, 1) or options.executor:
        raise HarnessError("The official protocol works in one process", fix="Leave out --jobs and --executor")
    if options.log and memories > 1:
        raise HarnessError(f"--log names one file for {memories} memories", fix="Give one --memory with it")


def _check_prepared(options: RetrievalOptions) -> None:
    """Raise if options fit only a protocol with a corpus of its own."""
    for name, value in (("--log", options.log), ("--expansion-cache", options.expansion_cache)):
        if value:
            what = f"{name} is for official protocols with their own corpus; here memories rank what is prepared"
            raise HarnessError(what, fix=f"Leave out {name}")


def _run_ids(
    configurations: Sequence[MemoryConfiguration],
    dataset: Dataset,
    questions: Sequence[Question],
    level: Granularity,
    options: RetrievalOptions,
    folders: Folders,
) -> list[str]:
    """Return the id of each memory's run, in their order."""
    names = [configuration.name for configuration in configurations]
    if options.run_id is None:
        kind = "retrieval" if options.protocol == "standard" else "retrieval-official"
        return [
            _unfinished(configuration, dataset, questions, level, options, folders)
            or default_run_id(folders.results_dir, dataset.name, configuration.name, f"{kind}-{level}")
            for configuration in configurations
        ]
    several = len(names) > 1
    return [check_run_id(f"{options.run_id}-{name}" if several else options.run_id) for name in names]


def _unfinished(
    configuration: MemoryConfiguration,
    dataset: Dataset,
    questions: Sequence[Question],
    level: Granularity,
    options: RetrievalOptions,
    folders: Folders,
) -> str | None:
    """Return the id of the newest run that the same command began and did not finish, and that nobody works on."""
    asked = tuple(question.question_id for question in questions)
    query_model = options.query_model and with_options(options.query_model)
    for run_id in runs_by_change(folders.results_dir):
        folder = folders.results_dir / run_id
        try:
            manifest = stored_manifest(folder)
        except HarnessError:
            continue
        settings = manifest.settings
        if (
            isinstance(settings, RetrievalSettings)
            and manifest.status != "completed"
            and manifest.dataset["content_sha256"] == dataset.content_sha256
            and manifest.question_ids == asked
            and settings.memory == memory_settings(configuration)
            and (settings.protocol, settings.granularity, settings.preparation)
            == (options.protocol, level, options.prepared)
            and (settings.query_model.spec if settings.query_model else None) == query_model
            and not is_locked(folder / RANKINGS)
            and _was_asked_twice(folder) in (None, options.twice)
        ):
            return run_id
    return None


def _was_asked_twice(folder: Path) -> bool | None:
    """Return whether a run asks each question twice; None if it has asked none."""
    first = next(iterate_journal(folder / RANKINGS, Ranking), None)
    return None if first is None else first.second is not None
