"""Estimate the rest of a sweep before it is paid for: the sum of its runs."""

from collections.abc import Sequence
from functools import partial

from msgspec import Struct, structs

from longmemeval.core.text.figures import count_of, in_dollars
from longmemeval.errors import EndpointDownError, FatalModelError, HarnessError, ModelError
from longmemeval.llm.options import is_offline
from longmemeval.llm.registry import load_chat_model, model_warning
from longmemeval.memory.configuration import MemoryConfiguration, analysis_of
from longmemeval.pipeline.estimate.stages import Stage, Total, total_of
from longmemeval.pipeline.options import PrepareOptions
from longmemeval.pipeline.prepare.prepare import PrepareReport, prepare
from longmemeval.pipeline.run.estimate import ANALYSIS, ANSWERS, JudgeChoice, run_stages
from longmemeval.pipeline.run.plan import RunPlan
from longmemeval.pipeline.run.sample_size import planning_note
from longmemeval.pipeline.sweep.plan import placed
from longmemeval.pipeline.sweep.state import SweepState
from longmemeval.ranking.questions import AnalysisMethod


class PlannedRunEstimate(Struct, frozen=True):
    """The estimate of one unfinished run."""

    run_id: str
    questions_left: int
    answering: Stage
    judging: tuple[Stage, ...]
    """The stage of each judge."""
    replies: str
    """The source of the expected length and time of answers."""
    questions: Stage | None = None
    """The stage of analysing questions; None: not done, or another run of the list does it."""
    name: str = ""
    """What tells the run from the others of the sweep, as the comparison will show it."""


class SweepEstimate(Total, frozen=True, kw_only=True):
    """The estimate of a sweep's remaining work: the sum of its runs, without preparing."""

    preparation: PrepareReport
    """The report of a dry run for all memories together; no total includes the cost of preparing."""
    more_preparations: tuple[PrepareReport, ...] = ()
    """The same for each further preparation, if the sweep has several embedders."""
    runs: tuple[PlannedRunEstimate, ...]
    """The incomplete runs."""
    complete: int
    """The number of runs that are answered and graded."""
    spent: float
    """US dollars that the sweep's answers and judgements cost before."""
    notes: tuple[str, ...]
    """Notes about the models."""
    budget: str = ""
    """The sentence on the budget of tokens; empty if the sweep gives none."""
    planning: str = ""
    """The difference that two runs can show over these questions; empty for a shard, or if all runs are complete."""

    @property
    def preparations(self) -> tuple[PrepareReport, ...]:
        """All preparations."""
        return (self.preparation, *self.more_preparations)

    @property
    def to_prepare(self) -> int:
        """The number of haystacks to prepare, over all preparations."""
        return sum(report.prepared for report in self.preparations)

    @property
    def before_prepare(self) -> list[PlannedRunEstimate]:
        """The runs whose prompts are a range, since their memory is not prepared."""
        return [run for run in self.runs if run.answering.work.bounded]


def estimate_sweep(state: SweepState) -> SweepEstimate:
    """Estimate the remaining work of a sweep; call no model and write nothing.

    Raises:
        HarnessError: anything that `prepare` would refuse, no such model provider, or a judge that cannot grade these
            questions.
    """
    plan = state.plan
    preparation, *more = (
        prepare_one(state, options.replaced(dry_run=True), configurations)
        for options, configurations in plan.preparations
    )
    names = plan.names
    incomplete = [run for run in state.runs if not state.is_complete(run)]
    analysed = set[tuple[AnalysisMethod, str]]()
    stages = [_stages(state, run, analysed) for run in incomplete]
    return SweepEstimate(
        **structs.asdict(total_of([stage for run_stages_of in stages for stage in run_stages_of])),
        preparation=preparation,
        more_preparations=tuple(more),
        budget=plan.budget,
        planning=planning_note(state.dataset, state.questions, plan.selection) if incomplete else "",
        runs=tuple(
            _run_estimate(state, run, run_stages_of, names[run.run_id])
            for run, run_stages_of in zip(incomplete, stages, strict=True)
        ),
        complete=len(state.runs) - len(incomplete),
        spent=state.spent(),
        notes=_notes(state, incomplete),
    )


MODEL_ERRORS = (ModelError, EndpointDownError, FatalModelError)
"""Errors of a model's or an embedder's calls."""


def prepare_one(
    state: SweepState, options: PrepareOptions, configurations: Sequence[MemoryConfiguration]
) -> PrepareReport:
    """Make, or estimate, one of a sweep's preparations.

    Raises:
        HarnessError: as `prepare`; where a model or the embedder is at fault, with the entry to change.
    """
    plan, folders = state.plan, state.folders
    try:
        return prepare(state.dataset, configurations, selection=plan.selection, options=options, folders=folders)
    except HarnessError as error:
        reads = next(run.run_id for run in state.runs if run.options.prepared == options.name)
        entry = plan.entries[reads].to_check("embedder")
        if entry and (isinstance(error, MODEL_ERRORS) or error.where == options.embedder):
            error.fix = ". ".join(filter(None, [error.fix, f"Setting to change: {entry}"]))
        raise


def totals_line(estimate: SweepEstimate) -> str:
    """Return the remaining work in total, in one or two sentences."""
    lacking = f" Not included, because unknown: {'; '.join(estimate.unknown)}." if estimate.unknown else ""
    before = len(estimate.before_prepare)
    lacking += f" The prompts of {count_of(before, 'run')} are a range until they are prepared." if before else ""
    return f"Remaining: {estimate.phrase()}. Spent so far: {in_dollars(estimate.spent)}.{lacking}"


def _stages(state: SweepState, run: RunPlan, analysed: set[tuple[AnalysisMethod, str]]) -> list[Stage]:
    """Estimate a run; analyses of questions are cached, so that runs with the same questions pay once."""
    judges = [
        JudgeChoice(spec, identity, partial(state.judge, spec), state.unlabelled(run, identity))
        for spec, identity in state.judges.items()
    ]
    same = (analysis_of(run.configuration), run.model)
    stages = run_stages(run, state.asked, state.answers(run), judges, analyse=same not in analysed)
    if stages[0].name == ANALYSIS:
        analysed.add(same)
    return stages


def _run_estimate(state: SweepState, run: RunPlan, stages: Sequence[Stage], name: str) -> PlannedRunEstimate:
    by_name = {stage.name: stage for stage in stages}
    answering = by_name[ANSWERS]
    return PlannedRunEstimate(
        run.run_id,
        len(state.unanswered(run)),
        answering,
        tuple(stages[stages.index(answering) + 1 :]),
        answering.replies,
        by_name.get(ANALYSIS),
        name,
    )


def _notes(state: SweepState, runs: Sequence[RunPlan]) -> tuple[str, ...]:
    models = {(run.model, run.options.model_options): state.plan.entries[run.run_id].model for run in runs}
    for (spec, options), place in models.items():
        if is_offline(spec):
            with placed(place):
                load_chat_model(spec, options)  # Raises if a model is missing; for other models `model_warning` does.
    warnings = (model_warning(spec, options) for spec, options in models)
    return tuple(warning for warning in warnings if warning)
