"""Gather the page's data on each question from the run's files, cut to a size that opens quickly."""

from collections.abc import Iterable, Mapping, Sequence

from longmemeval.core.journal import iterate_journal
from longmemeval.core.text.paths import without_places
from longmemeval.measures.losses import cause_of
from longmemeval.measures.metrics import credit
from longmemeval.pipeline.compare.comparison import QuestionRow
from longmemeval.reading.prompts import SentPrompt
from longmemeval.records import Gold, Judgement, Message
from longmemeval.report.page.question_records import (
    Details,
    Excerpt,
    Listed,
    MessageEntry,
    QuestionDetail,
    Row,
    RunDetail,
    Verdict,
    excerpt,
    fair_limit,
    size_of,
)
from longmemeval.results.graded.graded_run import Evaluation
from longmemeval.results.lines import PROMPTS
from longmemeval.results.run_files import PromptEntry
from longmemeval.results.run_questions import RunQuestions
from longmemeval.storage.messages import haystack_messages

_MESSAGES_BUDGET = 2_400_000
_PROMPTS_BUDGET = 700_000
_ANSWERS_BUDGET = 500_000
"""Bytes of the page for recalled messages, for prompts, and for answers and judges' replies: with these the page of a
run of 500 questions stays under 5 MB."""
_MESSAGE_OVERHEAD = 60
"""The approximate size of a message without its text, in bytes."""
_SHORTEST_MESSAGE = 80
"""Bytes of each message that are kept, however many messages there are."""
_SHORTEST_ANSWER = 200
"""Bytes of each answer or judge's reply that are kept, however many there are."""
_SHORTEST_PROMPT = 250
"""The limit in bytes below which the page shows no prompts at all: they would all read the same."""
_MESSAGES_SHOWN = 30
_CUT_SHOWN = 10
"""The most messages listed per question and run, recalled and cut; evidence is always among them."""


def rows(questions: Iterable[QuestionRow], asked: RunQuestions) -> list[Row]:
    """Return the rows of the table, in the order of the questions."""

    def causes(stages: Iterable[str | None]) -> tuple[str | None, ...]:
        return tuple(stage and cause_of(stage) for stage in stages)

    return [
        Row(row.question_id, row.question_type, asked.questions[row.question_id].text, row.credits, causes(row.stages))
        for row in questions
    ]


def details(
    question_ids: Sequence[str], graded: Sequence[Evaluation], *, full: bool, prompts: bool = True
) -> tuple[Details, list[str]]:
    """Return what opens below the rows, and notes on what was left out of it.

    Args:
        question_ids: ids in the order of the rows.
        graded: runs over these questions.
        full: leave nothing out.
        prompts: include the prompts, which means reading all of them.
    """
    asked = graded[0].asked
    table = _MessageTable()
    judges: dict[str, int] = {}
    run_files = [_RunFiles(run, judges, prompts) for run in graded]
    answer_limit = prompt_limit = None
    if not full:
        answer_limit = fair_limit((n for run in run_files for n in run.answer_sizes()), _ANSWERS_BUDGET)
        answer_limit = None if answer_limit is None else max(answer_limit, _SHORTEST_ANSWER)
        prompt_limit = fair_limit((n for run in run_files for n in run.prompt_sizes()), _PROMPTS_BUDGET)
    for run in run_files if prompts else ():
        run.keep_prompts(prompt_limit)
    by_haystack: dict[str, list[str]] = {}
    for question_id in question_ids:
        by_haystack.setdefault(asked.questions[question_id].haystack_id, []).append(question_id)
    by_question: dict[str, QuestionDetail] = {}
    for haystack_id, ids in by_haystack.items():
        history = {message.message_id: message for message in haystack_messages(asked.dataset.haystack(haystack_id))}
        for question_id in ids:
            listing = _Listing(table, haystack_id, history, asked.gold(question_id), full)
            runs = tuple(run.detail(question_id, listing, answer_limit) for run in run_files)
            by_question[question_id] = _question_detail(question_id, asked, listing, runs)
    message_limit = None if full else table.fitting_limit()
    result = Details(
        tuple(judges), table.entries(message_limit), tuple(by_question[question_id] for question_id in question_ids)
    )
    return result, _shortening(result, message_limit, prompt_limit, answer_limit)


