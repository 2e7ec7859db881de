"""Answer question by question, storing every answer as soon as it exists."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from types import TracebackType
from typing import Any, Self

import msgspec
from msgspec import Struct, structs

from longmemeval.core.event_loop import complete, in_thread, own_time
from longmemeval.core.journal import Journal
from longmemeval.errors import HarnessError, RecallError
from longmemeval.llm.model_calls import CALLS, all_written
from longmemeval.llm.tokens import Counted, TokenCounter
from longmemeval.memory.asking import recall_of
from longmemeval.memory.configuration import is_own_class
from longmemeval.memory.protocol import HasProcesses, KnowsTokens, MemorySystem
from longmemeval.pipeline.batches.batches import Batches
from longmemeval.pipeline.prepare.access import PreparedFixtures
from longmemeval.pipeline.prepare.query_vectors import NamesIn, QueryVectors
from longmemeval.pipeline.progress import progress
from longmemeval.pipeline.run.question_analysis import QuestionAnalyses
from longmemeval.pipeline.workers import ENOUGH_OF_A_CLASS, Outcomes, run_bounded
from longmemeval.reading.prompts import EncodedPrompt, SentPrompt
from longmemeval.reading.reader import Reader
from longmemeval.reading.tool_loop import Reading
from longmemeval.records import Answer, Question, Recall, Usage, usage_of
from longmemeval.results.lifecycle import RunWriter
from longmemeval.results.lines import (
    PROMPTS,
    Failures,
    answer_totals,
    broke_off,
    current_answers,
    failures_of,
    footprint_totals,
    is_cut,
    is_empty,
    is_shortened,
    is_truncated,
    question_totals,
)
from longmemeval.statistics.intervals import percentile
from longmemeval.storage.fixture import Fixture
from longmemeval.storage.memory_store import MemoryStore

# Find a memory's limits that are at least as large as a history, so that they leave nothing out.

_MESSAGE_LIMITS = ("top_k", "last_messages")
_TOKEN_LIMIT = "budget"
_LONGEST_TOKEN = 8
"""More characters per token than any history has on average: texts longer than this times the budget exceed it."""
_WHOLE = "recall"
"""Recorded if all of the history was recalled, whatever the limits."""


def non_binding_limits(
    parameters: Mapping[str, Any], recall: Recall, fixture: Fixture, counter: TokenCounter
) -> tuple[str, ...]:
    """Return the parameters that are at least as large as a history; `recall` too if all of it was recalled.

    Args:
        parameters: of the memory; `top_k` and `last_messages` are compared with the number of messages, `budget` with
            their tokens.
        fixture: the history; nothing is returned if its messages were not prepared.
        counter: the run's.
    """
    limits = {name: limit for name in (*_MESSAGE_LIMITS, _TOKEN_LIMIT) if (limit := _number(parameters, name))}
    recalled = {message_id for item in recall.items for message_id in item.message_ids}
    if not (limits or recalled) or not fixture.has_messages:
        return ()
    store = fixture.memory
    found = fixture.cached(("loose limits", *limits.items(), counter.name), lambda: _at_size(limits, store, counter))
    return (*found, _WHOLE) if recalled >= store.positions.keys() > set() else found


def _at_size(limits: Mapping[str, int], store: MemoryStore, counter: TokenCounter) -> tuple[str, ...]:
    if _TOKEN_LIMIT in limits and not _within(store, limits[_TOKEN_LIMIT], counter):
        return ()  # The budget binds, however many messages are let through.
    found = [name for name in _MESSAGE_LIMITS if limits.get(name, 0) >= len(store.messages) > 0]
    return (*found, _TOKEN_LIMIT) if _TOKEN_LIMIT in limits else tuple(found)


def _within(store: MemoryStore, budget: int, counter: TokenCounter) -> bool:
    texts = [message.content for message in store.messages]
    if not texts or sum(map(len, texts)) > _LONGEST_TOKEN * budget:
        return False
    left = budget
    for text in texts:
        left -= counter.count(text)
        if left < 0:
            return False
    return True


def _number(parameters: Mapping[str, Any], name: str) -> int | None:
    value = parameters.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


# Measure how much the harness's own load adds to measured latencies.

_BEAT_S = 0.02
_TOLERATED = 0.05
"""Share of the median latency above which a run's latencies are reported as too high."""

_ROUNDS = 4
"""Rounds of the event loop that a call waits for: two to send its request, two to read its reply."""


