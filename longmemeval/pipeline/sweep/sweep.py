"""`sweep`: every combination of a file answered, graded and compared; whatever is done already is left alone."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct, structs

from longmemeval.core.text.plural import count_of
from longmemeval.errors import EndpointDownError, HarnessError, SpendingLimitError
from longmemeval.llm.costs.spending import shown_dollars, spent_in
from longmemeval.llm.options import ModelOptions
from longmemeval.llm.rates.limits import RateLimits
from longmemeval.pipeline.compare.compare import compare_runs
from longmemeval.pipeline.compare.comparison import Comparison
from longmemeval.pipeline.compare.pareto import ParetoPoint, pareto_front, pareto_points
from longmemeval.pipeline.evaluate.evaluate import EvaluateOptions, evaluate
from longmemeval.pipeline.prepare.prepare import PrepareReport, prepare
from longmemeval.pipeline.run.run import run
from longmemeval.pipeline.sweep.estimate import SweepEstimate, estimate_sweep, totals_line
from longmemeval.pipeline.sweep.plan import PlannedRun, SweepPlan, plan
from longmemeval.pipeline.sweep.state import SweepState
from longmemeval.results.accounts import spent_on_answers, spent_on_judging
from longmemeval.results.graded.graded_run import load_graded
from longmemeval.settings import Folders, folders


class SweepFailure(Struct, frozen=True):
    """What could not be done of one run; the same sweep again tries it again."""

    run_id: str
    what: str


class SweepComparison(Struct, frozen=True):
    """The runs as one judge graded them."""

    judge: str
    """Its id."""
    comparison: Comparison
    points: tuple[ParetoPoint, ...]
    """The runs on the axes of the front."""
    front: tuple[str, ...]
    """Ids of the runs that no other dominates."""


class SweepReport(Struct, frozen=True):
    """What a sweep did and found."""

    name: str
    results: str
    """The folder that holds the runs' folders."""
    runs: tuple[str, ...]
    """Ids of all planned runs, in their order."""
    estimate: SweepEstimate
    """As it was before anything was paid for."""
    preparation: PrepareReport | None = None
    """None: of a dry run."""
    newly_answered: int = 0
    newly_judged: int = 0
    failures: tuple[SweepFailure, ...] = ()
    comparisons: tuple[SweepComparison, ...] = ()
    """One per judge, over the runs that are done."""
    seconds: float = 0.0


def sweep(
    file: str | Path | SweepPlan,
    *,
    max_cost: float | None = None,
    rates: RateLimits | None = None,
    dry_run: bool = False,
    where: Folders | None = None,
    tell: Callable[[str], None] = lambda line: None,
) -> SweepReport:
    """Prepare once, then run, grade and compare all that a sweep's file asks for.

    Runs and labels that are there are kept; of what was interrupted only the rest is done. A run that fails is listed
    in `failures`, and the others go on.

    Args:
        file: the YAML file (`docs/sweep.md`), or the plan made of it.
        max_cost: the most that preparing, answers and judgements may cost, US dollars, earlier sessions included;
            None: as in the file.
        rates: requests and tokens per minute that models take; None: as the plan has them.
        dry_run: only estimate.
        where: the folders; None: from the environment.
        tell: is called with what is being done, a line each.

    Raises:
        HarnessError: the file is wrong, a planned run exists with other settings, or the estimate exceeds the limit:
            nothing was done, or nothing but preparing.
        SpendingLimitError: the next call could have exceeded the limit. Finished work is kept.
        EndpointDownError: while preparing. In a run it is one of its failures, and the next model has its turn.
    """
    started = time.perf_counter()
    where = where or folders()
    planned = file if isinstance(file, SweepPlan) else plan(file)
    state = SweepState(planned.under(rates) if rates else planned, where)
    state.check_begun()
    estimate = estimate_sweep(state, timed=dry_run)
    dollars = planned.max_cost if max_cost is None else max_cost
    report = SweepReport(planned.name, str(where.results_dir), tuple(one.run_id for one in planned.runs), estimate)
    if dry_run:
        return report
    _check_estimate(estimate, dollars)
    state.check_models(limited=dollars is not None)
    if estimate.runs:
        tell(totals_line(estimate))
    preparation = _prepare(state, estimate, dollars, tell)
    if dollars is not None and estimate.preparation.prepared:
        # With the fixtures there, more of it is known.
        estimate = estimate_sweep(state)
        _check_estimate(estimate, dollars)
    done = _Session(state, dollars, tell)
    for number, one in enumerate(planned.runs, start=1):
        done.finish(one, f"[{number}/{len(planned.runs)}] {one.run_id}")
    return structs.replace(
        report,
        estimate=estimate,
        preparation=preparation,
        newly_answered=done.newly_answered,
        newly_judged=done.newly_judged,
        failures=tuple(done.failures),
        comparisons=tuple(_comparisons(state)),
        seconds=round(time.perf_counter() - started, 3),
    )


