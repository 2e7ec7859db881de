"""`judgements/<judge_id>.jsonl`: one judgement per line, and which of a question's lines counts."""

from collections.abc import Iterable
from pathlib import Path

from longmemeval.files import sha256_text
from longmemeval.records import Judgement

_EMPTY_ANSWER = sha256_text("")


def judgements_file(folder: Path, judge_id: str) -> Path:
    """Where the judgements of one judge are."""
    return folder / "judgements" / f"{judge_id}.jsonl"


def of_answers(judgements: Iterable[Judgement]) -> list[Judgement]:
    """Those that are not of empty replies, which an earlier version took for answers."""
    return [judgement for judgement in judgements if judgement.answer_sha256 != _EMPTY_ANSWER]


def that_count(judgements: Iterable[Judgement]) -> dict[str, Judgement]:
    """Of several judgements of a question the label, or the newest failure if there is none."""
    current: dict[str, Judgement] = {}
    for judgement in judgements:
        if judgement.question_id not in current or current[judgement.question_id].label is None:
            current[judgement.question_id] = judgement
    return current