class LoopLagMonitor:
    """A monitor of the running event loop: a task that should wake every 20 ms measures how late it wakes.

    A reply that arrives while the loop is busy waits to be read, and that wait is measured as the model's time.
    """

    def __init__(self) -> None:
        self.longest_block_s = 0.0
        self._due = 0.0
        self._started = (0.0, 0.0)
        self._used = (0.0, 0.0)
        self._waits_ms: list[float] = []
        self._latencies_ms: list[float] = []

    async def __aenter__(self) -> Self:
        self._started = (time.perf_counter(), time.process_time())
        self._due = time.perf_counter()
        self._task = asyncio.create_task(self._beat())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task
        self._used = (time.perf_counter() - self._started[0], time.process_time() - self._started[1])

    async def _beat(self) -> None:
        while True:
            self._due = time.perf_counter() + _BEAT_S
            await asyncio.sleep(_BEAT_S)
            self.longest_block_s = max(self.longest_block_s, time.perf_counter() - self._due)

    def answered(self, latency_ms: float) -> None:
        """Record an answer just received after calls of `latency_ms`, with the loop's present lag."""
        if latency_ms > 0:
            self._latencies_ms.append(latency_ms)
            self._waits_ms.append(max(0.0, time.perf_counter() - self._due) * 1000)

    def totals(self) -> dict[str, Any]:
        """Return the manifest's `load`; empty if no call was made."""
        seconds, processor = self._used
        if not self._latencies_ms or not seconds:
            return {}
        found = {
            "longest_block_ms": round(self.longest_block_s * 1000, 1),
            "added_p50_ms": round(self._added_ms(), 1),
            "processor_share": round(processor / seconds, 3),
        }
        return {"load": found | ({"note": self.note()} if self.note() else {})}

    def note(self) -> str:
        """Return a sentence if the latencies of a run are too high beyond tolerance; else empty."""
        latency, added = percentile(self._latencies_ms, 50), self._added_ms()
        if latency is None or added <= _TOLERATED * latency:
            return ""
        return (
            f"The latencies are too high: this process was so busy that calls had to wait, about {added:,.0f} of "
            f"{latency:,.0f} ms at the median; lower --concurrency or use a less busy machine"
        )

    def _added_ms(self) -> float:
        # No more than the latency itself: a call that waited longer was not in flight all the while.
        return min(_ROUNDS * (percentile(self._waits_ms, 50) or 0.0), percentile(self._latencies_ms, 50) or 0.0)


class RunReport(Struct, frozen=True):
    """The report of `run`."""

    run_id: str
    folder: str
    questions: int
    answered: int
    failed: int
    newly_answered: int
    shortened: int
    """Questions whose context was cut by the overflow policy."""
    usage: Usage
    """The usage of all answers, and of analysing questions now."""
    seconds: float
    errors: tuple[str, ...] = ()
    """The first few errors, as `question id: message`."""
    failures: Failures = Failures()
    """The failed questions and their commonest error."""
    empty: tuple[str, ...] = ()
    """Ids of the failed questions whose reply was empty at every attempt."""
    cut: int = 0
    """Answers cut off by --max-tokens."""
    truncated: int = 0
    """Questions whose prompt the server seems to have truncated."""
    broke_off: dict[str, int] = {}
    """Answers that broke off for another reason, by finish reason."""
    load: str = ""
    """The note that latencies are too high because this process was too busy; empty if they are not."""


