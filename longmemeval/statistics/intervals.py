"""The interval of a mean: of labels or of scores, over questions that have haystacks of their own or share some."""

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
    """The interval of a share of right answers, and how it was made.

    Wilson's where every question has a haystack of its own. Questions that share haystacks are not independent: whole
    haystacks are drawn again there. Where few labels, or nearly all, are right, so few haystacks give a bootstrap no
    width to speak of, so it is never taken to be narrower than Wilson's at either end.

    Args:
        labels: 0 or 1, one per question; sorted by question id.
        clusters: the haystack id of each.
        resamples: of the bootstrap; None: see `bootstrap_mean`.
        seed: of the bootstrap.
        confidence: between 0 and 1.
    """
    right, n = round(sum(labels)), len(labels)
    wilson = wilson_interval(right, n, confidence)
    if not share_haystacks(clusters) or right in (0, n):
        return wilson, "wilson"
    low, high = bootstrap_mean(labels, clusters, resamples=resamples, seed=seed, confidence=confidence)
    return (min(low, wilson[0]), max(high, wilson[1])), "bootstrap over haystacks"


def score_interval(scores: Sequence[float], clusters: Sequence[str]) -> tuple[float, float]:
    """The 95 % interval of a mean score: the bootstrap, over haystacks where questions share them.

    Equal scores, all 0 say, would give the bootstrap no width, which is more than so few questions can tell: they have
    Wilson's interval.

    Args:
        scores: between 0 and 1, one per question; sorted by question id.
        clusters: the haystack id of each.
    """
    if len(set(scores)) < 2:
        return wilson_interval(round(sum(scores)), len(scores))
    return bootstrap_mean(scores, clusters)
