"""Scores corrected for a judge that errs at measured rates (Rogan and Gladen 1978), with an interval.

A judge passes right answers at rate `r` and wrong ones at rate `w`. A question that was not evaluated counts as
wrong, and the judge never saw it. With a share `e` of the questions evaluated and a share `a` of all of them answered
rightly, the score is `a * r + (e - a) * w`, so `a = (score - e * w) / (r - w)`.

Rates come from plants, and plants of one question pass or fail together, so whole questions are resampled (the
Bayesian bootstrap, Rubin 1981). Half a question that passes and half one that fails, Jeffreys' prior, is added to each
group: no rate of 0 or 1 is certain, however few the plants. That is the purpose of the added successes and failures in
Lang and Reiczigel (2014, Preventive Veterinary Medicine 113:13-22), whose interval treats plants as independent. Each
draw of the rates is paired with a draw of the score; the interval is the middle 95% of the results.
"""

from collections.abc import Sequence
from functools import cached_property, lru_cache
from math import fsum
from statistics import NormalDist
from typing import TYPE_CHECKING

from msgspec import Struct

from longmemeval.statistics.intervals import wilson_interval
from longmemeval.statistics.resampling import chunks

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Z = 1.959964
"""Normal quantile of a 95% CI."""
DRAWS = 10_000
_PRIOR = 0.5
_TAIL = 0.025
_CELLS = 4_000_000
"""Maximum number of weights drawn for the rates of one judge; above it, fewer draws are made and reused."""


class Corrected(Struct, frozen=True):
    """An accuracy, or a difference of two, corrected for the rates of the judge."""

    value: float
    interval: tuple[float, float]
    """95% CI, with the uncertainty of the score and of the rates; contains `value`."""


class NotCorrectable(Struct, frozen=True):
    """The reason why the rates of a judge say nothing about a score."""

    reason: str
    """A clause without a full stop."""


class PlantCredit(Struct, frozen=True):
    """The credit a judge gave one plant; a plant without a label has none."""

    question_id: str
    right: bool
    credit: float
    """Between 0 and 1."""