@dataclass(frozen=True)
class Answering:
    """A run while its questions are being answered."""

    run: RunWriter[Answer]
    fixtures: PreparedFixtures
    memory: MemorySystem
    analyses: QuestionAnalyses | None
    """The analyses of all questions to be answered, made before the first is answered."""
    vectors: QueryVectors
    names_in: NamesIn
    batches: Batches | None
    """The batches that the reader's model sends; None: it is called directly."""
    reader: Reader
    counter: TokenCounter
    """The reader's token counter."""
    concurrency: int
    save_prompts: bool
    load: LoopLagMonitor = field(default_factory=LoopLagMonitor)

    def execute(self, questions: Sequence[Question]) -> RunReport:
        """Answer the questions without an answer; write the manifest before and after.

        Raises:
            SpendingLimitError, EndpointDownError: the rest has to wait. The manifest says `incomplete`.
            FatalModelError: no call can succeed. The manifest says `failed`, answers so far are kept; if the questions
                are analysed first, none is answered.
            AllFailedError: as above; the first questions all failed in the same way.
            IntegrityError: the answers were moved away while they were written; the manifest is left alone.
        """
        answered = self._answered()
        remaining = [question for question in questions if question.question_id not in answered]
        with self.run.session(self._missing, self._totals):
            if remaining:
                memory = self.run.manifest.settings.memory
                own_class = memory.name if memory and is_own_class(memory.preset) else ""
                outcomes = Outcomes(bool(answered), own_class=own_class, most=len(remaining))
                complete(self._answer_all(remaining, outcomes))
        return self._report(len(answered), self.run.seconds if remaining else 0.0)

    def _answered(self) -> set[str]:
        current = current_answers(self.run.journal.records())
        return {name for name, answer in current.items() if answer.status == "ok"}

    def _missing(self) -> int:
        return len(self.run.manifest.question_ids) - len(self._answered())

    async def _answer_all(self, questions: Sequence[Question], outcomes: Outcomes) -> None:
        if self.analyses:
            await self.analyses.ask(questions)
        await in_thread(self.vectors.embed_for, self.memory, questions, self.names_in)
        # The first count loads what it counts by: before calls are timed.
        await in_thread(self.counter.count, "")
        with ExitStack() as stack:
            store = stack.enter_context(self._prompts()) if self.save_prompts else lambda prompt: None
            bar = stack.enter_context(progress(self.run.manifest.run_id, len(questions)))

            async def answer(question: Question) -> None:
                reading = await self._answer(question)
                self.load.answered(reading.answer.latency_ms or 0.0)
                for prompt in reading.prompts:
                    store(prompt)
                self.run.journal.append(reading.answer)
                bar.advance()
                outcomes.add(reading.failure, f"question {question.question_id}")
                outcomes.check()

            try:
                async with self.load:
                    if self.batches:
                        attempts = Counter(answer.question_id for answer in self.run.journal.records())
                        await self.batches.run_bounded(questions, answer, attempts)
                    else:
                        # The first questions show whether a class works, before others are begun.
                        begun = ENOUGH_OF_A_CLASS if outcomes.tries_class else 0
                        await run_bounded(questions[:begun], answer, self.concurrency)
                        await run_bounded(questions[begun:], answer, self.concurrency)
            except HarnessError:
                await all_written(self.run.folder / CALLS)
                raise
            await all_written(self.run.folder / CALLS)

    @contextmanager
    def _prompts(self) -> Iterator[Callable[[EncodedPrompt], None]]:
        """Yield a function that stores a prompt, unless an earlier attempt stored it."""
        seen = set[tuple[str, str]]()
        with Journal(
            self.run.folder / PROMPTS, SentPrompt, each=lambda sent: seen.add((sent.question_id, sent.sha256))
        ) as journal:
            self.run.written[PROMPTS] = journal.stored

            def keep(prompt: EncodedPrompt) -> None:
                if (prompt.question_id, prompt.sha256) not in seen:
                    seen.add((prompt.question_id, prompt.sha256))
                    journal.append_encoded(msgspec.json.encode(prompt))

            yield keep

    async def _answer(self, question: Question) -> Reading:
        try:
            # Nothing here holds on to the fixture while waiting for a reply, which may take a day.
            recall, known, loose = await self._recalled(question)
            reading = await self.reader.read(question, recall, known)
            return structs.replace(reading, answer=structs.replace(reading.answer, loose_limits=loose))
        except RecallError as error:
            failed = Answer(question.question_id, "", "error", error=str(error))
            return Reading(failed, (), error)

    async def _recalled(
        self, question: Question
    ) -> tuple[Recall, Callable[[], Sequence[Counted] | None] | None, tuple[str, ...]]:
        """Return the recall, a function for its known token counts, and the limits that did not bind."""
        haystack_id = question.haystack_id
        fixture = self.fixtures.opened(haystack_id)
        if fixture is None:
            fixture = await in_thread(self.fixtures.ready, haystack_id)
        with own_time() as stopwatch:
            recall = await recall_of(self.memory, question, fixture)
        recall = structs.replace(recall, milliseconds=stopwatch.milliseconds)
        known = self.memory.known_tokens if isinstance(self.memory, KnowsTokens) else None
        memory = self.run.manifest.settings.memory
        loose = await in_thread(non_binding_limits, memory.parameters if memory else {}, recall, fixture, self.counter)
        return recall, partial(known, self.counter, fixture, recall) if known else None, loose

    def _totals(self) -> dict[str, Any]:
        """Return totals for the manifest; seconds add up over resumed sessions."""
        before, analysed = self.run.manifest.totals, self.analyses.totals if self.analyses else None
        return {
            **answer_totals(self.run.journal.records()),
            "seconds": round(before.get("seconds", 0.0) + self.run.seconds, 3),
            **(self.load.totals() or {key: load for key, load in before.items() if key == "load"}),
            **({"batches": self.batches.totals()} if self.batches else {}),
            **question_totals(before, analysed, self.vectors.usage, self.run.folder),
            **footprint_totals(self.fixtures.stored_bytes, self._resident_bytes(), [before]),
        }

    def _resident_bytes(self) -> int | None:
        return self.memory.peak_resident_bytes() if isinstance(self.memory, HasProcesses) else None

    def _report(self, before: int, seconds: float) -> RunReport:
        records = self.run.journal.records()
        answers = current_answers(records)
        failed = [answer for answer in answers.values() if answer.status == "error"]
        return RunReport(
            run_id=self.run.manifest.run_id,
            folder=str(self.run.folder),
            questions=len(self.run.manifest.question_ids),
            answered=len(answers) - len(failed),
            failed=len(failed),
            newly_answered=len(answers) - len(failed) - before,
            shortened=sum(map(is_shortened, answers.values())),
            usage=usage_of(records) + (self.analyses.totals.usage if self.analyses else Usage()),
            seconds=round(seconds, 3),
            failures=failures_of(answers.values(), len(self.run.manifest.question_ids)),
            errors=tuple(f"{answer.question_id}: {answer.error}" for answer in failed[:5]),
            empty=tuple(answer.question_id for answer in failed if is_empty(answer)),
            cut=sum(map(is_cut, answers.values())),
            truncated=sum(map(is_truncated, answers.values())),
            broke_off=broke_off(answers.values()),
            load=self.load.note(),
        )
