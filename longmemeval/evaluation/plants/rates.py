"""How a judge does on plants: the share of wrong ones it passes, of right ones it fails, by kind."""

from collections.abc import Iterable, Mapping, Sequence
from math import sqrt
from statistics import fmean, variance

from msgspec import Struct

from longmemeval.evaluation.metrics import credit
from longmemeval.evaluation.plants.plant import KINDS, NO_ANSWERS, Plant
from longmemeval.evaluation.statistics.misclassification import Z
from longmemeval.evaluation.statistics.spread import wilson_interval
from longmemeval.records import Judgement


class Rate(Struct, frozen=True):
    """The mean credit that a judge gives to a group of plants."""

    n: int
    """Plants that have a label."""
    unlabelled: int
    """Plants that the judge gave none: they count nowhere."""
    credit: float | None
    """Between 0 and 1; for a judge of labels the share passed. None without a labelled plant."""
    interval: tuple[float, float]
    """95 %: Wilson's for labels, of the mean for scores."""
    deviation: float
    """Standard deviation of the credits."""


class JudgeRates(Struct, frozen=True):
    """What the plants of one data set show of one judge."""

    right: Rate
    """1 minus its credit is the false-negative rate."""
    wrong: Rate
    """Its credit is the false-positive rate. Without the kinds that are no answer at all."""
    none: Rate
    """These."""
    by_kind: dict[str, Rate]
    by_type: dict[str, tuple[Rate, Rate]]
    """Question type to right and wrong plants."""


def judge_rates(plants: Sequence[Plant], judgements: Mapping[str, Judgement]) -> JudgeRates:
    """The rates over judged plants.

    Args:
        plants: what was planted.
        judgements: by plant id.
    """
    credits = {plant.plant_id: credit(judgements.get(plant.plant_id)) for plant in plants}

    def rate(chosen: Iterable[Plant]) -> Rate:
        return _rate([credits[plant.plant_id] for plant in chosen])

    def both(chosen: Sequence[Plant]) -> tuple[Rate, Rate]:
        answers = [one for one in chosen if one.kind not in NO_ANSWERS]
        return rate(one for one in answers if one.right), rate(one for one in answers if not one.right)

    by_type: dict[str, list[Plant]] = {}
    by_kind: dict[str, list[Plant]] = {}
    for plant in plants:
        by_type.setdefault(plant.question_type, []).append(plant)
        by_kind.setdefault(plant.kind, []).append(plant)
    right, wrong = both(plants)
    return JudgeRates(
        right=right,
        wrong=wrong,
        none=rate(one for one in plants if one.kind in NO_ANSWERS),
        by_kind={kind: rate(by_kind[kind]) for kind in KINDS if kind in by_kind},
        by_type={name: both(group) for name, group in by_type.items()},
    )


def _rate(credits: Sequence[float | None]) -> Rate:
    given = [one for one in credits if one is not None]
    unlabelled = len(credits) - len(given)
    if not given:
        return Rate(0, unlabelled, None, (0.0, 1.0), 0.0)
    mean, deviation = fmean(given), sqrt(variance(given)) if len(given) > 1 else 0.0
    interval = wilson_interval(round(sum(given)), len(given))
    if not set(given) <= {0.0, 1.0}:
        half = Z * deviation / sqrt(len(given))
        interval = max(0.0, mean - half), min(1.0, mean + half)
    return Rate(len(given), unlabelled, mean, interval, deviation)
