"""`prepare`: every selected haystack becomes a fixture, once."""

import time
from collections.abc import Sequence

from msgspec import Struct, structs

from longmemeval.datasets.base import Dataset
from longmemeval.memory.configuration import MemoryConfiguration
from longmemeval.pipeline.build import PrepareRecord
from longmemeval.pipeline.disk import no_room
from longmemeval.pipeline.estimate import survey
from longmemeval.pipeline.journal import Journal
from longmemeval.pipeline.making import TaskMaker, make_all
from longmemeval.pipeline.paid_calls import paid_session, settle
from longmemeval.pipeline.prepare_plan import DEFAULT_EMBEDDER, Pending, PrepareOptions, PreparePlan, prepare_plan
from longmemeval.pipeline.selection import Selection
from longmemeval.records import Usage
from longmemeval.settings import Folders, folders

__all__ = ["DEFAULT_EMBEDDER", "PrepareOptions", "PrepareReport", "prepare"]


class PrepareReport(Struct, frozen=True):
    """What `prepare` did, or with `dry_run` would do."""

    preparation: str
    folder: str
    haystacks: int
    parts: tuple[str, ...]
    prepared: int = 0
    """Fixtures made or completed."""
    already: int = 0
    messages: int = 0
    embeddings_computed: int = 0
    embeddings_cached: int = 0
    embeddings_damaged: int = 0
    """Vectors of the cache that did not have their checksum; computed again."""
    usage: Usage = Usage()
    recovered: Usage = Usage()
    """What an earlier command had paid for when it was stopped before it could record it; recorded now."""
    notes: tuple[str, ...] = ()
    seconds: float = 0.0
    dry_run: bool = False
    estimate: dict[str, float] = {}
    """With `dry_run`: what it would take, by name; see `estimate`."""


def prepare(
    dataset: Dataset,
    configurations: Sequence[MemoryConfiguration | str],
    *,
    selection: Selection = Selection(),
    options: PrepareOptions = PrepareOptions(),
    where: Folders | None = None,
) -> PrepareReport:
    """Make the fixtures that `configurations` need; add what is missing, skip what is there.

    Args:
        dataset: where the haystacks come from.
        configurations: the memory configurations that will be run, or names of presets.
        selection: which questions; their haystacks are prepared.
        options: embedder, index, workers and the like.
        where: the folders; None: from the environment.

    Raises:
        HarnessError: bad options, or a preparation made from other data or by another recipe.
        SpendingLimitError, EndpointDownError: the rest has to wait; what was finished is kept.
    """
    started = time.perf_counter()
    plan = prepare_plan(dataset, configurations, selection, options, where or folders())
    report = PrepareReport(
        preparation=options.name,
        folder=str(plan.root),
        haystacks=len(plan.haystack_ids),
        parts=tuple(plan.recipes.parts),
    )
    if options.dry_run:
        return _foreseen(report, plan)
    # Whoever holds the journal owns the preparation: what stands there is looked at only then.
    with Journal(plan.root / "prepare.jsonl", PrepareRecord) as journal:
        recovered = settle(journal, plan.cache_dir)
        pending = plan.pending(plan.recipes)
        made = _make(plan, pending, journal) if pending else []
    messages = {one.haystack_id: one.messages for one in made if one.work == "fixture"}
    embedder = plan.embedder
    return structs.replace(
        _counted(report, len(messages)),
        messages=sum(messages.values()),
        embeddings_computed=embedder.misses if embedder else 0,
        embeddings_cached=embedder.hits if embedder else 0,
        embeddings_damaged=embedder.damaged if embedder else 0,
        usage=sum((one.usage for one in made), Usage()),
        recovered=recovered,
        notes=tuple(f"{one.haystack_id}: {note}" for one in made for note in one.notes),
        seconds=round(time.perf_counter() - started, 3),
    )


def _foreseen(report: PrepareReport, plan: PreparePlan) -> PrepareReport:
    """What a dry run tells."""
    pending = plan.pending(plan.recipes)
    figures, need = survey(plan, pending)
    refusal = no_room(need, plan.root)
    notes = (f"prepare would refuse. {refusal.what}",) if refusal else ()
    return structs.replace(_counted(report, len(pending)), dry_run=True, estimate=figures, notes=notes)


def _make(plan: PreparePlan, pending: Sequence[Pending], journal: Journal[PrepareRecord]) -> list[PrepareRecord]:
    """Make what is missing, stage by stage; the records of the work.

    Raises:
        HarnessError: there is not enough room, or something cannot be made.
    """
    if refusal := no_room(survey(plan, pending)[1], plan.root):
        raise refusal
    if plan.has_priced_model:
        plan.account.open()  # Before there are workers, which share the session.
    made: list[PrepareRecord] = []
    with paid_session(journal, plan.cache_dir, pays=plan.pays) as session:
        for stage in plan.recipes.stages():
            if left := plan.pending(stage):
                made += make_all(TaskMaker(plan, stage, session), left, journal)
    return made


def _counted(report: PrepareReport, prepared: int) -> PrepareReport:
    return structs.replace(report, prepared=prepared, already=report.haystacks - prepared)
