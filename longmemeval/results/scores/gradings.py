"""Repeated gradings of the same answers by one judge: the first is the score, the others show its spread."""

from itertools import count, takewhile
from math import fsum

from msgspec import Struct

from longmemeval.judges.protocol import JudgeIdentity
from longmemeval.judges.template_set import first_of, grading_of
from longmemeval.measures.metrics import credit
from longmemeval.results.run_files import RunFiles


class Gradings(Struct, frozen=True):
    """The spread of the gradings of one judge; fractions between 0 and 1."""

    n: int
    lowest: float
    highest: float
    accuracies: tuple[float, ...]
    """Accuracies in the order of the gradings; the first is the score."""


def gradings(files: RunFiles, judge: JudgeIdentity) -> Gradings | None:
    """Return the gradings of a run by one judge, from the stored judgements; None if there is only one.

    Args:
        judge: identity of any of the gradings.
    """
    ids = gradings_of(files, judge)
    if len(ids) < 2:
        return None
    accuracies = tuple(_accuracy(files, judge_id) for judge_id in ids)
    return Gradings(len(ids), min(accuracies), max(accuracies), accuracies)


def gradings_of(files: RunFiles, judge: JudgeIdentity) -> list[str]:
    """Return the ids of the gradings of a run by one judge, the first and those that exist after it."""
    first = first_of(judge)
    repeats = (grading_of(first, number).id for number in count(2))
    return [first.id, *takewhile(lambda judge_id: files.judged(judge_id).exists, repeats)]


def _accuracy(files: RunFiles, judge_id: str) -> float:
    judgements = files.current_judgements(judge_id)
    credits = [credit(judgements.get(question_id)) or 0.0 for question_id in files.manifest.question_ids]
    return fsum(credits) / len(credits) if credits else 0.0
