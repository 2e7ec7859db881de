"""Answer, grade and compare every combination of a sweep's file; finished work is not repeated."""

import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct, structs

from longmemeval.core.arguments import checked
from longmemeval.core.text.figures import count_of, in_dollars
from longmemeval.embedding.registry import is_remote
from longmemeval.errors import (
    ContextOverflowError,
    EndpointDownError,
    FixtureError,
    HarnessError,
    SpendingLimitError,
)
from longmemeval.llm.costs import JUDGES_SPENDING, SPENDING
from longmemeval.llm.options import ModelOptions
from longmemeval.llm.rates import RateLimits
from longmemeval.pipeline.compare.compare import compare_runs
from longmemeval.pipeline.compare.comparison import Comparison, ParetoPoint, pareto_front, pareto_points
from longmemeval.pipeline.evaluate.evaluate import evaluate
from longmemeval.pipeline.prepare.prepare import PrepareReport
from longmemeval.pipeline.run.plan import RunPlan
from longmemeval.pipeline.run.run import execute
from longmemeval.pipeline.sweep.estimate import MODEL_ERRORS, SweepEstimate, estimate_sweep, prepare_one, totals_line
from longmemeval.pipeline.sweep.file import FORMER_BUDGET
from longmemeval.pipeline.sweep.holdout import Holdout, held_out, split
from longmemeval.pipeline.sweep.plan import Stage, SweepPlan, plan
from longmemeval.pipeline.sweep.state import SweepState
from longmemeval.records import Answer
from longmemeval.results.compared import baseline_first
from longmemeval.results.graded.graded_run import load_graded
from longmemeval.results.listing import abridged, record_plan
from longmemeval.settings import Folders

_SHOWN = 3
"""Failures of preparing that are told; all of them are in its journal."""


class SweepFailure(Struct, frozen=True):
    """A failure in one run; rerunning the sweep tries it again."""

    run_id: str
    what: str
    setting: str = ""
    """The entry of the file to change, with its line and fields; empty if the file has none."""


class SweepComparison(Struct, frozen=True):
    """The comparison of the runs as one judge graded them."""

    judge: str
    """The judge's id."""
    comparison: Comparison
    points: tuple[ParetoPoint, ...]
    """The runs on the axes of the front."""
    front: tuple[str, ...]
    """The ids of the runs that no other dominates."""
    holdout: Holdout | None = None
    """Score of the best configuration on haystacks that it was not chosen by; None: not requested, or there is only
    one configuration."""


class SweepReport(Struct, frozen=True):
    """The report of a sweep."""

    name: str
    results: str
    """The folder that holds the runs' folders."""
    runs: tuple[str, ...]
    """The ids of all planned runs, in their order."""
    estimate: SweepEstimate
    """The estimate before anything was paid for."""
    preparation: PrepareReport | None = None
    """The report of `prepare`; None for a dry run."""
    more_preparations: tuple[PrepareReport, ...] = ()
    """The reports for further embedders."""
    newly_answered: int = 0
    newly_judged: int = 0
    failures: tuple[SweepFailure, ...] = ()
    comparisons: tuple[SweepComparison, ...] = ()
    """One comparison per judge, over the finished runs."""
    seconds: float = 0.0


