"""What the rest of a sweep would take, before anything of it is paid for."""

from collections.abc import Iterable, Sequence
from functools import partial

from msgspec import Struct

from longmemeval.llm.options import is_offline
from longmemeval.llm.registry import load_chat_model, model_warning
from longmemeval.pipeline.estimate.answering import Asking, answering_work
from longmemeval.pipeline.estimate.judging import judging_work
from longmemeval.pipeline.estimate.work import Work
from longmemeval.pipeline.fixtures.prepare import PrepareReport, prepare
from longmemeval.pipeline.sweep.plan import PlannedRun
from longmemeval.pipeline.sweep.state import SweepState
from longmemeval.text.plural import count_of


class RunEstimate(Struct, frozen=True):
    """What one run would still take."""

    run_id: str
    questions_left: int
    answering: Work
    judging: tuple[Work, ...]
    """One per judge."""


class SweepEstimate(Struct, frozen=True):
    """What a sweep would still take. Totals are over what is known; `unknown` names the rest."""

    preparation: PrepareReport
    """Of a dry run; what preparing costs is in none of the totals."""
    runs: tuple[RunEstimate, ...]
    """Those that are not complete."""
    complete: int
    """Runs that are answered and graded."""
    calls: int
    prompt_tokens: int
    completion_tokens: int
    dollars: float
    spent: float
    """US dollars that the sweep's answers and judgements cost before."""
    unknown: tuple[str, ...]
    notes: tuple[str, ...]
    """What should be known of the models."""


def estimate_sweep(state: SweepState) -> SweepEstimate:
    """Estimate what is left of a sweep; calls no model and writes nothing.

    Raises:
        HarnessError: what `prepare` would refuse, no such model provider, or a judge that cannot grade these questions.
    """
    plan = state.plan
    preparation = prepare(
        state.dataset,
        plan.configurations,
        selection=plan.selection,
        options=plan.prepare.replaced(dry_run=True),
        where=state.where,
    )
    incomplete = [run for run in plan.runs if not state.is_complete(run)]
    runs = tuple(_run(state, run) for run in incomplete)
    work = [one for run in runs for one in (run.answering, *run.judging)]
    return SweepEstimate(
        preparation=preparation,
        runs=runs,
        complete=len(plan.runs) - len(runs),
        calls=sum(one.calls or 0 for one in work),
        prompt_tokens=sum(one.prompt_tokens or 0 for one in work),
        completion_tokens=sum(one.completion_tokens or 0 for one in work),
        dollars=sum(one.dollars or 0.0 for one in work),
        spent=state.spent(),
        unknown=tuple(_unknown(work)),
        notes=_notes(state, incomplete),
    )


def totals_line(estimate: SweepEstimate) -> str:
    """What is left in all, in one sentence or two."""
    lacking = f" Not in these sums, because not known: {'; '.join(estimate.unknown)}." if estimate.unknown else ""
    return (
        f"Left to do: {count_of(estimate.calls, 'call')}, {estimate.prompt_tokens:,} prompt tokens, at most "
        f"{estimate.completion_tokens:,} reply tokens and ${estimate.dollars:,.4f}; ${estimate.spent:,.4f} are spent "
        f"already.{lacking}"
    )


def _run(state: SweepState, run: PlannedRun) -> RunEstimate:
    left = state.unanswered(run)
    judging = tuple(_judging(state, run, spec) for spec in state.judges)
    asking = Asking(
        state.dataset,
        run.configuration,
        run.reading.configuration,
        run.model.spec,
        state.plan.prepare.name,
        state.plan.prepare.embedder,
        state.where,
    )
    return RunEstimate(run.run_id, len(left), answering_work(asking, left), judging)


def _judging(state: SweepState, run: PlannedRun, spec: str) -> Work:
    unlabelled = set(state.unlabelled(run, state.judges[spec]))
    longest = run.reading.configuration.max_tokens
    return judging_work(spec, partial(state.judge, spec), state.asked, state.answers(run), unlabelled, longest)


def _unknown(work: Iterable[Work]) -> list[str]:
    """What the totals lack, one phrase each."""
    unpriced = {one.model: None for one in work if one.dollars is None and one.calls is not None}
    later = sum(one.calls is None for one in work)
    return [f"the price of {model}" for model in unpriced] + (
        [f"the prompts of {count_of(later, 'run')}, known after prepare"] if later else []
    )


def _notes(state: SweepState, runs: Sequence[PlannedRun]) -> tuple[str, ...]:
    models = dict.fromkeys((run.model.spec, run.model.options) for run in runs)
    for spec, options in models:
        if is_offline(spec):
            load_chat_model(spec, options)  # Refuses what is not there; of other models `model_warning` does.
    warnings = (model_warning(spec, options) for spec, options in models)
    return tuple(warning for warning in warnings if warning)
