"""Count the calls that answer questions: their prompts are made from the fixtures, and nothing is sent."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial

from longmemeval.core.arrays import Vector
from longmemeval.core.event_loop import complete
from longmemeval.core.text.figures import count_of
from longmemeval.embedding.hashing import HashingEmbedder
from longmemeval.embedding.registry import is_remote
from longmemeval.errors import FixtureError
from longmemeval.llm.cache import CachedChatModel
from longmemeval.llm.costs import REPLIES
from longmemeval.llm.options import ModelOptions, is_offline
from longmemeval.llm.protocol import ChatModel
from longmemeval.llm.tokens import Call, CallCounter
from longmemeval.memory.asking import recall_of
from longmemeval.memory.built_in.presets import gold_for
from longmemeval.memory.configuration import analysis_of, build_memory, definition_of
from longmemeval.memory.items import message_item
from longmemeval.memory.protocol import MemoryTools
from longmemeval.pipeline.estimate.stages import Calls, estimate_calls, sampled_of, share_of
from longmemeval.pipeline.prepare.access import PreparedFixtures
from longmemeval.pipeline.prepare.query_vectors import query_vectors
from longmemeval.pipeline.run.plan import RunPlan
from longmemeval.ranking.questions import analyse_by_model, analyse_by_rules
from longmemeval.reading.reader import Reader
from longmemeval.records import Question, Recall
from longmemeval.storage.messages import haystack_messages


def answering_work(plan: RunPlan, left: Sequence[Question]) -> Calls:
    """Estimate the calls that answer the remaining questions."""
    spec = plan.model
    if not left:
        return estimate_calls(spec, [], 0, "answered already")
    fixtures = plan.fixtures
    prepared = fixtures.prepared(left)
    with suppress(FixtureError):
        if sampled := sampled_of(prepared):
            calls, manner = _prompts(plan, sampled, fixtures)
            manner += ", of what is prepared" if len(prepared) < len(left) else ""
            return estimate_calls(spec, calls, len(left), f"{share_of(sampled, left)} prompts{manner}")
    sampled = sampled_of(left)
    if definition_of(plan.configuration).recalls_everything and plan.reading.note_template is None:
        calls, manner = _histories(plan, sampled)
        return estimate_calls(spec, calls, len(left), f"{share_of(sampled, left)} prompts{manner}")
    return Calls(spec, None, None, None, 0.0 if is_offline(spec) else None, "known after prepare")


def _prompts(
    plan: RunPlan, questions: Sequence[Question], fixtures: PreparedFixtures
) -> tuple[list[Sequence[Call]], str]:
    """Return the calls that would answer each of `questions`, and a note on how they differ from the run's.

    Raises:
        FixtureError: not prepared.
    """
    configuration = plan.configuration
    opened = {question.haystack_id: fixtures.open(question.haystack_id) for question in questions}
    embed, manner = _vectors(plan, questions, fixtures)
    analysis = analysis_of(configuration)
    if analysis.asks_model:
        manner += "; asking the model about the questions first is not counted"
    counter = CallCounter(plan.model)
    tools = MemoryTools(
        embed_query=embed,
        gold=gold_for(configuration, plan.dataset),
        count_tokens=counter.tokens.count,
        analyse=partial(analyse_by_rules, method=analysis),
    )
    memory = build_memory(configuration, tools)
    calls, failing = _read(
        plan, questions, counter, lambda question: recall_of(memory, question, opened[question.haystack_id])
    )
    return calls, manner + failing


def _read(
    plan: RunPlan,
    questions: Sequence[Question],
    counter: CallCounter,
    recall: Callable[[Question], Awaitable[Recall]],
) -> tuple[list[Sequence[Call]], str]:
    """Return the calls that would answer each of `questions` from its recall, and a note on how many would fail."""
    reading = plan.reading
    reader = Reader(reading, counter, counter.tokens)
    calls: list[Sequence[Call]] = []

    async def read() -> int:
        failed = 0
        for question in questions:
            failed += (await reader.read(question, await recall(question))).answer.status == "error"
            calls.append(counter.taken())
        return failed

    failed = complete(read())
    if reading.tools:
        most = count_of(reading.options.steps or 0, "step")
        return calls, f"; of one search, and reading what it finds: up to {most} may be taken"
    return calls, f"; {failed} do not fit the model's window and would fail" if failed else ""


def _vectors(
    plan: RunPlan, questions: Sequence[Question], fixtures: PreparedFixtures
) -> tuple[Callable[[str], Vector], str]:
    """Return a function that embeds questions: as in the run, unless that would cost money; and a note."""
    identity = fixtures.embedder_of(questions)
    if identity is None or not is_remote(identity.spec):
        return query_vectors(questions, identity, plan.options.embedder, ModelOptions(), plan.folders, keep=False), ""
    stand_in = HashingEmbedder(fixtures.dimension_of(questions))
    return lambda text: stand_in.embed([text])[0], ", searched with other vectors than the embedder's"


def _histories(plan: RunPlan, questions: Sequence[Question]) -> tuple[list[Sequence[Call]], str]:
    """Return the calls that would answer each of `questions` from its whole haystack, which need not be prepared."""

    async def everything(question: Question) -> Recall:
        messages = haystack_messages(plan.dataset.haystack(question.haystack_id))
        return Recall(tuple(map(message_item, messages)))

    return _read(plan, questions, CallCounter(plan.model), everything)


def analysing_work(plan: RunPlan, questions: Sequence[Question]) -> Calls | None:
    """Estimate the calls of a chat model that analyse the questions first; None if there are none.

    If there is a cache of replies, all questions are looked up in it, and the cached ones are left out.
    """
    method = analysis_of(plan.configuration)
    if not method.asks_model or not questions:
        return None
    spec = plan.options.query_model or plan.model
    # An empty reply is not cached.
    counter = CallCounter(spec, silent=True)
    cache = plan.folders.cache_dir / REPLIES
    chat: ChatModel = counter
    sampled: Sequence[Question] = sampled_of(questions)
    if cache.exists():
        sampled, chat = questions, CachedChatModel(counter, cache, options=plan.options.model_options)
    calls: list[Sequence[Call]] = []

    async def ask() -> None:
        for question in sampled:
            await analyse_by_model(chat, question, method)
            calls.append(counter.taken())

    complete(ask())
    cached = sum(not calls_of_question for calls_of_question in calls)
    note = f", {cached:,} in the cache" if cached else ""
    return estimate_calls(spec, calls, len(questions), f"{share_of(sampled, questions)} prompts{note}")
