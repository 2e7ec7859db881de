"""Intervals of means of labels or scores, over questions with haystacks of their own or shared ones."""

from collections.abc import Sequence
from math import hypot, sqrt
from statistics import NormalDist, fmean, stdev
from typing import Literal

from msgspec import Struct

from longmemeval.statistics.resampling import bootstrap_mean, share_haystacks

# Wilson intervals, percentiles and the spread of repeated runs.


def wilson_interval(successes: float, n: float, confidence: float = 0.95) -> tuple[float, float]:
    """Return Wilson's score interval of a proportion (Wilson 1927, without continuity correction).

    Args:
        successes: number of the `n` trials that succeeded.
        n: number of trials, or how many independent ones they are worth; 0: nothing is known, the interval is (0, 1).
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


IntervalMethod = Literal["wilson", "bootstrap", "bootstrap over haystacks"]


def label_interval(
    labels: Sequence[float],
    clusters: Sequence[str],
    *,
    resamples: int | None = None,
    seed: int = 0,
    confidence: float = 0.95,
) -> tuple[tuple[float, float], IntervalMethod]:
    """Return the interval of a share of right answers, and its method.

    Wilson's where every question has a haystack of its own. Questions that share haystacks are not independent: there,
    whole haystacks are resampled. If few labels, or nearly all, are right, a bootstrap over so few haystacks has next
    to no width, so each bound is at least as far out as Wilson's.

    Args:
        labels: 0 or 1, one per question; sorted by question id.
        clusters: haystack id of each question.
        resamples: number of resamples of the bootstrap; None: see `bootstrap_mean`.
        seed: seed of the bootstrap.
        confidence: between 0 and 1.
    """
    right, n = round(sum(labels)), len(labels)
    wilson = wilson_interval(right, n, confidence)
    if not share_haystacks(clusters) or right in (0, n):
        return wilson, "wilson"
    low, high = bootstrap_mean(labels, clusters, resamples=resamples, seed=seed, confidence=confidence)
    return (min(low, wilson[0]), max(high, wilson[1])), "bootstrap over haystacks"


def score_interval(scores: Sequence[float], clusters: Sequence[str]) -> tuple[float, float]:
    """Return the 95% CI of a mean score: the bootstrap, over haystacks if questions share them.

    For equal scores, such as all 0, the bootstrap would have no width, which claims more than so few questions can
    show: they get Wilson's interval.

    Args:
        scores: between 0 and 1, one per question; sorted by question id.
        clusters: haystack id of each question.
    """
    if len(set(scores)) < 2:
        return wilson_interval(round(sum(scores)), len(scores))
    return bootstrap_mean(scores, clusters)


def shifted_interval(
    mean: float,
    interval: tuple[float, float],
    reference: float,
    reference_interval: tuple[float, float] | None = None,
) -> tuple[float, float]:
    """Return the interval of `mean` less a reference figure.

    A reference with an interval is taken to be independent, and the two intervals are combined by the square-and-add
    rule (Newcombe 1998, Statistics in Medicine 17:873-890, method 10; for any two intervals Zou and Donner 2008,
    27:1693-1702). Without one it is a constant.

    Args:
        mean: the measured figure.
        interval: interval of `mean`.
        reference: the figure to compare with.
        reference_interval: None: the reference has no error of its own.
    """
    low, high = reference_interval or (reference, reference)
    difference = mean - reference
    below = hypot(mean - interval[0], high - reference)
    above = hypot(interval[1] - mean, reference - low)
    return difference - below, difference + above


def joint_interval(mean: float, interval: tuple[float, float], number: int) -> tuple[float, float]:
    """Return a 95% CI widened so that `number` such intervals hold together (Bonferroni).

    Each side is stretched by the ratio of the normal quantiles: an approximation, for an interval whose labels are no
    longer available.

    Args:
        mean: the figure, between 0 and 1.
        interval: 95% CI of that figure alone.
        number: number of intervals, at least 1; 1 leaves the interval as it is.
    """
    alone, together = (NormalDist().inv_cdf(1 - 0.025 / many) for many in (1, number))
    low, high = (mean + (end - mean) * together / alone for end in interval)
    return max(0.0, low), min(1.0, high)
