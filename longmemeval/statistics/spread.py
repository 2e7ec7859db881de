"""Wilson intervals, percentiles and the spread of repeated runs."""

from collections.abc import Sequence
from math import sqrt
from statistics import NormalDist, fmean, stdev

from msgspec import Struct


def wilson_interval(successes: int, n: int, confidence: float = 0.95) -> tuple[float, float]:
    """Return Wilson's score interval of a proportion (Wilson 1927, without continuity correction).

    Args:
        successes: number of the `n` trials that succeeded.
        n: number of trials; 0: nothing is known and the interval is (0, 1).
        confidence: between 0 and 1.

    Returns:
        Lower and upper bound, fractions between 0 and 1.
    """
    if n == 0:
        return (0.0, 1.0)
    # Not scipy's: importing scipy.stats takes longer than grading a whole offline run. Tests check that both agree.
    z2 = NormalDist().inv_cdf(0.5 + confidence / 2) ** 2
    centre = (successes + z2 / 2) / (n + z2)
    half_width = sqrt(z2 * (successes * (n - successes) / n + z2 / 4)) / (n + z2)
    return (max(0.0, centre - half_width), min(1.0, centre + half_width))


def percentile(values: Sequence[float], q: float) -> float | None:
    """Return the `q`-th percentile, linear between the two nearest values (numpy's default).

    Args:
        values: in any order.
        q: between 0 and 100.

    Returns:
        None if there are no values.
    """
    if not values:
        return None
    import numpy as np

    return float(np.percentile(values, q))


class Spread(Struct, frozen=True):
    """Accuracies of repeated runs; fractions between 0 and 1, not rounded."""

    mean: float
    sd: float | None
    """Standard deviation between the runs, with n - 1; None for one run."""
    lowest: float
    highest: float
    n: int
    """Number of runs."""


def repeat_spread(accuracies: Sequence[float]) -> Spread:
    """Summarise repeated runs over the same questions.

    Args:
        accuracies: one per run, at least one, in any order.
    """
    ordered = sorted(accuracies)
    sd = stdev(ordered) if len(ordered) > 1 else None
    return Spread(fmean(ordered), sd, ordered[0], ordered[-1], len(ordered))
