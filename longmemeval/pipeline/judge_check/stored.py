"""What checks of judges leave: plants, the judge's labels of them, and the rates, apart from all runs."""

from pathlib import Path

import msgspec
from msgspec import Struct

from longmemeval.evaluation.judges.protocol import JudgeIdentity
from longmemeval.evaluation.judges.standing import first_of
from longmemeval.evaluation.metrics import Score
from longmemeval.evaluation.plants.rates import JudgeRates
from longmemeval.evaluation.statistics.misclassification import (
    Corrected,
    KnownRate,
    corrected_accuracy,
    corrected_difference,
)
from longmemeval.text_files import UnreadableError, decode_json

FOLDER = "judge-checks"
"""Below the results; no run has this name."""
PLANTS, JUDGEMENTS, CHECK = "plants.jsonl", "judgements.jsonl", "check.json"
FORMAT = 1


class JudgeCheck(Struct, frozen=True):
    """`check.json`: one judge on the plants of one data set."""

    format: int
    judge: JudgeIdentity
    benchmark: str
    dataset: dict[str, str]
    """Name and sha256 of the content."""
    seed: int
    questions: int
    """That plants were made of."""
    plants_sha256: str
    rates: JudgeRates

    @property
    def known(self) -> tuple[KnownRate, KnownRate] | None:
        """What the judge gives right and wrong answers; None where one of them is not known."""
        right, wrong, labels = self.rates.right, self.rates.wrong, self.judge.metric == "accuracy"
        if right.credit is None or wrong.credit is None:
            return None
        return (
            KnownRate(right.credit, right.n, right.deviation, labels),
            KnownRate(wrong.credit, wrong.n, wrong.deviation, labels),
        )

    def corrected(self, score: Score) -> Corrected | None:
        """The accuracy that a score by this judge stands for; None: not identifiable."""
        known = self.known
        return corrected_accuracy(score.accuracy, score.n, score.interval, *known) if known and score.n else None

    def corrected_difference(self, difference: float, interval: tuple[float, float]) -> Corrected | None:
        """A difference of two scores by this judge; None: not identifiable."""
        known = self.known
        return corrected_difference(difference, interval, *known) if known else None


def check_folder(results_dir: Path, judge_id: str, dataset: str, plants_sha256: str) -> Path:
    """Where the check of a judge on these plants is."""
    return results_dir / FOLDER / judge_id / f"{dataset}-{plants_sha256[:8]}"


class JudgeChecks:
    """The checks of judges among the results; each is read once.

    Args:
        results_dir: where the runs are.
    """

    def __init__(self, results_dir: Path) -> None:
        self._results_dir = results_dir
        self._found: dict[tuple[str, str], JudgeCheck | None] = {}

    def of(self, judge: JudgeIdentity, benchmark: str) -> JudgeCheck | None:
        """The check of the same judge on the same benchmark; of several the one with most plants.

        A later grading is by the judge of the first.
        """
        key = first_of(judge).id, benchmark
        if key not in self._found:
            self._found[key] = _check_of(*key, self._results_dir)
        return self._found[key]


def _check_of(judge_id: str, benchmark: str, results_dir: Path) -> JudgeCheck | None:
    found = []
    for path in sorted((results_dir / FOLDER / judge_id).glob(f"*/{CHECK}")):
        try:
            check = decode_json(path.read_bytes(), JudgeCheck)
        except (OSError, UnreadableError):
            continue
        if check.format == FORMAT and check.benchmark == benchmark:
            found.append(check)
    return max(found, key=lambda one: one.rates.right.n + one.rates.wrong.n, default=None)


def encoded(check: JudgeCheck) -> bytes:
    """As it is in its file."""
    return msgspec.json.format(msgspec.json.encode(check), indent=2) + b"\n"


class CheckedScore(Struct, frozen=True):
    """What a check of the judge says of one score."""

    right_passed: float
    """Mean credit of right plants."""
    wrong_passed: float
    """Mean credit of wrong plants."""
    plants: int
    corrected: Corrected | None
    """None: the rates leave nothing to be said."""


def checked_score(score: Score, check: JudgeCheck | None) -> CheckedScore | None:
    """A score beside the check of its judge; None where that was not checked, or shows nothing."""
    if check is None or check.known is None:
        return None
    right, wrong = check.known
    return CheckedScore(right.mean, wrong.mean, right.n + wrong.n, check.corrected(score))
