"""`retrieval`: how well a memory finds the evidence; nothing is answered."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import get_args

from msgspec import Struct

from longmemeval.benchmarks.dataset_protocol import Dataset
from longmemeval.errors import HarnessError, nearest
from longmemeval.evaluation.measures.notation import Measure
from longmemeval.evaluation.measures.official import Granularity
from longmemeval.executors.registry import EXECUTORS
from longmemeval.llm.options import ModelOptions
from longmemeval.memory.configuration import MemoryConfiguration, as_configuration
from longmemeval.pipeline.answer.question_analysis import QueryModel
from longmemeval.pipeline.retrieval.official import plan_official
from longmemeval.pipeline.retrieval.scoring import chosen_measures, is_locomo
from longmemeval.pipeline.retrieval.standard import Planning, Workers, rank_all
from longmemeval.pipeline.runs.accounts import AccountsOfRuns
from longmemeval.pipeline.runs.manifest import check_run_id, default_run_id
from longmemeval.pipeline.runs.rankings import RetrievalJob, RetrievalProtocol, RetrievalReport, RetrievalRun
from longmemeval.pipeline.runs.selection import Selection, part_of, select
from longmemeval.settings import Folders, folders
from longmemeval.spending import SpendingLimit


class RetrievalOptions(Struct, frozen=True):
    """Everything about `retrieval` but the data and the memories."""

    protocol: RetrievalProtocol = "standard"
    """`standard`: from prepared fixtures; `official`: LongMemEval's own corpus and measures, nothing prepared but
    expansions."""
    granularity: Granularity | None = None
    """None: turns for LoCoMo, else sessions."""
    measures: tuple[str, ...] = ()
    """See `chosen_measures`; the official protocol has its own."""
    cutoffs: tuple[int, ...] = ()
    prepared: str = "default"
    """Name of the preparation to read."""
    embedder: str | None = None
    """Standard: the embedder the fixtures name, moved; official: the one of `semantic-recall` (None: hashing)."""
    run_id: str | None = None
    """Of the run; with several memories `-<memory>` is put behind it. A begun one is continued."""
    log: Path | None = None
    """Official protocol: where to write the log in the official format."""
    expansion_cache: Path | None = None
    """Official protocol: the expansions of `expansion=…`, a file in the official format; None: of the preparation."""
    query_model: str | None = None
    """Chat model that analyses the questions, for memories that want one (`decompose=model`)."""
    model_options: ModelOptions = ModelOptions()
    """How it is reached; a remote embedder is looked for at the same endpoint."""
    spending: SpendingLimit | None = None
    """What calls about questions, and those of a remote embedder, may cost over all starts, all memories together;
    None: no limit."""
    jobs: int | None = None
    """Workers; None: one per core when there are enough haystacks, else none. The official protocol works in one."""
    executor: str | None = None
    """What runs them; None: `processes`, where there are to be workers."""
    tell: Callable[[str], None] | None = None
    """Gets what is worth knowing before the first question is ranked."""


def retrieve(
    dataset: Dataset,
    memories: Sequence[MemoryConfiguration | str],
    *,
    selection: Selection = Selection(),
    options: RetrievalOptions = RetrievalOptions(),
    where: Folders | None = None,
) -> RetrievalReport:
    """Rank every selected question's history by each memory and score the rankings.

    Each memory makes a run: `results/<run_id>/run.json`, `rankings.jsonl` (appended question by question) and
    `metrics/retrieval-<granularity>.json`. A run id that exists is continued if nothing that matters has changed;
    a finished run is scored again, by other measures perhaps.

    Args:
        dataset: where the questions come from.
        memories: configurations, or names of presets.
        selection: which questions.
        options: protocol, level, measures and the like.
        where: the folders; None: from the environment.

    Raises:
        HarnessError: bad input, missing or damaged fixtures, or a run id whose settings differ.
        SpendingLimitError, EndpointDownError: the rest has to wait; what was ranked is kept.
    """
    where = where or folders()
    _check(options, len(memories))
    locomo = is_locomo(dataset)
    chosen = select(list(dataset.questions()), selection, lambda question_id: dataset.gold(question_id).question_type)
    level = options.granularity or ("turn" if locomo else "session")
    measures = chosen_measures(options.measures, options.cutoffs, locomo=locomo)
    configurations = [as_configuration(memory) for memory in memories]
    run_ids = _run_ids([one.name for one in configurations], dataset, level, options, where)
    accounts = AccountsOfRuns(where.results_dir, run_ids, options.spending)
    job = RetrievalJob(dataset, chosen, level, where, selection, accounts)
    named = list(zip(configurations, run_ids, strict=True))
    # All are planned before the first begins: a mistake about the last does not show after hours.
    if options.protocol == "official":
        runs = _official(job, named, options)
    else:
        runs = _standard(job, named, measures, options)
    part = part_of(selection, len(chosen), len(dataset))
    return RetrievalReport(dataset.name, options.protocol, job.level, runs, part)


_Named = Sequence[tuple[MemoryConfiguration, str]]
"""Memories with the ids of their runs."""


def _standard(
    job: RetrievalJob, memories: _Named, measures: tuple[Measure, ...], options: RetrievalOptions
) -> tuple[RetrievalRun, ...]:
    planning = Planning(
        job,
        prepared=options.prepared,
        embedder=options.embedder,
        query_model=QueryModel(options.query_model, options.model_options) if options.query_model else None,
        reached_by=options.model_options,
    )
    plans = [planning.plan(configuration, run_id) for configuration, run_id in memories]
    for advice in dict.fromkeys(plan.fixtures.advice for plan in plans):
        if advice and options.tell:
            options.tell(advice)
    return rank_all(plans, measures, Workers(options.jobs, options.executor))


def _official(job: RetrievalJob, memories: _Named, options: RetrievalOptions) -> tuple[RetrievalRun, ...]:
    plans = [
        plan_official(
            job,
            configuration,
            run_id,
            embedder=options.embedder,
            log=options.log,
            prepared=options.prepared,
            expansion_cache=options.expansion_cache,
        )
        for configuration, run_id in memories
    ]
    return tuple(execute() for execute in plans)


def _check(options: RetrievalOptions, memories: int) -> None:
    """Refuse what names nothing and what does not go together."""
    for kind, given, valid in (
        ("protocol", options.protocol, get_args(RetrievalProtocol)),
        ("granularity", options.granularity, get_args(Granularity)),
    ):
        if given is not None and given not in valid:
            raise HarnessError(f"There is no retrieval {kind} '{given}'", fix=nearest(given, valid))
    official = options.protocol == "official"
    if official and (options.measures or options.cutoffs):
        raise HarnessError("The official protocol has its own measures and cutoffs", fix="Leave out --measure and --k")
    if official and options.query_model:
        raise HarnessError("The official protocol asks no chat model", fix="Leave out --query-model")
    if options.log and not official:
        raise HarnessError("--log writes the official log", fix="Give --protocol official with it")
    if options.expansion_cache and not official:
        raise HarnessError("--expansion-cache is read by the official protocol", fix="Give --protocol official with it")
    if official and (options.jobs not in (None, 1) or options.executor):
        raise HarnessError("The official protocol works in one process", fix="Leave out --jobs and --executor")
    if options.executor:
        EXECUTORS.get(options.executor)
    if options.jobs is not None and options.jobs < 1:
        raise HarnessError(f"{options.jobs} is no number of workers", fix="Give --jobs 1 or more")
    if options.log and memories > 1:
        raise HarnessError(f"--log names one file for {memories} memories", fix="Give one --memory with it")


def _run_ids(
    memories: Sequence[str], dataset: Dataset, level: Granularity, options: RetrievalOptions, where: Folders
) -> list[str]:
    """The id of each memory's run, in their order."""
    if options.run_id is None:
        kind = "retrieval" if options.protocol == "standard" else "retrieval-official"
        return [default_run_id(where.results_dir, dataset.name, memory, f"{kind}-{level}") for memory in memories]
    several = len(memories) > 1
    return [check_run_id(f"{options.run_id}-{memory}" if several else options.run_id) for memory in memories]
