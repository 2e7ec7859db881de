"""Asking the model question by question, keeping every answer the moment it is there."""

import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from msgspec import Struct, structs

from longmemeval.errors import EndpointDownError, HarnessError, RecallError, SpendingLimitError
from longmemeval.event_loop import complete, in_thread, own_time
from longmemeval.files import sha256_file
from longmemeval.llm.tokens import TokenCounter
from longmemeval.memory.protocol import KnowsTokens, MemorySystem
from longmemeval.pipeline.answer.load import LoadMonitor
from longmemeval.pipeline.answer.question_analysis import QuestionAnalyses
from longmemeval.pipeline.fixtures.access import PreparedFixtures
from longmemeval.pipeline.fixtures.query_vectors import NamesIn, QueryVectors
from longmemeval.pipeline.runs.answers import ANSWERS, PROMPTS, current_answers, is_cut, is_empty, total_usage
from longmemeval.pipeline.runs.journal import Journal, read_journal
from longmemeval.pipeline.runs.manifest import RunManifest, RunStatus, now, write_manifest
from longmemeval.pipeline.runs.progress import progress
from longmemeval.pipeline.runs.totals import analysis_totals
from longmemeval.pipeline.runs.workers import Outcomes, in_order
from longmemeval.reading.reader import Reader, Reading, SentPrompt
from longmemeval.records import Answer, Question, Usage

_TO_BE_CONTINUED = (SpendingLimitError, EndpointDownError)


class RunReport(Struct, frozen=True):
    """What `run` did."""

    run_id: str
    folder: str
    questions: int
    answered: int
    failed: int
    newly_answered: int
    shortened: int
    """Questions whose context was cut by the overflow policy."""
    usage: Usage
    """Of all answers, and of analysing questions now."""
    seconds: float
    errors: tuple[str, ...] = ()
    """The first few, `question id: what`."""
    empty: tuple[str, ...] = ()
    """Ids of the failed questions whose reply was empty however often it was asked for."""
    cut: int = 0
    """Answers that end where --max-tokens cut them."""
    load: str = ""
    """That latencies are too high because this process was too busy, where they are."""


class _PromptKey(Struct, frozen=True):
    question_id: str
    sha256: str