def _question_detail(
    question_id: str, asked: RunQuestions, listing: "_Listing", runs: tuple[RunDetail, ...]
) -> QuestionDetail:
    question, right = asked.questions[question_id], listing.right
    return QuestionDetail(
        date=question.date_text,
        asked=question.appended,
        answer=right.answer_text,
        unanswerable=right.abstention,
        evidence=listing.evidence(),
        evidence_is_turns=bool(right.evidence_turns),
        evidence_sessions=right.evidence_sessions,
        runs=runs,
    )


def _shortening(below: Details, messages: int | None, prompts: int | None, answers: int | None) -> list[str]:
    """Return notes on what the limits on messages, prompts and answers cut or left out."""
    no_prompts = _too_short(prompts)
    notes = [
        f"{what} are cut to about {limit:,} bytes."
        for what, limit in (
            ("Messages", messages),
            ("Prompts", None if no_prompts else prompts),
            ("Answers and judges' replies", answers),
        )
        if limit is not None
    ]
    if no_prompts:
        notes.append("This page has no prompts: there are too many.")
    runs = [run for question in below.questions for run in question.runs]
    if any(run.recalled.more or run.cut.more for run in runs):
        notes.append(
            f"At most {_MESSAGES_SHOWN} retrieved and {_CUT_SHOWN} truncated messages are listed per question."
        )
    if any(run.note_prompts for run in runs):
        notes.append("This page has no prompts that took notes before the answer.")
    if notes:
        notes.append("See answers.jsonl, prompts.jsonl and judgements/ of the run, or use --full.")
    return notes


def _too_short(prompt_limit: int | None) -> bool:
    return prompt_limit is not None and prompt_limit < _SHORTEST_PROMPT


