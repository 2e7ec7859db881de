"""`judgements/<judge_id>.jsonl`: one judgement per line, and which of a question's lines counts."""

from collections.abc import Iterable
from pathlib import Path

from longmemeval.files import sha256_text
from longmemeval.pipeline.runs.journal import read_journal
from longmemeval.pipeline.runs.manifest import read_manifest
from longmemeval.records import Judgement

_EMPTY_ANSWER = sha256_text("")


def judgements_file(folder: Path, judge_id: str) -> Path:
    """Where the judgements of one judge are."""
    return folder / "judgements" / f"{judge_id}.jsonl"


def current_judgements(folder: Path, judge_id: str) -> dict[str, Judgement]:
    """The judgement that counts for each question: its label, or the newest failure if there is none."""
    return that_count(stored_judgements(folder, judge_id))


def stored_judgements(folder: Path, judge_id: str) -> list[Judgement]:
    """All judgements by one judge, without those of empty replies, which an earlier version took for answers."""
    judgements = read_journal(judgements_file(folder, judge_id), Judgement)
    if all(judgement.answer_sha256 != _EMPTY_ANSWER for judgement in judgements) or read_manifest(folder).kind != "run":
        return judgements
    return [judgement for judgement in judgements if judgement.answer_sha256 != _EMPTY_ANSWER]


def that_count(judgements: Iterable[Judgement]) -> dict[str, Judgement]:
    """Of several judgements of a question the label, or the newest failure if there is none."""
    current: dict[str, Judgement] = {}
    for judgement in judgements:
        if judgement.question_id not in current or current[judgement.question_id].label is None:
            current[judgement.question_id] = judgement
    return current