@dataclass(frozen=True)
class Answering:
    """One run under way."""

    folder: Path
    manifest: RunManifest
    """As the run was begun; its status is `completed` if there is nothing more to do."""
    answers: Journal[Answer]
    fixtures: PreparedFixtures
    memory: MemorySystem
    analyses: QuestionAnalyses | None
    """Asked about the questions that are to be answered before the first of them is."""
    vectors: QueryVectors
    names_in: NamesIn
    reader: Reader
    counter: TokenCounter
    """The reader's."""
    concurrency: int
    save_prompts: bool
    load: LoadMonitor = field(default_factory=LoadMonitor)

    def execute(self, questions: Sequence[Question]) -> RunReport:
        """Answer what has no answer yet; write the manifest before and after.

        Raises:
            SpendingLimitError, EndpointDownError: the rest has to wait. The manifest says `incomplete`.
            FatalModelError: no call can succeed. The manifest says `failed`, answers so far are kept; where the
                questions are analysed first, none is answered.
            AllFailedError: as above; the first questions all failed in the same way.
            IntegrityError: the answers were moved away while they were written; the manifest is left alone.
        """
        started = time.perf_counter()
        answered = current_answers(self.answers.records())
        remaining = [
            question
            for question in questions
            if question.question_id not in answered or answered[question.question_id].status == "error"
        ]
        if not remaining:
            if self.manifest.status != "completed":
                self._close("completed", 0.0)
            return self._report(questions, answered, 0.0)
        write_manifest(self.folder, structs.replace(self.manifest, status="running", ended_at="", files={}))
        any_answered = any(answer.status == "ok" for answer in answered.values())
        try:
            complete(self._answer_all(remaining, Outcomes(any_answered)))
        except BaseException as error:
            # Where the disk is full, the manifest cannot be written either; the error to tell is the first one.
            with suppress(HarnessError):
                self._close(_status_after(error), time.perf_counter() - started)
                if isinstance(error, _TO_BE_CONTINUED):
                    kept = sum(answer.status == "ok" for answer in current_answers(self.answers.records()).values())
                    error.where = f"run '{self.manifest.run_id}': {kept} of {len(questions)} answers are kept"
            raise
        seconds = time.perf_counter() - started
        report = self._report(questions, answered, seconds)
        self._close("completed" if report.answered == report.questions else "incomplete", seconds)
        return report

    async def _answer_all(self, questions: Sequence[Question], outcomes: Outcomes) -> None:
        if self.analyses:
            await self.analyses.ask(questions)
        await in_thread(self.vectors.embed_for, self.memory, questions, self.names_in)
        with ExitStack() as stack:
            prompts = stack.enter_context(Journal(self.folder / PROMPTS, SentPrompt)) if self.save_prompts else None
            seen = {(key.question_id, key.sha256) for key in read_journal(self.folder / PROMPTS, _PromptKey)}
            bar = stack.enter_context(progress(self.manifest.run_id, len(questions)))

            async def answer(question: Question) -> None:
                reading = await self._answer(question)
                self.load.answered(reading.answer.latency_ms)
                for prompt in reading.prompts:
                    if prompts and (prompt.question_id, prompt.sha256) not in seen:
                        seen.add((prompt.question_id, prompt.sha256))
                        prompts.append(prompt)
                self.answers.append(reading.answer)
                bar.advance()
                outcomes.add(reading.failure)
                outcomes.check()

            async with self.load:
                await in_order(questions, answer, self.concurrency)

    async def _answer(self, question: Question) -> Reading:
        haystack_id = question.haystack_id
        fixture = self.fixtures.opened(haystack_id)
        if fixture is None:
            fixture = await in_thread(self.fixtures.open, haystack_id)
        try:
            with own_time() as stopwatch:
                recall = await self.memory.recall(question, fixture)
        except RecallError as error:
            failed = Answer(question.question_id, "", "error", error=str(error))
            return Reading(failed, (), error)
        recall = structs.replace(recall, milliseconds=stopwatch.milliseconds)
        learn = self.memory.learn_tokens if isinstance(self.memory, KnowsTokens) else None
        return await self.reader.read(
            question, recall, partial(learn, self.counter, fixture, recall) if learn else None
        )

    def _close(self, status: RunStatus, seconds: float) -> None:
        """Write the manifest with what there is now; seconds add up over resumed sessions."""
        records = self.answers.records()
        answers = current_answers(records).values()
        totals = {
            "answered": sum(answer.status == "ok" for answer in answers),
            "failed": sum(answer.status == "error" for answer in answers),
            "empty": sum(map(is_empty, answers)),
            "cut": sum(map(is_cut, answers)),
            "shortened": _shortened(answers),
            "usage": structs.asdict(total_usage(records)),
            "seconds": round(self.manifest.totals.get("seconds", 0.0) + seconds, 3),
            **analysis_totals(self.analyses.totals if self.analyses else None, self.manifest.totals),
            **(self.load.totals() or {key: told for key, told in self.manifest.totals.items() if key == "load"}),
            **self.vectors.totals(self.manifest.totals),
        }
        hashes = {name: sha256_file(self.folder / name) for name in (ANSWERS, PROMPTS) if (self.folder / name).exists()}
        closed = structs.replace(self.manifest, status=status, ended_at=now(), totals=totals, files=hashes)
        write_manifest(self.folder, closed)

    def _report(self, questions: Sequence[Question], before: Mapping[str, Answer], seconds: float) -> RunReport:
        records = self.answers.records()
        answers = current_answers(records)
        failed = [answer for answer in answers.values() if answer.status == "error"]
        return RunReport(
            run_id=self.manifest.run_id,
            folder=str(self.folder),
            questions=len(questions),
            answered=len(answers) - len(failed),
            failed=len(failed),
            newly_answered=len(answers) - len(failed) - sum(answer.status == "ok" for answer in before.values()),
            shortened=_shortened(answers.values()),
            usage=total_usage(records) + (self.analyses.totals.usage if self.analyses else Usage()),
            seconds=round(seconds, 3),
            errors=tuple(f"{answer.question_id}: {answer.error}" for answer in failed[:5]),
            empty=tuple(answer.question_id for answer in failed if is_empty(answer)),
            cut=sum(map(is_cut, answers.values())),
            load=self.load.note(),
        )


def _status_after(error: BaseException) -> RunStatus:
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    return "incomplete" if isinstance(error, _TO_BE_CONTINUED) else "failed"


def _shortened(answers: Iterable[Answer]) -> int:
    return sum(any(note.startswith(("drop-oldest", "drop-newest")) for note in answer.notes) for answer in answers)
