"""The same answers graded several times by one judge: the first grading is the score, the others show its spread."""

from itertools import count, takewhile
from math import fsum
from pathlib import Path

from msgspec import Struct

from longmemeval.evaluation.judges.protocol import JudgeIdentity
from longmemeval.evaluation.judges.standing import first_of, grading_of
from longmemeval.evaluation.metrics import credit
from longmemeval.pipeline.runs.judgements import current_judgements, judgements_file
from longmemeval.pipeline.runs.manifest import RunManifest


class Gradings(Struct, frozen=True):
    """The spread of the gradings of one judge; fractions between 0 and 1."""

    n: int
    lowest: float
    highest: float
    accuracies: tuple[float, ...]
    """In the order in which they were made; the first is the score."""


def gradings(folder: Path, manifest: RunManifest, judge: JudgeIdentity) -> Gradings | None:
    """The gradings of a run by one judge, from the stored judgements; None where there is one alone.

    Args:
        folder: the run's folder.
        manifest: its manifest.
        judge: whichever of the gradings.
    """
    first = first_of(judge)
    repeats = (grading_of(first, number).id for number in count(2))
    ids = [first.id, *takewhile(lambda one: judgements_file(folder, one).exists(), repeats)]
    if len(ids) < 2:
        return None
    accuracies = tuple(_accuracy(folder, manifest, one) for one in ids)
    return Gradings(len(ids), min(accuracies), max(accuracies), accuracies)


def _accuracy(folder: Path, manifest: RunManifest, judge_id: str) -> float:
    judgements = current_judgements(folder, judge_id)
    credits = [credit(judgements.get(question_id)) or 0.0 for question_id in manifest.question_ids]
    return fsum(credits) / len(credits) if credits else 0.0
