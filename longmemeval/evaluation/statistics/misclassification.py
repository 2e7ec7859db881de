"""Scores corrected for a judge that errs at known rates (Rogan and Gladen 1978), with what is not known of the rates.

A judge that passes right answers at rate `r` and wrong ones at rate `w` gives a system of true accuracy `a` the score
`a * r + (1 - a) * w`. So `a = (score - w) / (r - w)`: nothing can be said where `r` is not above `w`. The interval is
that of Lang and Reiczigel (2014, Preventive Veterinary Medicine 113:13-22), which holds for few plants too.
"""

from math import sqrt
from typing import NamedTuple

from msgspec import Struct

Z = 1.959964
"""Of a 95 % interval."""


class Corrected(Struct, frozen=True):
    """An accuracy, or a difference of two, corrected for the rates of the judge."""

    value: float
    interval: tuple[float, float]
    """95 %, with the uncertainty of the score and of the rates."""


class KnownRate(NamedTuple):
    """The mean credit of a group of plants."""

    mean: float
    n: int
    deviation: float
    labels: bool
    """Whether credits are 0 or 1."""

    @property
    def shrunk(self) -> float:
        """For labels, with one more of each: a rate of none or all is never certain."""
        return (self.n * self.mean + 1) / (self.n + 2) if self.labels else self.mean

    @property
    def variance(self) -> float:
        """Of the mean."""
        if self.labels:
            return self.shrunk * (1 - self.shrunk) / (self.n + 2)
        return self.deviation**2 / self.n


def corrected_accuracy(
    accuracy: float, n: int, interval: tuple[float, float], right: KnownRate, wrong: KnownRate
) -> Corrected | None:
    """The accuracy that a score stands for; None where the rates leave nothing to be said.

    Args:
        accuracy: the score, between 0 and 1.
        n: questions.
        interval: of the score, 95 %; says how much the questions count where they share haystacks.
        right: what the judge gives right answers.
        wrong: what it gives wrong ones.
    """
    power = _power(right, wrong)
    if power is None:
        return None
    spread = ((interval[1] - interval[0]) / (2 * Z)) ** 2
    independent = accuracy * (1 - accuracy) / spread if spread and 0 < accuracy < 1 else n
    size = max(1.0, min(float(n), independent)) if right.labels else float(n)
    observed = (size * accuracy + Z**2 / 2) / (size + Z**2) if right.labels else accuracy
    observed_variance = observed * (1 - observed) / (size + Z**2) if right.labels else spread
    value = (observed - wrong.shrunk) / power
    shift = 2 * Z**2 * (value * right.variance - (1 - value) * wrong.variance) if right.labels else 0.0
    error = sqrt(observed_variance + value**2 * right.variance + (1 - value) ** 2 * wrong.variance) / power
    low, high = value + shift - Z * error, value + shift + Z * error
    if high < 0 or low > 1:
        # Below what wrong answers alone would get, or above all that right ones would: other rates held here.
        return None
    plain = (accuracy - wrong.mean) / (right.mean - wrong.mean) if right.mean > wrong.mean else value
    return Corrected(_bounded(plain), (_bounded(low), _bounded(high)))


def corrected_difference(
    difference: float, interval: tuple[float, float], right: KnownRate, wrong: KnownRate
) -> Corrected | None:
    """The difference of two accuracies by one judge that errs on both systems alike; None as above.

    Args:
        difference: of the scores, between -1 and 1.
        interval: of that, 95 %.
        right: what the judge gives right answers.
        wrong: what it gives wrong ones.
    """
    power = _power(right, wrong)
    if power is None:
        return None
    variance = ((interval[1] - interval[0]) / (2 * Z)) ** 2
    value = difference / power
    error = sqrt(variance + value**2 * (right.variance + wrong.variance)) / power
    low, high = value - Z * error, value + Z * error
    return Corrected(max(-1.0, min(1.0, value)), (max(-1.0, low), min(1.0, high)))


def expected_agreement(
    accuracy: float, first: tuple[KnownRate, KnownRate], second: tuple[KnownRate, KnownRate]
) -> float:
    """The share of answers that two judges of labels give the same label, where their errors have nothing in common.

    Args:
        accuracy: true share of right answers.
        first: what one judge gives right and wrong answers.
        second: the other.
    """
    alike = [a.mean * b.mean + (1 - a.mean) * (1 - b.mean) for a, b in zip(first, second, strict=True)]
    return accuracy * alike[0] + (1 - accuracy) * alike[1]


def _power(right: KnownRate, wrong: KnownRate) -> float | None:
    """How much better right answers fare than wrong ones; None where that may be nothing at all."""
    power = right.shrunk - wrong.shrunk
    return power if power > Z * sqrt(right.variance + wrong.variance) else None


def _bounded(value: float) -> float:
    return max(0.0, min(1.0, value))