class MeasuredRates:
    """The mean credits a judge gives right and wrong answers, estimated from plants.

    Args:
        credits: credits of the labelled plants, at least one right and one wrong, in any order.
        seed: seed of the draws.

    Raises:
        ValueError: there are no right plants, or no wrong ones.
    """

    def __init__(self, credits: Sequence[PlantCredit], *, seed: int = 0) -> None:
        by_question: dict[str, tuple[list[float], list[float]]] = {}
        for plant in credits:
            by_question.setdefault(plant.question_id, ([], []))[plant.right].append(plant.credit)
        # Exact sums: they do not depend on the order.
        self._units = [(fsum(right), len(right), fsum(wrong), len(wrong)) for wrong, right in by_question.values()]
        self._seed = seed
        right, wrong = (sum(unit[place] for unit in self._units) for place in (1, 3))
        if not right or not wrong:
            raise ValueError("rates need right and wrong plants")
        self.right: float = fsum(unit[0] for unit in self._units) / right
        """Mean credit of right plants."""
        self.wrong: float = fsum(unit[2] for unit in self._units) / wrong
        """Mean credit of wrong plants."""
        self.plants = int(right + wrong)
        """Number of plants with a label."""

    @cached_property
    def draws(self) -> "tuple[NDArray[np.float64], NDArray[np.float64]]":
        """`DRAWS` draws of each of the two rates, from resampled questions."""
        import numpy as np

        generator = np.random.default_rng([self._seed, 1])
        # Questions whose plants have equal credits are interchangeable: the sum of their weights is one draw.
        units, counts = np.unique(np.asarray(self._units), axis=0, return_counts=True)
        rows = min(DRAWS, max(1000, _CELLS // len(units)))
        drawn = [_weights(generator, counts, size) @ units for size in chunks(rows, len(units))]
        sums = np.resize(np.concatenate(drawn), (DRAWS, 4))
        added = generator.gamma(_PRIOR, size=(DRAWS, 4))
        rates = []
        for place in (0, 2):
            numbers = units[:, place + 1]
            size = (counts * numbers).sum() / counts[numbers > 0].sum()
            passed, failed = (size * added[:, place + way] for way in (0, 1))
            rates.append((sums[:, place] + passed) / (sums[:, place + 1] + passed + failed))
        return rates[0], rates[1]

    @cached_property
    def unlike(self) -> bool:
        """True if right answers are shown to get more credit than wrong ones: in 97.5% of the draws."""
        import numpy as np

        right, wrong = self.draws
        return self.right > self.wrong and float(np.quantile(right - wrong, _TAIL)) > 0


_ALIKE = NotCorrectable("the test answers do not show that this judge tells correct from incorrect answers")
_EMPTY = NotCorrectable("no question was evaluated")
_BELOW = NotCorrectable("the score is below what this judge gives wrong answers alone")
_ABOVE = NotCorrectable("the score is above what this judge gives right answers alone")


def corrected_accuracy(
    accuracy: float,
    n: int,
    interval: tuple[float, float],
    rates: MeasuredRates,
    *,
    not_evaluated: int = 0,
    labels: bool = True,
) -> Corrected | NotCorrectable:
    """Return the accuracy of the answers, given the score by an erring judge.

    Args:
        accuracy: the score, between 0 and 1, over all questions.
        n: number of questions.
        interval: 95% CI of the score; its width shows how much the questions count if they share haystacks.
        rates: rates of the judge.
        not_evaluated: questions without a label, which count as wrong.
        labels: True if the judge gives labels, False if it gives scores in between.
    """
    import numpy as np

    if not rates.unlike:
        return _ALIKE
    evaluated = 1 - not_evaluated / n if n else 0.0
    if not evaluated:
        return _EMPTY
    right, wrong = rates.draws
    scores, shares = _score_draws(accuracy, evaluated, n, interval, labels=labels)
    low, high = map(float, np.quantile((scores - shares * wrong) / (right - wrong), [_TAIL, 1 - _TAIL]))
    if high < 0 or low > 1:
        # The rates of the plants cannot hold for these answers.
        return _BELOW if high < 0 else _ABOVE
    value = _bounded((accuracy - evaluated * rates.wrong) / (rates.right - rates.wrong), 0.0)
    return Corrected(value, (min(value, _bounded(low, 0.0)), max(value, _bounded(high, 0.0))))


def corrected_difference(
    difference: float, interval: tuple[float, float], rates: MeasuredRates, *, evaluated: float = 0.0
) -> Corrected | NotCorrectable:
    """Return the difference of two accuracies by one judge that errs alike on both systems.

    Args:
        difference: difference of the scores, between -1 and 1.
        interval: 95% CI of the difference.
        rates: rates of the judge.
        evaluated: difference between the shares of questions that have a label.
    """
    import numpy as np

    if not rates.unlike:
        return _ALIKE
    right, wrong = rates.draws
    spread = (interval[1] - interval[0]) / (2 * Z)
    drawn = difference + spread * _normals(0)
    low, high = map(float, np.quantile((drawn - evaluated * wrong) / (right - wrong), [_TAIL, 1 - _TAIL]))
    value = _bounded((difference - evaluated * rates.wrong) / (rates.right - rates.wrong), -1.0)
    return Corrected(value, (min(value, _bounded(low, -1.0)), max(value, _bounded(high, -1.0))))


def expected_agreement(accuracy: float, first: MeasuredRates, second: MeasuredRates) -> float:
    """Return the share of answers to which two judges of labels give the same label, if their errors are independent.

    Args:
        accuracy: true share of right answers among those that both gave a label.
        first: rates of one judge.
        second: rates of the other.
    """
    right, wrong = ((first.right, second.right), (first.wrong, second.wrong))
    alike = [a * b + (1 - a) * (1 - b) for a, b in (right, wrong)]
    return accuracy * alike[0] + (1 - accuracy) * alike[1]


def _weights(generator: "np.random.Generator", counts: "NDArray[np.int64]", rows: int) -> "NDArray[np.float64]":
    """Draw the total weights of groups of `counts` questions, shape (rows, groups)."""
    shape = (rows, len(counts))
    return generator.standard_exponential(shape) if (counts == 1).all() else generator.gamma(counts, size=shape)


def _score_draws(
    accuracy: float, evaluated: float, n: int, interval: tuple[float, float], *, labels: bool
) -> "tuple[NDArray[np.float64], NDArray[np.float64]]":
    """Draw scores and evaluated shares of other samples of questions; as wide as the interval of the score."""
    low, high = wilson_interval(round(accuracy * n), n)
    size = n / max(1.0, ((interval[1] - interval[0]) / (high - low)) ** 2)
    shares = _wilson_draws(evaluated, size, 1) if evaluated < 1 else 1.0 + 0.0 * _normals(1)
    mean, among = accuracy / evaluated, size * evaluated
    if not labels and 0 < mean < 1:
        # Scores in between vary less than labels: by what the interval has beyond the variance of the share.
        spread = ((interval[1] - interval[0]) / (2 * Z)) ** 2 - mean**2 * evaluated * (1 - evaluated) / size
        among = max(among, evaluated**2 * mean * (1 - mean) / spread if spread > 0 else 0.0)
    return shares * _wilson_draws(mean, among, 0), shares


def _wilson_draws(share: float, size: float, stream: int) -> "NDArray[np.float64]":
    """Draw shares whose central part, of whatever size, is Wilson's interval of that confidence."""
    import numpy as np

    z = _normals(stream)
    middle, half = share + z**2 / (2 * size), z * np.sqrt(share * (1 - share) / size + z**2 / (4 * size**2))
    return np.clip((middle + half) / (1 + z**2 / size), 0.0, 1.0)


@lru_cache
def _normals(stream: int) -> "NDArray[np.float64]":
    """Return normal deviates at equal steps of probability, permuted differently for each stream."""
    import numpy as np

    steps = np.array([NormalDist().inv_cdf((place + 0.5) / DRAWS) for place in range(DRAWS)])
    return np.random.default_rng([2, stream]).permutation(steps)


def _bounded(value: float, lowest: float) -> float:
    return max(lowest, min(1.0, value))
