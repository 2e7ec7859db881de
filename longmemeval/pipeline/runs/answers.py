"""`answers.jsonl`: one answer per line, and which of a question's lines counts."""

from collections.abc import Iterable

from msgspec import structs

from longmemeval.reading.reader import UNKNOWN_REASON
from longmemeval.records import Answer, Usage

ANSWERS = "answers.jsonl"
PROMPTS = "prompts.jsonl"
_AS_AN_EARLIER_VERSION_SAID = ("drop-oldest: ", "drop-newest: ")


def as_counted(answer: Answer) -> Answer:
    """The answer itself; an empty reply, which an earlier version took for an answer, as the failure that it is.

    Empty answers of other systems stay answers: what they were asked is not known.
    """
    if answer.status == "error" or answer.hypothesis.strip() or not answer.attempts:
        return answer
    reason = answer.finish_reason or UNKNOWN_REASON
    return structs.replace(
        answer, status="error", finish_reason=reason, error=f"The reply is empty (finish reason: {reason})"
    )


def is_empty(answer: Answer) -> bool:
    """Whether the model was asked and replied with nothing."""
    return answer.status == "error" and answer.finish_reason != ""


def is_cut(answer: Answer) -> bool:
    """Whether an answer ends where --max-tokens cut it."""
    return answer.status == "ok" and answer.finish_reason == "length"


def is_shortened(answer: Answer) -> bool:
    """Whether messages were left out of the prompt so that it fits the model's window."""
    if answer.dropped is not None:
        return answer.dropped > 0
    return any(note.startswith(_AS_AN_EARLIER_VERSION_SAID) for note in answer.notes)


def current_answers(answers: Iterable[Answer]) -> dict[str, Answer]:
    """The answer that counts for each question: its only one, or what followed failed calls and empty replies.

    A failed call may be repeated by `--resume`; an answer that is there never is.
    """
    current: dict[str, Answer] = {}
    for answer in map(as_counted, answers):
        if answer.question_id not in current or current[answer.question_id].status == "error":
            current[answer.question_id] = answer
    return current


def total_usage(answers: Iterable[Answer]) -> Usage:
    """What all attempts of a run cost, the failed ones that were repeated included."""
    return sum((answer.usage for answer in answers), Usage())
