"""Estimate the rest of a sweep before it is paid for."""

from collections.abc import Iterable, Sequence
from functools import partial

from msgspec import Struct

from longmemeval.core.text.plural import count_of
from longmemeval.llm.options import is_offline
from longmemeval.llm.registry import load_chat_model, model_warning
from longmemeval.memory.configuration import analysis_of
from longmemeval.pipeline.estimate.answering import AnswerSetup, analysing_work, answering_work
from longmemeval.pipeline.estimate.judging import judging_work, to_label
from longmemeval.pipeline.estimate.measured import assumed_replies, expected_labels, expected_replies
from longmemeval.pipeline.estimate.stages import Stage, Stages
from longmemeval.pipeline.estimate.work import CallEstimate
from longmemeval.pipeline.prepare.prepare import PrepareReport, prepare
from longmemeval.pipeline.run.question_analysis import QueryModel
from longmemeval.pipeline.sweep.plan import PlannedRun
from longmemeval.pipeline.sweep.state import SweepState
from longmemeval.ranking.questions.analysis import AnalysisMethod


class RunEstimate(Struct, frozen=True):
    """The estimate of one unfinished run."""

    run_id: str
    questions_left: int
    answering: Stage
    judging: tuple[Stage, ...]
    """One stage per judge."""
    replies: str
    """The source of the expected length and time of answers."""
    questions: Stage | None = None
    """The stage of analysing questions; None: not done, or another run of the list does it."""

    @property
    def stages(self) -> tuple[Stage, ...]:
        """All stages, in order."""
        return (*([self.questions] if self.questions else []), self.answering, *self.judging)


class SweepEstimate(Struct, frozen=True):
    """The estimate of a sweep's rest. Totals are over what is known; `unknown` names the rest."""

    preparation: PrepareReport
    """A dry run's report, all memories together; the cost of preparing is in none of the totals."""
    runs: tuple[RunEstimate, ...]
    """The incomplete runs."""
    complete: int
    """The number of runs that are answered and graded."""
    calls: int
    prompt_tokens: int
    completion_tokens: int
    """Tokens if every reply were as long as it may be, like `dollars`."""
    dollars: float
    reply_tokens: int
    """Tokens with replies as expected, like `expected_dollars` and `seconds`."""
    expected_dollars: float
    seconds: float
    """Seconds, one run after the other."""
    spent: float
    """US dollars that the sweep's answers and judgements cost before."""
    unknown: tuple[str, ...]
    notes: tuple[str, ...]
    """Notes about the models."""


def estimate_sweep(state: SweepState, *, timed: bool = False) -> SweepEstimate:
    """Estimate what is left of a sweep; call no model and write nothing.

    Args:
        state: of the sweep.
        timed: whether to estimate the time of preparing.

    Raises:
        HarnessError: anything that `prepare` would refuse, no such model provider, or a judge that cannot grade these
            questions.
    """
    plan = state.plan
    preparation = prepare(
        state.dataset,
        plan.configurations,
        selection=plan.selection,
        options=plan.prepare.replaced(dry_run=True, timed=timed),
        where=state.where,
    )
    incomplete = [run for run in plan.runs if not state.is_complete(run)]
    asked_about = set[tuple[AnalysisMethod, str]]()
    runs = tuple(_run(state, run, asked_about) for run in incomplete)
    stages = [stage for run in runs for stage in run.stages]
    work = [stage.work for stage in stages]
    return SweepEstimate(
        preparation=preparation,
        runs=runs,
        complete=len(plan.runs) - len(runs),
        calls=sum(estimate.calls or 0 for estimate in work),
        prompt_tokens=sum(estimate.prompt_tokens or 0 for estimate in work),
        completion_tokens=sum(estimate.completion_tokens or 0 for estimate in work),
        dollars=sum(estimate.dollars or 0.0 for estimate in work),
        reply_tokens=sum(stage.reply_tokens or 0 for stage in stages),
        expected_dollars=sum(stage.dollars or 0.0 for stage in stages),
        seconds=sum(stage.seconds or 0.0 for stage in stages),
        spent=state.spent(),
        unknown=tuple(_unknown(work)),
        notes=_notes(state, incomplete),
    )


def totals_line(estimate: SweepEstimate) -> str:
    """Return what is left in all, in one sentence or two."""
    lacking = f" Not in these sums, because not known: {'; '.join(estimate.unknown)}." if estimate.unknown else ""
    tokens = f"{estimate.reply_tokens:,} to {estimate.completion_tokens:,} reply tokens"
    dollars = f"${estimate.expected_dollars:,.4f} to ${estimate.dollars:,.4f}"
    return (
        f"Left to do: {count_of(estimate.calls, 'call')}, {estimate.prompt_tokens:,} prompt tokens, {tokens} and "
        f"{dollars}; ${estimate.spent:,.4f} are spent already.{lacking}"
    )


def _run(state: SweepState, run: PlannedRun, asked_about: set[tuple[AnalysisMethod, str]]) -> RunEstimate:
    left, plan = state.unanswered(run), state.plan
    reading, model = run.reading.configuration, run.model
    setup = AnswerSetup(
        state.dataset,
        run.configuration,
        reading,
        model.spec,
        plan.prepare.name,
        plan.prepare.embedder,
        state.where,
    )
    stages = Stages(model.options.rates)
    questions = None
    # Replies about questions are cached: runs that ask the same pay once.
    same = (analysis_of(run.configuration), model.spec)
    query = QueryModel(model.spec, model.options)
    if same not in asked_about and (analysing := analysing_work(setup, query, left)):
        asked_about.add(same)
        questions = stages.add("question analysis", analysing, assumed_replies(analysing), plan.concurrency)
    replies = expected_replies(state.where.results_dir, model.spec, reading.method, reading.max_tokens)
    answering = stages.add("answers", answering_work(setup, left), replies, plan.concurrency)
    judging = tuple(_judging(state, run, spec, stages, replies.tokens) for spec in state.judges)
    return RunEstimate(run.run_id, len(left), answering, judging, replies.basis, questions)


def _judging(state: SweepState, run: PlannedRun, spec: str, stages: Stages, expected: float) -> Stage:
    answers, identity = state.answers(run), state.judges[spec]
    left = to_label(state.asked, answers, set(state.unlabelled(run, identity)))
    lengths = expected, run.reading.configuration.max_tokens
    work = judging_work(spec, partial(state.judge, spec), state.asked, answers, left, lengths)
    labels = expected_labels(state.where.results_dir, identity.id, work)
    return stages.add(f"judge {work.model}", work, labels, state.plan.concurrency)


def _unknown(work: Iterable[CallEstimate]) -> list[str]:
    """Return what the totals lack, one phrase each."""
    unpriced = {estimate.model: None for estimate in work if estimate.dollars is None and estimate.calls is not None}
    later = sum(estimate.calls is None for estimate in work)
    return [f"the price of {model}" for model in unpriced] + (
        [f"the prompts of {count_of(later, 'run')}, known after prepare"] if later else []
    )


def _notes(state: SweepState, runs: Sequence[PlannedRun]) -> tuple[str, ...]:
    models = dict.fromkeys((run.model.spec, run.model.options) for run in runs)
    for spec, options in models:
        if is_offline(spec):
            load_chat_model(spec, options)  # Raises if a model is missing; for other models `model_warning` does.
    warnings = (model_warning(spec, options) for spec, options in models)
    return tuple(warning for warning in warnings if warning)
