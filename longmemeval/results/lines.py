"""The lines of a run's journals: answers, prompts, rankings and judgements, and which line counts per question."""

from collections.abc import Iterable
from pathlib import Path

from msgspec import structs

from longmemeval.core.files import sha256_text
from longmemeval.reading.reader import UNKNOWN_REASON
from longmemeval.records import UNDATED, Answer, Judgement, Usage

ANSWERS = "answers.jsonl"
PROMPTS = "prompts.jsonl"
RANKINGS = "rankings.jsonl"
_EMPTY_ANSWER = sha256_text("")
_SHORTENED_NOTES = ("drop-oldest: ", "drop-newest: ")


def normalise_empty(answer: Answer) -> Answer:
    """Return the answer; if it is an empty reply, which an earlier version took for an answer, as a failure.

    Empty answers of other systems stay answers, since their prompts are unknown.
    """
    if answer.status == "error" or answer.hypothesis.strip() or not answer.attempts:
        return answer
    reason = answer.finish_reason or UNKNOWN_REASON
    return structs.replace(
        answer, status="error", finish_reason=reason, error=f"The reply is empty (finish reason: {reason})"
    )


def is_empty(answer: Answer) -> bool:
    """Return whether the model was called and replied with nothing."""
    return answer.status == "error" and answer.finish_reason != ""


def is_cut(answer: Answer) -> bool:
    """Return whether an answer was cut off by --max-tokens."""
    return answer.status == "ok" and answer.finish_reason == "length"


def is_shortened(answer: Answer) -> bool:
    """Return whether messages were left out of the prompt to fit the model's window."""
    if answer.dropped is not None:
        return answer.dropped > 0
    return any(note.startswith(_SHORTENED_NOTES) for note in answer.notes)


def is_undated(answer: Answer) -> bool:
    """Return whether it was given from items without a date."""
    return any(note.startswith(UNDATED) for note in answer.notes)


def current_answers(answers: Iterable[Answer]) -> dict[str, Answer]:
    """Return the answer that counts for each question: its only one, or the one after failed calls and empty replies.

    A failed call may be repeated by `--resume`; an existing answer never is.
    """
    current: dict[str, Answer] = {}
    for answer in map(normalise_empty, answers):
        if answer.question_id not in current or current[answer.question_id].status == "error":
            current[answer.question_id] = answer
    return current


def total_usage(answers: Iterable[Answer]) -> Usage:
    """Return the usage of all attempts of a run, failed ones that were repeated included."""
    return sum((answer.usage for answer in answers), Usage())


def judgements_file(folder: Path, judge_id: str) -> Path:
    """Return the path of the judgements of one judge."""
    return folder / "judgements" / f"{judge_id}.jsonl"


def drop_empty(judgements: Iterable[Judgement]) -> list[Judgement]:
    """Return the judgements without those of empty replies, which an earlier version took for answers."""
    return [judgement for judgement in judgements if judgement.answer_sha256 != _EMPTY_ANSWER]


def latest_judgements(judgements: Iterable[Judgement]) -> dict[str, Judgement]:
    """Return, for each question, its label, or the newest failure if there is no label."""
    current: dict[str, Judgement] = {}
    for judgement in judgements:
        if judgement.question_id not in current or current[judgement.question_id].label is None:
            current[judgement.question_id] = judgement
    return current