@checked()
def sweep(
    file: str | Path | SweepPlan,
    *,
    max_cost: float | None = None,
    rates: RateLimits | None = None,
    dry_run: bool = False,
    folders: Folders | None = None,
    tell: Callable[[str], None] = lambda line: None,
) -> SweepReport:
    """Prepare once, then run, grade and compare every combination of a sweep file.

    Existing runs and labels are reused. A run that fails is listed in `failures`, and the others continue.

    Args:
        file: the YAML file (`docs/sweep.md`), or the plan made from it.
        max_cost: maximum cost of preparing, answers and judgements in US dollars, including earlier sessions; None:
            the file's.
        rates: requests and tokens per minute by model; None: the plan's.
        dry_run: only estimate.
        folders: the folders; None: from the environment.
        tell: receives progress messages, one line each.

    Raises:
        HarnessError: the file is invalid, a planned run exists with other settings, or the estimate exceeds the
            limit; no question was answered.
        SpendingLimitError: the next call could have exceeded the limit. Finished work is saved.
        EndpointDownError: an endpoint failed during preparing. In a run, this is a failure of that run.
    """
    started = time.perf_counter()
    folders = folders or Folders()
    planned = file if isinstance(file, SweepPlan) else _as_begun(plan(file), folders.results_dir)
    state = SweepState(planned.under(rates) if rates else planned, folders)
    state.check_settings()
    held = split(state.asked.units, planned.holdout, planned.selection.seed) if planned.holdout else frozenset()
    estimate = estimate_sweep(state)
    dollars = planned.max_cost if max_cost is None else max_cost
    report = SweepReport(
        planned.name, str(folders.results_dir), tuple(planned_run.run_id for planned_run in planned.runs), estimate
    )
    if dry_run:
        return report
    _check_estimate(estimate, dollars)
    state.check_models(limited=dollars is not None)
    if estimate.runs:
        tell(totals_line(estimate))
    record_plan(folders.results_dir, state.record)
    preparation, *more = _prepare(state, estimate, dollars, tell)
    if dollars is not None and estimate.to_prepare:
        # With the fixtures prepared, the estimate is more precise.
        estimate = estimate_sweep(state)
        _check_estimate(estimate, dollars)
    session = _Session(state, dollars, tell)
    for number, planned_run in enumerate(state.runs, start=1):
        session.finish(planned_run, f"[{number}/{len(planned.runs)}] {planned_run.run_id}")
    return structs.replace(
        report,
        estimate=estimate,
        preparation=preparation,
        more_preparations=tuple(more),
        newly_answered=session.newly_answered,
        newly_judged=session.newly_judged,
        failures=tuple(session.failures),
        comparisons=tuple(_comparisons(state, held)),
        seconds=time.perf_counter() - started,
    )


def _as_begun(planned: SweepPlan, results_dir: Path) -> SweepPlan:
    """Return the plan of a sweep with the budget that an earlier version began it with, unasked, if one did."""
    for run in () if planned.budget else planned.runs:
        begun = abridged(results_dir / run.run_id)
        memory = begun.settings.get("memory") if begun else None
        if memory and memory["parameters"].get("budget") == FORMER_BUDGET != run.configuration.parameters.get("budget"):
            return plan(planned.file, begun=True)
    return planned


def _prepare(
    state: SweepState, estimate: SweepEstimate, dollars: float | None, tell: Callable[[str], None]
) -> list[PrepareReport]:
    """Prepare the parts that the runs read, on the account of the sweep: once for each embedder."""
    reports = []
    several = len(state.plan.preparations) > 1
    for (options, configurations), planned in zip(state.plan.preparations, estimate.preparations, strict=True):
        if planned.prepared:
            memories = count_of(len(configurations), "memory configuration")
            tell(
                f"Preparing {count_of(planned.prepared, 'haystack')} for {memories}"
                + (f", as '{options.name}'" if several else "")
            )
        limit = state.limit(dollars, state.account_file)
        options = options.replaced(spending=limit, account_file=state.account_file)
        report = prepare_one(state, options, configurations)
        for failure in report.failed[:_SHOWN]:
            tell(f"Not prepared: {failure}")
        reports.append(report)
    return reports


