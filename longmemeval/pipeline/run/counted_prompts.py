"""Count the calls that answer questions: their prompts are made from the fixtures, and nothing is sent."""

from collections.abc import Awaitable, Callable, Sequence
from functools import lru_cache, partial

from msgspec import structs

from longmemeval.core.arrays import Vector
from longmemeval.core.event_loop import complete
from longmemeval.core.text.figures import count_of
from longmemeval.embedding.hashing import HashingEmbedder
from longmemeval.embedding.registry import is_remote
from longmemeval.errors import FixtureError, RecallError
from longmemeval.llm.cache import CachedChatModel
from longmemeval.llm.costs import REPLIES
from longmemeval.llm.options import ModelOptions, is_offline, named
from longmemeval.llm.protocol import ChatModel
from longmemeval.llm.tokens import Call, CallCounter, TokenCounter, token_counter
from longmemeval.memory.asking import recall_of
from longmemeval.memory.built_in.presets import gold_for
from longmemeval.memory.configuration import analysis_of, build_memory, definition_of, reranker_of
from longmemeval.memory.items import message_item
from longmemeval.memory.protocol import MemoryTools
from longmemeval.memory.search import Budget
from longmemeval.pipeline.estimate.stages import Calls, estimate_calls, sampled_of, share_of
from longmemeval.pipeline.prepare.access import PreparedFixtures
from longmemeval.pipeline.prepare.query_vectors import query_vectors
from longmemeval.pipeline.run.plan import RunPlan
from longmemeval.ranking.questions import analyse_by_model, analyse_by_rules
from longmemeval.reading.reader import Reader
from longmemeval.records import Question, Recall, RecalledItem
from longmemeval.storage.messages import haystack_messages

_COUNTED_CHARACTERS = 16_000_000
"""Characters of histories that are counted before anything is prepared, at least one history."""


def answering_work(plan: RunPlan, left: Sequence[Question]) -> Calls:
    """Estimate the calls that answer the remaining questions."""
    spec = plan.model
    if not left:
        return estimate_calls(spec, [], 0, "answered already")
    fixtures = plan.fixtures
    prepared = fixtures.prepared(left)
    try:
        if sampled := sampled_of(prepared):
            calls, manner, too_long = _prompts(plan, sampled, fixtures)
            manner += ", of what is prepared" if len(prepared) < len(left) else ""
            basis = f"{share_of(sampled, left)} prompts{manner}"
            return estimate_calls(spec, calls, len(left), basis, too_long=too_long)
    except FixtureError:
        pass
    except RecallError as error:  # Stops no estimate, as it stops no run.
        return Calls(spec, None, None, None, 0.0 if is_offline(spec) else None, f"the memory fails: {error.what}")
    if plan.reading.note_template is None and not plan.reading.tools:
        return _before_prepare(plan, left)
    return Calls(spec, None, None, None, 0.0 if is_offline(spec) else None, "known after prepare")


def _prompts(
    plan: RunPlan, questions: Sequence[Question], fixtures: PreparedFixtures
) -> tuple[list[Sequence[Call]], str, int]:
    """Return the calls that would answer each of `questions`, how they differ from the run's, and how many would fail.

    Raises:
        FixtureError: not prepared.
    """
    configuration, reranked = plan.configuration, reranker_of(plan.configuration)
    if reranked:
        parameters = configuration.parameters | {"reranker": None}
        configuration = configuration.model_copy(update={"parameters": parameters})
    opened = {question.haystack_id: fixtures.open(question.haystack_id) for question in questions}
    embed, manner = _vectors(plan, questions, fixtures)
    manner += ", not reranked" if reranked else ""
    analysis = analysis_of(configuration)
    if analysis.asks_model:
        manner += "; asking the model about the questions first is not counted"
    counter = CallCounter(plan.model, options=plan.options.model_options)
    tools = MemoryTools(
        embed_query=embed,
        gold=gold_for(configuration, plan.dataset),
        count_tokens=counter.tokens.count,
        analyse=partial(analyse_by_rules, method=analysis),
    )
    memory = build_memory(configuration, tools)
    calls, too_long = _read(
        plan, questions, counter, lambda question: recall_of(memory, question, opened[question.haystack_id])
    )
    if plan.reading.tools:
        most = count_of(plan.reading.options.steps or 0, "step")
        manner += f"; of one search, and reading what it finds: up to {most} may be taken"
    return calls, manner, too_long


