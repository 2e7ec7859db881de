"""The same answers graded several times by one judge: the first grading is the score, the others show its spread."""

from itertools import count, takewhile
from math import fsum

from msgspec import Struct

from longmemeval.judges.official_status import first_of, grading_of
from longmemeval.judges.protocol import JudgeIdentity
from longmemeval.measures.metrics import credit
from longmemeval.results.run_files import RunFiles


class Gradings(Struct, frozen=True):
    """The spread of the gradings of one judge; fractions between 0 and 1."""

    n: int
    lowest: float
    highest: float
    accuracies: tuple[float, ...]
    """In the order in which they were made; the first is the score."""


def gradings(files: RunFiles, judge: JudgeIdentity) -> Gradings | None:
    """The gradings of a run by one judge, from the stored judgements; None where there is one alone.

    Args:
        files: of the run.
        judge: whichever of the gradings.
    """
    first = first_of(judge)
    repeats = (grading_of(first, number).id for number in count(2))
    ids = [first.id, *takewhile(lambda one: files.judged(one).exists, repeats)]
    if len(ids) < 2:
        return None
    accuracies = tuple(_accuracy(files, one) for one in ids)
    return Gradings(len(ids), min(accuracies), max(accuracies), accuracies)


def _accuracy(files: RunFiles, judge_id: str) -> float:
    judgements = files.current_judgements(judge_id)
    credits = [credit(judgements.get(question_id)) or 0.0 for question_id in files.manifest.question_ids]
    return fsum(credits) / len(credits) if credits else 0.0