def _prepare(
    state: SweepState, estimate: SweepEstimate, dollars: float | None, tell: Callable[[str], None]
) -> PrepareReport:
    """Prepare what the runs read, on the account of the sweep."""
    planned = state.plan
    if pending := estimate.preparation.prepared:
        memories = count_of(len(planned.configurations), "memory configuration")
        tell(f"Preparing {count_of(pending, 'haystack')} for {memories}")
    limit = state.limit(dollars, spent_in(state.account_file) or 0.0)
    options = planned.prepare.replaced(spending=limit, account_file=state.account_file)
    return prepare(
        state.dataset, planned.configurations, selection=planned.selection, options=options, where=state.where
    )


class _Session:
    """The runs of one sweep being finished, one after another.

    Args:
        state: the sweep.
        dollars: what all of it may cost; None: no limit.
        tell: is called with what is being done.
    """

    def __init__(self, state: SweepState, dollars: float | None, tell: Callable[[str], None]) -> None:
        self.newly_answered = 0
        self.newly_judged = 0
        self.failures: list[SweepFailure] = []
        self._state = state
        self._dollars = dollars
        self._tell = tell
        self._dead: set[tuple[str, str | None]] = set()
        """Models that were given up, and where; asking again would take as long for every run."""

    def finish(self, one: PlannedRun, title: str) -> None:
        """Do what is left of a run; what fails is kept for the report.

        Raises:
            SpendingLimitError: there may not be enough left for the next call, of whichever run.
        """
        try:
            self._answer(one, title)
            for spec in self._state.judges:
                self._grade(one, spec, title)
        except SpendingLimitError:
            raise
        except HarnessError as error:
            self._failed(one, str(error))

    def _answer(self, one: PlannedRun, title: str) -> None:
        if self._state.is_answered(one):
            return
        left = len(self._state.unanswered(one))
        self._tell(f"{title}: answering {count_of(left, 'question')}")
        limit = self._state.limit(self._dollars, spent_on_answers(self._state.folder(one)))
        try:
            with self._reaching(one.model.spec, one.model.options):
                report = run(
                    self._state.dataset,
                    one.configuration,
                    one.model.spec,
                    selection=self._state.plan.selection,
                    options=structs.replace(self._state.options(one), spending=limit),
                    where=self._state.where,
                )
        finally:
            self._state.changed(one)
            self.newly_answered += left - len(self._state.unanswered(one))
        if report.failed:
            self._failed(one, f"{report.failed} of {report.questions} questions failed, the first: {report.errors[0]}")

    def _grade(self, one: PlannedRun, spec: str, title: str) -> None:
        judge = self._state.judges[spec]
        if self._state.is_graded(one, judge):
            return
        left = len(self._state.unlabelled(one, judge))
        self._tell(f"{title}: {spec} grades {count_of(left, 'answer')}")
        planned = self._state.plan
        options = EvaluateOptions(
            judge=spec,
            votes=planned.votes,
            model_options=planned.judge_options,
            concurrency=planned.concurrency,
            dataset=str(planned.dataset),
            spending=self._state.limit(self._dollars, spent_on_judging(self._state.folder(one))),
        )
        try:
            with self._reaching(spec, planned.judge_options):
                evaluate(one.run_id, options=options, where=self._state.where)
        finally:
            self._state.changed(one)
            without = len(self._state.unlabelled(one, judge))
            self.newly_judged += left - without
        if without:
            self._failed(one, f"{count_of(without, 'answer has', 'answers have')} no label by {spec}")

    @contextmanager
    def _reaching(self, spec: str, options: ModelOptions) -> Iterator[None]:
        """Around the use of a model; refuses one that was given up before in this session.

        Raises:
            EndpointDownError: it does not answer, or did not then.
        """
        model = (spec, options.api_base)
        if model in self._dead:
            raise EndpointDownError(f"{spec} is not asked again: its endpoint was given up before in this sweep")
        try:
            yield
        except EndpointDownError:
            self._dead.add(model)
            raise

    def _failed(self, one: PlannedRun, what: str) -> None:
        self.failures.append(SweepFailure(one.run_id, what))


def _check_estimate(estimate: SweepEstimate, dollars: float | None) -> None:
    """Refuse to begin what would not get to its end.

    Raises:
        HarnessError: the estimate is above the limit.
    """
    if dollars is not None and estimate.dollars and estimate.spent + estimate.dollars > dollars:
        before = f", {shown_dollars(estimate.spent)} are spent" if estimate.spent else ""
        raise HarnessError(
            f"The sweep may cost up to ${estimate.dollars:.4f} more{before}, and --max-cost is ${dollars:.4f}",
            fix="Give a higher --max-cost, fewer questions or fewer entries; --dry-run shows what each run takes",
        )


def _comparisons(state: SweepState) -> Iterator[SweepComparison]:
    """The graded runs, judge by judge."""
    for judge in state.judges.values():
        asked = [one.run_id for one in state.plan.runs if state.is_graded(one, judge) and state.is_intact(one)]
        if asked:
            graded = load_graded(asked, state.where, judge=judge.id, dataset=str(state.plan.dataset))
            comparison = compare_runs(graded, state.where)
            points = pareto_points(one.summary for one in comparison.runs)
            yield SweepComparison(judge.id, comparison, tuple(points), tuple(pareto_front(points)))