def _read(
    plan: RunPlan,
    questions: Sequence[Question],
    counter: CallCounter,
    recall: Callable[[Question], Awaitable[Recall]],
) -> tuple[list[Sequence[Call]], int]:
    """Return the calls that would answer each of `questions` from its recall, and how many would fail."""
    reader = Reader(plan.reading, counter, counter.tokens)
    calls: list[Sequence[Call]] = []

    async def read() -> int:
        failed = 0
        for question in questions:
            failed += (await reader.read(question, await recall(question))).answer.status == "error"
            calls.append(counter.taken())
        return failed

    return calls, complete(read())


def _vectors(
    plan: RunPlan, questions: Sequence[Question], fixtures: PreparedFixtures
) -> tuple[Callable[[str], Vector], str]:
    """Return a function that embeds questions: as in the run, unless that would cost money; and a note."""
    identity = fixtures.embedder_of(questions)
    if identity is None or not is_remote(identity.spec):
        return query_vectors(questions, identity, plan.options.embedder, ModelOptions(), plan.folders, keep=False), ""
    stand_in = HashingEmbedder(fixtures.dimension_of(questions))
    return lambda text: stand_in.embed([text])[0], ", searched with other vectors than the embedder's"


def _before_prepare(plan: RunPlan, left: Sequence[Question]) -> Calls:
    """Estimate the calls from the data alone: exactly for a memory that recalls everything, else as a range.

    The range is from prompts without any message to prompts with the whole history, or as much of it as the memory's
    budget holds; no prompt exceeds the context window.
    """
    spec, reading = plan.model, plan.reading
    counter = CallCounter(spec, tokens=_counter(spec), options=plan.options.model_options)
    histories = _histories(plan, sampled_of(left))
    sampled = list(histories)
    budget = plan.configuration.parameters.get("budget")

    async def nothing(question: Question) -> Recall:
        return Recall(())

    async def everything(question: Question) -> Recall:
        return Recall(histories[question])

    async def within_budget(question: Question) -> Recall:
        items = histories[question]
        return Recall(items[: Budget(budget, counter.tokens.count).fitting(items)])

    share = share_of(sampled, left)
    if definition_of(plan.configuration).recalls_everything:
        calls, too_long = _read(plan, sampled, counter, everything)
        return estimate_calls(spec, calls, len(left), f"{share} prompts", too_long=too_long)
    least, too_long = _read(plan, sampled, counter, nothing)
    most, _ = _read(plan, sampled, counter, within_budget)
    longest = [Call(Reader(reading, counter, counter.tokens).limit or 0, counter.limits.first(reading.max_tokens))]
    low = estimate_calls(spec, least, len(left), "")
    basis = f"{share} questions, before prepare: no message to {'the budget' if budget else 'the whole history'}"
    high = estimate_calls(spec, [calls or longest for calls in most], len(left), basis, too_long=too_long)
    return structs.replace(
        high,
        prompt_tokens=high.most_prompt_tokens,
        least_prompt_tokens=low.least_prompt_tokens,
        bounded=True,
    )


@lru_cache(1)
def _counter(spec: str) -> TokenCounter:
    """Return the token counter of a model; the runs of a sweep share its memory of texts."""
    return token_counter(spec)


def _histories(plan: RunPlan, questions: Sequence[Question]) -> dict[Question, tuple[RecalledItem, ...]]:
    """Return all messages of the haystacks of `questions`, of fewer questions if there are very many."""
    histories: dict[Question, tuple[RecalledItem, ...]] = {}
    characters = 0
    for question in questions:
        messages = haystack_messages(plan.dataset.haystack(question.haystack_id))
        histories[question] = tuple(map(message_item, messages))
        characters += sum(len(message.content) for message in messages)
        if characters > _COUNTED_CHARACTERS:
            break
    return histories


def analysing_work(plan: RunPlan, questions: Sequence[Question]) -> Calls | None:
    """Estimate the calls of a chat model that analyse the questions first; None if there are none.

    If there is a cache of replies, all questions are looked up in it, and the cached ones are left out.
    """
    method = analysis_of(plan.configuration)
    if not method.asks_model or not questions:
        return None
    spec, options = named(plan.options.query_model or plan.model, plan.options.model_options.connection)
    # An empty reply is not cached.
    counter = CallCounter(spec, silent=True, options=options)
    cache = plan.folders.cache_dir / REPLIES
    chat: ChatModel = counter
    sampled: Sequence[Question] = sampled_of(questions)
    if cache.exists():
        sampled, chat = questions, CachedChatModel(counter, cache, options=options)
    calls: list[Sequence[Call]] = []

    async def ask() -> None:
        for question in sampled:
            await analyse_by_model(chat, question, method)
            calls.append(counter.taken())

    complete(ask())
    cached = sum(not calls_of_question for calls_of_question in calls)
    note = f", {cached:,} in the cache" if cached else ""
    return estimate_calls(spec, calls, len(questions), f"{share_of(sampled, questions)} prompts{note}")
