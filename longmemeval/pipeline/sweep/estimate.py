"""What the rest of a sweep would take, before anything of it is paid for."""

from collections.abc import Callable, Iterable, Sequence, Sized
from functools import partial

from msgspec import Struct, structs

from longmemeval.arrays import Vector
from longmemeval.costs.prices import price
from longmemeval.embedding.hashing import HashingEmbedder
from longmemeval.embedding.registry import is_remote
from longmemeval.errors import FixtureError
from longmemeval.event_loop import complete
from longmemeval.files import sha256_text
from longmemeval.llm.call_counter import Call, CallCounter, longest_reply
from longmemeval.llm.options import is_offline
from longmemeval.llm.registry import load_chat_model, model_warning
from longmemeval.llm.tokens import context_window
from longmemeval.memory.configuration import analysis_of, build_memory, preset_of
from longmemeval.memory.gold import gold_for
from longmemeval.memory.protocol import MemoryTools
from longmemeval.pipeline.fixtures.access import PreparedFixtures
from longmemeval.pipeline.fixtures.prepare import PrepareReport, prepare
from longmemeval.pipeline.fixtures.query_vectors import query_vectors
from longmemeval.pipeline.sweep.plan import PlannedRun
from longmemeval.pipeline.sweep.state import SweepState
from longmemeval.reading.reader import Reader
from longmemeval.records import Question
from longmemeval.retrieval.questions.analysis import analyse_by_rules
from longmemeval.storage.messages import haystack_messages
from longmemeval.text.plural import count_of

SAMPLED = 20
"""Questions whose prompts are made; the others are taken to be like them."""


