"""The lines of a run's journals: answers, prompts, rankings and judgements, and which line of a question counts."""

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
_AS_AN_EARLIER_VERSION_SAID = ("drop-oldest: ", "drop-newest: ")


def normalise_empty(answer: Answer) -> Answer:
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


def is_undated(answer: Answer) -> bool:
    """Whether it was read from items without a date."""
    return any(note.startswith(UNDATED) for note in answer.notes)


def current_answers(answers: Iterable[Answer]) -> dict[str, Answer]:
    """The answer that counts for each question: its only one, or what followed failed calls and empty replies.

    A failed call may be repeated by `--resume`; an answer that is there never is.
    """
    current: dict[str, Answer] = {}
    for answer in map(normalise_empty, answers):
        if answer.question_id not in current or current[answer.question_id].status == "error":
            current[answer.question_id] = answer
    return current


def total_usage(answers: Iterable[Answer]) -> Usage:
    """What all attempts of a run cost, the failed ones that were repeated included."""
    return sum((answer.usage for answer in answers), Usage())


def judgements_file(folder: Path, judge_id: str) -> Path:
    """Where the judgements of one judge are."""
    return folder / "judgements" / f"{judge_id}.jsonl"


def drop_empty(judgements: Iterable[Judgement]) -> list[Judgement]:
    """Those that are not of empty replies, which an earlier version took for answers."""
    return [judgement for judgement in judgements if judgement.answer_sha256 != _EMPTY_ANSWER]


def latest_judgements(judgements: Iterable[Judgement]) -> dict[str, Judgement]:
    """Of several judgements of a question the label, or the newest failure if there is none."""
    current: dict[str, Judgement] = {}
    for judgement in judgements:
        if judgement.question_id not in current or current[judgement.question_id].label is None:
            current[judgement.question_id] = judgement
    return current
