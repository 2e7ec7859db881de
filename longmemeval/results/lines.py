"""The lines of a run's journals: answers, prompts, rankings and judgements, and which line counts per question."""

from collections.abc import Iterable
from pathlib import Path

from longmemeval.records import UNDATED, Answer, Judgement

ANSWERS = "answers.jsonl"
PROMPTS = "prompts.jsonl"
RANKINGS = "rankings.jsonl"


def is_empty(answer: Answer) -> bool:
    """Return whether the model was called and its reply was empty."""
    return answer.status == "error" and answer.finish_reason != ""


def is_cut(answer: Answer) -> bool:
    """Return whether an answer was cut off by --max-tokens."""
    return answer.status == "ok" and answer.finish_reason == "length"


def is_shortened(answer: Answer) -> bool:
    """Return whether messages were left out of the prompt to fit the model's window."""
    return bool(answer.dropped)


def is_undated(answer: Answer) -> bool:
    """Return whether it was given from items without a date."""
    return any(note.startswith(UNDATED) for note in answer.notes)


def current_answers(answers: Iterable[Answer]) -> dict[str, Answer]:
    """Return the answer that counts for each question: its only one, or the one after failed calls and empty replies.

    A failed call may be repeated by `--resume`; an existing answer never is.
    """
    current: dict[str, Answer] = {}
    for answer in answers:
        if answer.question_id not in current or current[answer.question_id].status == "error":
            current[answer.question_id] = answer
    return current


def judgements_file(folder: Path, judge_id: str) -> Path:
    """Return the path of the judgements of one judge."""
    return folder / "judgements" / f"{judge_id}.jsonl"


def latest_judgements(judgements: Iterable[Judgement]) -> dict[str, Judgement]:
    """Return, for each question, its label, or the newest failure if there is no label."""
    current: dict[str, Judgement] = {}
    for judgement in judgements:
        if judgement.question_id not in current or current[judgement.question_id].label is None:
            current[judgement.question_id] = judgement
    return current