class _MessageTable:
    """The messages of the page, each under a number."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, str], int] = {}
        self._messages: list[Message | str] = []

    def number(self, haystack_id: str, message_id: str, history: Mapping[str, Message]) -> int:
        """Return the number of a message; if the dataset does not contain it, only its id is known."""
        key = (haystack_id, message_id)
        if key not in self._numbers:
            self._numbers[key] = len(self._messages)
            self._messages.append(history.get(message_id, message_id))
        return self._numbers[key]

    def fitting_limit(self) -> int | None:
        """Return the number of bytes to which texts must be cut; None if all fit."""
        sizes = [size_of(message.content) for message in self._messages if isinstance(message, Message)]
        limit = fair_limit(sizes, max(0, _MESSAGES_BUDGET - _MESSAGE_OVERHEAD * len(sizes)))
        return None if limit is None else max(limit, _SHORTEST_MESSAGE)

    def entries(self, limit: int | None) -> tuple[MessageEntry, ...]:
        return tuple(
            MessageEntry(message, "", "", Excerpt("(not a message of the dataset)"))
            if isinstance(message, str)
            else MessageEntry(
                message.message_id,
                f"{message.created_at:%Y-%m-%d %H:%M}",
                message.speaker or message.role,
                excerpt(message.content, limit),
            )
            for message in self._messages
        )


class _Listing:
    """The listed messages of one question: all evidence, and others as far as there is room."""

    def __init__(
        self, table: _MessageTable, haystack_id: str, history: Mapping[str, Message], right: Gold, full: bool
    ) -> None:
        self.right = right
        self._table = table
        self._haystack_id = haystack_id
        self._history = history
        self.full = full
        self._seen: dict[str, None] = {}

    def listed(self, message_ids: Sequence[str], room: int) -> Listed:
        ids = list(dict.fromkeys(message_ids))
        self._seen.update(dict.fromkeys(filter(self._is_evidence, ids)))
        if self.full or len(ids) <= room:
            return Listed(tuple(map(self._number, ids)))
        left = room - sum(map(self._is_evidence, ids))
        shown = []
        for message_id in ids:
            if self._is_evidence(message_id):
                shown.append(message_id)
            elif left > 0:
                shown.append(message_id)
                left -= 1
        return Listed(tuple(map(self._number, shown)), len(ids) - len(shown))

    def evidence(self) -> tuple[int, ...]:
        """Return the labelled turns; if only sessions are labelled, the messages listed from them so far."""
        return tuple(map(self._number, self.right.evidence_turns or self._seen))

    def _is_evidence(self, message_id: str) -> bool:
        if self.right.evidence_turns:
            return message_id in self.right.evidence_turns
        return message_id.rpartition(":")[0] in self.right.evidence_sessions

    def _number(self, message_id: str) -> int:
        return self._table.number(self._haystack_id, message_id, self._history)


class _RunFiles:
    """The stored answers, prompts and judgements of one run.

    Args:
        run: the graded run.
        judges: ids with their numbers in the page; this run's judges are added.
        prompts: True if its prompts are read.
    """

    def __init__(self, run: Evaluation, judges: dict[str, int], prompts: bool) -> None:
        self._answers = run.answers
        self._file = run.files.folder / PROMPTS
        first = run.metrics.judge.id
        ids = [first, *(metrics.judge.id for metrics in run.files.metrics if metrics.judge.id != first)]
        self._judgements = {judges.setdefault(judge, len(judges)): run.files.current_judgements(judge) for judge in ids}
        self._prompt_sizes: dict[str, tuple[int, ...]] = {}
        self._prompts: dict[str, tuple[Excerpt, ...]] = {}
        self._note_prompts: dict[str, int] = {}
        for prompt in run.files.prompts if prompts else ():
            if prompt.purpose == "note":
                self._note_prompts[prompt.question_id] = self._note_prompts.get(prompt.question_id, 0) + 1
            elif self._is_answer_prompt(prompt):
                self._prompt_sizes[prompt.question_id] = prompt.sizes

    def answer_sizes(self) -> Iterable[int]:
        yield from (size_of(answer.hypothesis) for answer in self._answers.values())
        yield from (size_of(judgement.raw) for judged in self._judgements.values() for judgement in judged.values())

    def prompt_sizes(self) -> Iterable[int]:
        return (size for sizes in self._prompt_sizes.values() for size in sizes)

    def keep_prompts(self, limit: int | None) -> None:
        """Read the prompts again, now that all their sizes are known, and keep as much of each as the page shows.

        Args:
            limit: bytes to keep of each message; None: all.
        """
        if _too_short(limit):
            return
        for prompt in iterate_journal(self._file, SentPrompt):
            if prompt.purpose != "note" and self._is_answer_prompt(prompt):
                # Instructions are at the beginning of a prompt, the question at its end.
                shown = tuple(excerpt(message.content, limit, end=40) for message in prompt.messages)
                self._prompts[prompt.question_id] = shown

    def _is_answer_prompt(self, prompt: SentPrompt | PromptEntry) -> bool:
        answer = self._answers.get(prompt.question_id)
        return answer is not None and prompt.sha256 == answer.prompt_sha256

    def detail(self, question_id: str, listing: _Listing, answer_limit: int | None) -> RunDetail:
        verdicts = tuple(
            _verdict(judge, judged[question_id], answer_limit, full=listing.full)
            for judge, judged in self._judgements.items()
            if question_id in judged
        )
        answer = self._answers.get(question_id)
        if answer is None:
            return RunDetail(None, Listed(()), Listed(()), verdicts)
        return RunDetail(
            hypothesis=excerpt(answer.hypothesis, answer_limit) if answer.status == "ok" else None,
            recalled=listing.listed(answer.recall_ids, _MESSAGES_SHOWN),
            cut=listing.listed(answer.cut_ids, _CUT_SHOWN),
            verdicts=verdicts,
            prompt=self._prompts.get(question_id, ()),
            note_prompts=self._note_prompts.get(question_id, 0),
            prompt_tokens=answer.prompt_tokens,
            cost_usd=(not answer.usage.unpriced_calls and answer.usage.cost_usd) or None,
            latency_ms=None if answer.total_ms is None else round(answer.total_ms, 1),
            error=answer.error and without_places(answer.error),
            notes=tuple(map(without_places, answer.notes)),
            reasoning=answer.reasoning if listing.full else "",
        )


def _verdict(judge: int, judgement: Judgement, limit: int | None, *, full: bool) -> Verdict:
    return Verdict(
        judge=judge,
        label=judgement.label,
        raw=excerpt(judgement.raw, limit),
        score=None if judgement.score is None else credit(judgement),
        votes=judgement.votes,
        error=judgement.error and without_places(judgement.error),
        reasoning=judgement.reasoning if full else "",
    )
