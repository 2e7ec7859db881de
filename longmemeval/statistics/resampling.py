"""Uncertainty by resampling: the bootstrap of a mean, and the sign-flip test of a mean difference with its interval.

The unit of resampling is a whole haystack if questions share haystacks, since these are not independent (some
benchmarks ask 200 about one conversation), else a question. Questions that all share one haystack are units of their
own: the result then holds for that haystack. The draws depend on the seed alone.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from math import ceil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

RESAMPLES = 10_000
"""Number of draws for a comparison of two runs, and for a mean over few units."""
_RESAMPLES_OF_MANY = 1000
"""Number of draws for a mean over more than `_FEW_UNITS` units, where each draw takes long."""
_FEW_UNITS = 100

_CELLS = 1_000_000
"""How many numbers are held at a time; a limit on memory."""
_ROWS = 1000
"""Number of cached draws made from one seed."""
_ROUNDING = 1e-9
"""Sums of scores that differ by less are ties."""


def bootstrap_mean(
    values: Sequence[float],
    clusters: Sequence[str],
    *,
    resamples: int | None = None,
    seed: int = 0,
    confidence: float = 0.95,
) -> tuple[float, float]:
    """Percentile interval of the mean (Efron and Tibshirani 1993, section 13.3).

    Args:
        values: one per question, at least one; sorted by question id, because a draw hits positions.
        clusters: haystack id of each question.
        resamples: number of resamples; None: 10,000 for up to 100 units, 1,000 for more.
        seed: seed of the draws.
        confidence: between 0 and 1.

    Returns:
        Lower and upper bound; equal values give an interval of zero width.
    """
    import numpy as np

    sums, sizes = _units(values, clusters, ordered=False).T
    if resamples is None:
        resamples = RESAMPLES if len(sums) <= _FEW_UNITS else _RESAMPLES_OF_MANY
    generator = np.random.default_rng(seed)
    # Units of one size, as questions with a haystack each are: every draw has as many values as all have.
    size = sizes.sum() if (sizes == sizes[0]).all() else None
    means = []
    for rows in chunks(resamples, len(sums)):
        drawn = generator.integers(len(sums), size=(rows, len(sums)))
        means.append(sums.take(drawn).sum(axis=1) / (sizes.take(drawn).sum(axis=1) if size is None else size))
    return _central(np.concatenate(means), confidence)


def sign_flip_p(
    differences: "Sequence[float] | NDArray[np.float64]",
    clusters: Sequence[str],
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> float:
    """Return the two-sided p of the paired permutation test of a mean difference.

    If the two runs are equally good, the sign of every unit's difference is random (Fisher's randomisation test; Good
    2005, section 3.2). If there are no more patterns of signs than draws, as with ten haystacks, all of them are
    enumerated and p is exact: the share of patterns at least as far from zero as the observed one. Otherwise patterns
    are drawn, and p = (1 + hits) / (1 + resamples), so it is never zero (Phipson and Smyth 2010).

    Args:
        differences: one per question, in any order.
        clusters: haystack id of each question.
        resamples: number of patterns drawn.
        seed: seed of the draws.
    """
    import numpy as np

    sums = _units(differences, clusters)[:, 0]
    moved = sums[sums != 0]
    units = moved if _is_enumerated(len(moved), resamples) else sums
    hits = rows = 0
    for flipped in _flipped(len(units), resamples, seed):
        rows += len(flipped)
        hits += int((np.abs(units.sum() - 2 * (flipped @ units)) >= abs(units.sum()) - _ROUNDING).sum())
    return hits / rows if units is moved else (1 + hits) / (1 + rows)


def sign_flip_interval(
    differences: "Sequence[float] | NDArray[np.float64]",
    clusters: Sequence[str],
    p: float,
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
    confidence: float = 0.95,
) -> tuple[float, float]:
    """Return the interval of a mean difference that inverts the sign-flip test: the shifts it does not reject.

    A shift d is rejected by the test of the units' differences D_u - d m_u, m_u their numbers of questions. A pattern
    that flips the units S is as extreme as the observed one exactly where d is not below the smaller of the mean
    differences of S and of its complement (above: the larger), so that the bounds are order statistics of such means
    (Hartigan 1969, Journal of the American Statistical Association 64:1303-1317).

    Args:
        differences: one per question, in any order; each between -1 and 1.
        clusters: haystack id of each question.
        p: what `sign_flip_p` returns for them: the interval excludes 0 exactly where it is below 1 - `confidence`.
        resamples: number of patterns drawn.
        seed: seed of the draws.
        confidence: between 0 and 1.

    Returns:
        (-1, 1) where so few units cannot reject any shift, as with five or fewer.
    """
    import numpy as np

    sums, sizes = _units(differences, clusters).T
    means: list[NDArray[np.float64]] = []
    patterns = 0 if _is_enumerated(len(sums), resamples) else 1  # The observed pattern, if it is not among them.
    for flipped in _flipped(len(sums), resamples, seed):
        patterns += len(flipped)
        own_sums, own_sizes = flipped @ sums, flipped @ sizes
        inside = (own_sizes > 0) & (own_sizes < sizes.sum())
        own = own_sums[inside] / own_sizes[inside]
        rest = (sums.sum() - own_sums[inside]) / (sizes.sum() - own_sizes[inside])
        means.append(np.sort([own, rest], axis=0))
    # Sums of fractions round: no mean of differences is beyond 1.
    lower, upper = np.clip(np.concatenate(means, axis=1), -1.0, 1.0) if means else np.empty((2, 0))
    # Patterns that flip no unit, or all of them, are never less extreme.
    needed = ceil((1 - confidence) * patterns - _ROUNDING) - (patterns - len(lower))
    if needed <= 0:
        return -1.0, 1.0
    low, high = float(np.sort(lower)[needed - 1]), float(-np.sort(-upper)[needed - 1])
    if (
        p >= 1 - confidence
    ):  # Neither rounding nor draws exclude what the test does not reject, and the other way round.
        return min(low, 0.0), max(high, 0.0)
    if low <= 0 <= high:
        return (float(lower[lower > 0].min()), high) if sums.sum() > 0 else (low, float(upper[upper < 0].max()))
    return low, high


def _is_enumerated(units: int, resamples: int) -> bool:
    return units < resamples.bit_length()


def _flipped(units: int, resamples: int, seed: int) -> "Iterator[NDArray[np.float64]]":
    """Yield rows of 0 and 1, shape (rows, units): which units a pattern flips; all patterns if there are few."""
    import numpy as np

    if _is_enumerated(units, resamples):
        yield (np.arange(2**units)[:, np.newaxis] >> np.arange(units) & 1).astype(np.float64)
        return
    for start in range(0, resamples, _ROWS):
        yield _rows_flipped(units, min(_ROWS, resamples - start), seed, start).astype(np.float64)


def smallest_p(units: int) -> float:
    """Return the smallest p that the sign-flip test of `units` units can give."""
    return min(1.0, 2.0 ** (1 - units))


def share_haystacks(clusters: Sequence[str]) -> bool:
    """Return whether the units are haystacks, several and some with several questions, rather than single questions."""
    return 1 < _distinct(tuple(clusters)) < len(clusters)


@lru_cache(maxsize=16)
def _distinct(clusters: tuple[str, ...]) -> int:
    """Return the number of distinct units; all pairs of a comparison ask for the same."""
    return len(set(clusters))


def _units(
    values: "Sequence[float] | NDArray[np.float64]", clusters: Sequence[str], *, ordered: bool = True
) -> "NDArray[np.float64]":
    """Return sum and number of the values of each unit, shape (units, 2).

    Args:
        values: one per question.
        clusters: haystack id of each question.
        ordered: add values of a unit in order of size: a sum of floats depends on the order.
    """
    import numpy as np

    numbers = np.asarray(values, dtype=np.float64)
    members, sizes = _members(tuple(clusters))
    if len(sizes) == 1:
        return np.column_stack([np.sort(numbers) if ordered else numbers, np.ones(len(numbers))])
    if ordered and len(sizes) < len(numbers):
        order = np.lexsort((numbers, members))
        numbers, members = numbers[order], members[order]
    return np.column_stack([np.bincount(members, weights=numbers), sizes])


@lru_cache(maxsize=16)
def _members(clusters: tuple[str, ...]) -> "tuple[NDArray[np.intp], NDArray[np.intp]]":
    """Return the unit of each question and the size of each unit; the pairs of a comparison share them."""
    import numpy as np

    labels, members = np.unique(np.asarray(clusters), return_inverse=True)
    return members, np.bincount(members, minlength=len(labels))


@lru_cache(maxsize=2 * RESAMPLES // _ROWS)
def _rows_flipped(units: int, rows: int, seed: int, start: int) -> "NDArray[np.int8]":
    """Draw which units are flipped, shape (rows, units); the pairs of a comparison share the draws."""
    import numpy as np

    return np.random.default_rng([seed, start]).integers(2, size=(rows, units), dtype=np.int8)


def chunks(resamples: int, width: int) -> list[int]:
    """Split `resamples` into numbers of rows to draw at a time, so that `width` numbers a row fit in `_CELLS`."""
    rows = max(1, _CELLS // max(1, width))
    return [min(rows, resamples - start) for start in range(0, resamples, rows)]


def _central(means: "NDArray[np.float64]", confidence: float) -> tuple[float, float]:
    """Return the bounds that leave out equal shares of `means` below and above."""
    import numpy as np

    tail = (1 - confidence) / 2
    low, high = np.quantile(means, [tail, 1 - tail])
    return float(low), float(high)