class Work(Struct, frozen=True):
    """Calls of one model."""

    model: str
    calls: int | None
    """None, like tokens and dollars: not known yet."""
    prompt_tokens: int | None
    completion_tokens: int | None
    """If every reply were as long as it may be."""
    dollars: float | None
    """With replies of that length; None where the price is not known either."""
    basis: str
    """What the figures come from."""


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
    """Estimate what is left of a sweep; calls no model and writes nothing but the cache of embeddings.

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
    return RunEstimate(run.run_id, len(left), _answering(state, run, left), judging)


def _answering(state: SweepState, run: PlannedRun, left: Sequence[Question]) -> Work:
    spec, sampled = run.model.spec, _sampled(left)
    if not left:
        return _work(spec, [], 0.0, "answered already")
    share = len(left) / len(sampled)
    try:
        calls, manner = _prompts(state, run, sampled)
        return _work(spec, calls, share, f"{_share_of(sampled, left)} prompts{manner}")
    except FixtureError:
        pass
    if preset_of(run.configuration).recalls_everything and run.reading.configuration.note_template is None:
        return _work(spec, _histories(state, run, sampled), share, f"the size of {_share_of(sampled, left)} haystacks")
    return Work(spec, None, None, None, 0.0 if is_offline(spec) else None, "known after prepare")


def _prompts(state: SweepState, run: PlannedRun, questions: Sequence[Question]) -> tuple[list[Call], str]:
    """The calls that would answer `questions`, and what about them is not as in the run.

    Raises:
        FixtureError: not prepared.
    """
    configuration, reading = run.configuration, run.reading.configuration
    fixtures = PreparedFixtures(state.dataset, state.plan.prepare.name, state.where, configuration)
    opened = {question.haystack_id: fixtures.open(question.haystack_id) for question in questions}
    embed, manner = _vectors(state, questions, fixtures)
    analysis = analysis_of(configuration)
    if analysis.asks_model:
        manner += "; asking the model about the questions first is not counted"
    counter = CallCounter(run.model.spec)
    tools = MemoryTools(
        embed_query=embed,
        gold=gold_for(configuration, state.dataset),
        count_tokens=counter.tokens.count,
        analyse=partial(analyse_by_rules, method=analysis),
    )
    memory = build_memory(configuration, tools)
    if reading.context_window is None:
        reading = structs.replace(reading, context_window=context_window(run.model.spec))
    reader = Reader(reading, counter, counter.tokens)

    async def read() -> int:
        failed = 0
        for question in questions:
            recall = await memory.recall(question, opened[question.haystack_id])
            failed += (await reader.read(question, recall)).answer.status == "error"
        return failed

    if failed := complete(read()):
        manner += f"; {failed} do not fit the model's window and would fail"
    return counter.calls, manner


def _vectors(
    state: SweepState, questions: Sequence[Question], fixtures: PreparedFixtures
) -> tuple[Callable[[str], Vector], str]:
    """How questions are embedded: as in the run, unless that would cost something."""
    identity = fixtures.embedder_of(questions)
    if identity is None or not is_remote(identity.spec):
        return query_vectors(questions, identity, state.plan.prepare.embedder, None, state.where), ""
    stand_in = HashingEmbedder(fixtures.dimension_of(questions))
    return lambda text: stand_in.embed([text])[0], ", searched with other vectors than the embedder's"


def _histories(state: SweepState, run: PlannedRun, questions: Iterable[Question]) -> list[Call]:
    """One call per question with the whole haystack, without what the prompt adds to it."""
    count = CallCounter(run.model.spec).tokens.count
    haystacks = (state.dataset.haystack(question.haystack_id) for question in questions)
    sizes = (sum(count(message.content) for message in haystack_messages(haystack)) for haystack in haystacks)
    return [Call(size, run.reading.configuration.max_tokens) for size in sizes]


def _judging(state: SweepState, run: PlannedRun, spec: str) -> Work:
    """The grading of what has no label yet; answers that are not there are taken to be as long as they may be."""
    answers = state.answers(run)
    unlabelled = set(state.unlabelled(run, state.judges[spec]))
    left = [one for one in state.questions if one.question_id not in answers or one.question_id in unlabelled]
    sampled = {question.question_id for question in _sampled(left)}
    unwritten = longest_reply(run.reading.configuration.max_tokens)
    counters: list[CallCounter] = []

    def counter(model: str) -> CallCounter:
        counters.append(CallCounter(model))
        return counters[-1]

    judge = state.judge(spec, counter)
    if not counters:
        return _work(spec, [], 0.0, "rules, no model")
    if not left:
        return _work(counters[0].spec, [], 0.0, "labelled already")

    async def grade() -> None:
        for question, gold in zip(state.asked.questions.values(), state.asked.golds(), strict=True):
            if question.question_id in sampled:
                answer = answers.get(question.question_id)
                await judge.judge(question, gold, answer.hypothesis if answer else unwritten)

    complete(grade())
    basis = f"{_share_of(sampled, left)} prompts"
    return _work(counters[0].spec, counters[0].calls, len(left) / len(sampled), basis)


def _sampled(questions: Sequence[Question]) -> list[Question]:
    """Always the same ones, drawn by a hash of their ids."""
    return sorted(questions, key=lambda question: sha256_text(question.question_id))[:SAMPLED]


def _share_of(part: Sized, whole: Sized) -> str:
    return f"{len(part)} of {len(whole)}" if len(part) < len(whole) else f"all {len(whole)}"


def _work(model: str, calls: Sequence[Call], share: float, basis: str) -> Work:
    """`calls` and as many more of their kind as `share` says."""
    return Work(
        model=model,
        calls=round(len(calls) * share),
        prompt_tokens=round(sum(call.prompt_tokens for call in calls) * share),
        completion_tokens=round(sum(call.max_tokens for call in calls) * share),
        dollars=_dollars(model, calls, share),
        basis=basis,
    )


def _dollars(model: str, calls: Sequence[Call], share: float) -> float | None:
    if not calls or is_offline(model):
        return 0.0
    # Call by call: above some prompt length a token may cost more.
    prices = [price(model, call.prompt_tokens, call.max_tokens) for call in calls]
    known = [one for one in prices if one is not None]
    return sum(known) * share if len(known) == len(prices) else None


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
