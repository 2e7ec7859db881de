"""Intervals of means of labels or scores, over questions with haystacks of their own or shared ones."""

from collections.abc import Sequence
from typing import Literal

from longmemeval.statistics.resampling import bootstrap_mean, share_haystacks
from longmemeval.statistics.spread import wilson_interval

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
    whole haystacks are resampled. Where few labels, or nearly all, are right, a bootstrap over so few haystacks has
    next to no width, so neither end is taken to be narrower than Wilson's.

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
    """Return the 95 % interval of a mean score: the bootstrap, over haystacks if questions share them.

    For equal scores, such as all 0, the bootstrap would have no width, which claims more than so few questions can
    show: they get Wilson's interval.

    Args:
        scores: between 0 and 1, one per question; sorted by question id.
        clusters: haystack id of each question.
    """
    if len(set(scores)) < 2:
        return wilson_interval(round(sum(scores)), len(scores))
    return bootstrap_mean(scores, clusters)
