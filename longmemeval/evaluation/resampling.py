"""Uncertainty by resampling: the bootstrap of a mean and of a mean difference, and the sign-flip permutation test.

What is drawn is a unit: a whole haystack where questions share haystacks, for these are not independent (LoCoMo asks
some 200 about one conversation), else a question. Questions that all share one haystack are units of their own: the
result then holds for that haystack. The seed alone decides what is drawn.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

RESAMPLES = 10_000
"""Draws of a comparison of two runs."""

_CELLS = 1_000_000
"""Numbers held at a time; a limit on memory."""
_ROUNDING = 1e-9
"""Sums of scores that differ by less are ties."""


def bootstrap_mean(
    values: Sequence[float],
    clusters: Sequence[str],
    *,
    resamples: int = 1000,
    seed: int = 0,
    confidence: float = 0.95,
) -> tuple[float, float]:
    """Percentile interval of the mean (Efron and Tibshirani 1993, section 13.3).

    Args:
        values: one per question, at least one; sorted by question id, for the order decides what a draw hits.
        clusters: the haystack id of each.
        resamples: how often the units are drawn again.
        seed: of the draws.
        confidence: between 0 and 1.

    Returns:
        Lower and upper bound; equal values give an interval without width.
    """
    import numpy as np

    sums, sizes = _units(values, clusters).T
    drawn = np.random.default_rng(seed).integers(len(sums), size=(resamples, len(sums)))
    return _central(sums[drawn].sum(axis=1) / sizes[drawn].sum(axis=1), confidence)


def paired_bootstrap(
    differences: Sequence[float],
    clusters: Sequence[str],
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
    confidence: float = 0.95,
) -> tuple[float, float]:
    """Percentile interval of the mean difference of two paired runs (Efron and Tibshirani 1993, section 13.3).

    Units of equal sum and size are interchangeable, so each draw is one multinomial count of how often every distinct
    unit turns up: labels make no more than three.

    Args:
        differences: one per question, in any order; each between -1 and 1.
        clusters: the haystack id of each.
        resamples: how often the units are drawn again.
        seed: of the draws.
        confidence: between 0 and 1.

    Returns:
        Lower and upper bound; (-1, 1) for fewer than two questions, which say nothing of their spread. Equal
        differences give an interval without width.
    """
    if len(differences) < 2:
        return (-1.0, 1.0)
    import numpy as np

    distinct, counts = np.unique(_units(*_ordered(differences, clusters)), axis=0, return_counts=True)
    n = counts.sum()
    generator = np.random.default_rng(seed)
    drawn = [generator.multinomial(n, counts / n, size=rows) @ distinct for rows in _chunks(resamples, len(distinct))]
    sums, sizes = np.concatenate(drawn).T
    return _central(sums / sizes, confidence)


def sign_flip_p(
    differences: Sequence[float], clusters: Sequence[str], *, resamples: int = RESAMPLES, seed: int = 0
) -> float:
    """Two-sided p of the paired permutation test of a mean difference, by Monte Carlo.

    If the two runs are equally good, the sign of every unit's difference is a coin's toss (Fisher's randomisation test;
    Good 2005, section 3.2). p = (1 + hits) / (1 + resamples), hits being the draws at least as far from zero as what
    was seen, so p is never zero (Phipson and Smyth 2010).

    Args:
        differences: one per question, in any order.
        clusters: the haystack id of each.
        resamples: how often the signs are drawn.
        seed: of the draws.
    """
    import numpy as np

    sums = _units(*_ordered(differences, clusters))[:, 0]
    observed = abs(sums.sum())
    # k units of equal size of difference, h of them positive, add up to (2h - k) times it: one binomial draw for all.
    sizes, counts = np.unique(np.abs(sums[sums != 0]), return_counts=True)
    generator = np.random.default_rng(seed)
    hits = 0
    for rows in _chunks(resamples, len(sizes)):
        positive = generator.binomial(counts, 0.5, size=(rows, len(sizes)))
        hits += int((np.abs((2 * positive - counts) @ sizes) >= observed - _ROUNDING).sum())
    return (1 + hits) / (1 + resamples)


def share_haystacks(clusters: Sequence[str]) -> bool:
    """Whether the units are haystacks, several of them and some with several questions, and not single questions."""
    return 1 < len(set(clusters)) < len(clusters)


def _ordered(values: Sequence[float], clusters: Sequence[str]) -> tuple[list[float], list[str]]:
    """Both in an order that does not depend on the one given: sums of floats depend on theirs."""
    pairs = sorted(zip(clusters, values, strict=True))
    return [value for _, value in pairs], [cluster for cluster, _ in pairs]


def _units(values: Sequence[float], clusters: Sequence[str]) -> "NDArray[np.float64]":
    """Sum and number of the values of each unit, shape (units, 2)."""
    import numpy as np

    labels, members = np.unique(np.asarray(clusters), return_inverse=True)
    if len(labels) == 1:
        members = np.arange(len(values))
    return np.column_stack([np.bincount(members, weights=values), np.bincount(members)])


def _chunks(resamples: int, width: int) -> list[int]:
    """Rows to draw at a time, in all `resamples`, so that `width` numbers a row stay within bounds."""
    rows = max(1, _CELLS // max(1, width))
    return [min(rows, resamples - start) for start in range(0, resamples, rows)]


def _central(means: "NDArray[np.float64]", confidence: float) -> tuple[float, float]:
    """The bounds that leave out equal shares of `means` below and above."""
    import numpy as np

    tail = (1 - confidence) / 2
    low, high = np.quantile(means, [tail, 1 - tail])
    return float(low), float(high)