class _Session:
    """A session that finishes the runs of one sweep, one after another.

    Args:
        dollars: the most that the whole sweep may cost; None: no limit.
        tell: receives progress messages.
    """

    def __init__(self, state: SweepState, dollars: float | None, tell: Callable[[str], None]) -> None:
        self.newly_answered = 0
        self.newly_judged = 0
        self.failures: list[SweepFailure] = []
        self._state = state
        self._dollars = dollars
        self._tell = tell
        self._dead: set[tuple[str, str | None]] = set()
        """Models that were given up, with their addresses; trying again would take as long for every run."""

    def finish(self, planned_run: RunPlan, title: str) -> None:
        """Finish a run; a failure is recorded for the report.

        Raises:
            SpendingLimitError: the rest of the limit may not be enough for the next call of any run.
        """
        judge = ""
        try:
            self._answer(planned_run, title)
            # Without any answer there is nothing to grade, and why is recorded.
            for judge in self._state.judges if self._state.answers(planned_run) else ():
                self._grade(planned_run, judge, title)
        except SpendingLimitError:
            raise
        except HarnessError as error:
            self._failed(planned_run, str(error), "judge" if judge else _stage_of(error, planned_run), judge)

    def _answer(self, planned_run: RunPlan, title: str) -> None:
        if self._state.is_answered(planned_run):
            return
        left = len(self._state.unanswered(planned_run))
        self._tell(f"{title}: answering {count_of(left, 'question')}")
        limit = self._state.limit(self._dollars, self._state.folder(planned_run) / SPENDING)
        try:
            with self._reaching(planned_run.model, planned_run.options.model_options):
                report = execute(planned_run.with_options(spending=limit))
        finally:
            self._state.changed(planned_run)
            self.newly_answered += left - len(self._state.unanswered(planned_run))
        if report.failed:
            what = f"{report.failed} of {report.questions} questions failed, the first: {report.errors[0]}"
            first = next(one for one in self._state.files(planned_run).answers.values() if one.status != "ok")
            self._failed(planned_run, what, _stage_of_answer(first))

    def _grade(self, planned_run: RunPlan, spec: str, title: str) -> None:
        judge = self._state.judges[spec]
        if self._state.is_graded(planned_run, judge):
            return
        left = len(self._state.unlabelled(planned_run, judge))
        self._tell(f"{title}: {spec} grades {count_of(left, 'answer')}")
        planned = self._state.plan
        options = structs.replace(
            planned.grading,
            judge=spec,
            dataset=str(planned.dataset),
            spending=self._state.limit(self._dollars, self._state.folder(planned_run) / JUDGES_SPENDING),
        )
        try:
            with self._reaching(spec, planned.grading.model_options):
                evaluate(planned_run.run_id, options=options, folders=self._state.folders)
        finally:
            self._state.changed(planned_run)
            without = len(self._state.unlabelled(planned_run, judge))
            self.newly_judged += left - without
        if without:
            what = f"{count_of(without, 'answer')} could not be graded by {spec}"
            self._failed(planned_run, what, "judge", spec)

    @contextmanager
    def _reaching(self, spec: str, options: ModelOptions) -> Iterator[None]:
        """Use a model inside the context; one that was given up before in this session is refused.

        Raises:
            EndpointDownError: it does not answer, or did not before.
        """
        model = (spec, options.api_base)
        if model in self._dead:
            raise EndpointDownError(f"Skipped {spec}: its endpoint failed earlier in this sweep")
        try:
            yield
        except EndpointDownError:
            self._dead.add(model)
            raise

    def _failed(self, planned_run: RunPlan, what: str, stage: Stage, judge: str = "") -> None:
        setting = self._state.plan.entries[planned_run.run_id].to_check(stage, judge)
        self.failures.append(SweepFailure(planned_run.run_id, what, setting))


def _stage_of(error: HarnessError, planned_run: RunPlan) -> Stage:
    """Return the stage of a run that an error ended."""
    if isinstance(error, FixtureError) or (
        is_remote(spec := planned_run.options.embedder or "") and spec in str(error)
    ):
        return "embedder"
    if isinstance(error, ContextOverflowError) or "--context-window" in error.fix:
        return "reading"
    return "model" if isinstance(error, MODEL_ERRORS) else "memory"


def _stage_of_answer(failed: Answer) -> Stage:
    """Return the stage at which a question failed."""
    if "--on-overflow" in failed.error:
        return "reading"
    return "model" if failed.attempts or failed.recall_ids or failed.recall_tokens else "memory"


def _check_estimate(estimate: SweepEstimate, dollars: float | None) -> None:
    """Raise if the sweep could not be finished within the limit.

    Answers whose prompts are a range are left out: the sweep prepares, then estimates again.

    Raises:
        HarnessError: the estimate is above the limit.
    """
    known = estimate.dollars - sum(run.answering.work.dollars or 0.0 for run in estimate.before_prepare)
    if dollars is not None and known and estimate.spent + known > dollars:
        before = f", {in_dollars(estimate.spent, exact=True)} is spent" if estimate.spent else ""
        raise HarnessError(
            f"The sweep may cost up to {in_dollars(known, exact=True)} more{before}, and --max-cost is "
            f"{in_dollars(dollars, exact=True)}",
            fix="Give a higher --max-cost, fewer questions or fewer entries; --dry-run shows what each run takes",
        )


def _comparisons(state: SweepState, held: Collection[str]) -> Iterator[SweepComparison]:
    """Yield the comparison of the graded runs, judge by judge."""
    for judge in state.judges.values():
        run_ids = [
            planned_run.run_id
            for planned_run in state.runs
            if state.is_graded(planned_run, judge) and state.is_intact(planned_run)
        ]
        if run_ids:
            run_ids = baseline_first(run_ids, state.folders.results_dir)
            graded = load_graded(run_ids, state.folders, judge=judge.id, dataset=str(state.plan.dataset))
            comparison = compare_runs(graded, state.folders)
            points = pareto_points(row.summary for row in comparison.rows)
            found = held_out(graded, held) if held else None
            yield SweepComparison(judge.id, comparison, tuple(points), tuple(pareto_front(points)), found)
