"""Uncertainty by resampling: the bootstrap of a mean and of a mean difference, and the sign-flip permutation test.

The unit of resampling is a whole haystack if questions share haystacks, since these are not independent (some
benchmarks ask 200 about one conversation), else a question. Questions that all share one haystack are units of their
own: the result then holds for that haystack. The draws depend on the seed alone.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

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
_MAX_CACHED = 64_000_000
"""Maximum bytes of draws of one kind that are cached for the next pair of runs."""
_ROWS = 100
"""Number of cached draws made from one seed."""
_FEW = 50
"""Up to this many distinct units are counted with one multinomial draw each."""
_Kind = Literal["hits", "signs"]
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


def paired_bootstrap(
    differences: "Sequence[float] | NDArray[np.float64]",
    clusters: Sequence[str],
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
    confidence: float = 0.95,
) -> tuple[float, float]:
    """Percentile interval of the mean difference of two paired runs (Efron and Tibshirani 1993, section 13.3).

    Units of equal sum and size are interchangeable, so each draw is one multinomial count of how often every distinct
    unit turns up: labels make at most three. Where scores make many, pairs with the same number of units share draws.

    Args:
        differences: one per question, in any order; each between -1 and 1.
        clusters: haystack id of each question.
        resamples: number of resamples.
        seed: seed of the draws.
        confidence: between 0 and 1.

    Returns:
        Lower and upper bound; (-1, 1) for fewer than two questions, which say nothing about their spread. Equal
        differences give an interval of zero width.
    """
    if len(differences) < 2:
        return (-1.0, 1.0)
    import numpy as np

    units = _units(differences, clusters)
    # Sum and size as one number: complex numbers are sorted by both parts, many times as fast as rows.
    pairs, counts = np.unique(units[:, 0] + 1j * units[:, 1], return_counts=True)
    distinct = np.column_stack([pairs.real, pairs.imag])
    if len(distinct) > _FEW:
        drawn = [times @ units for times in _drawn("hits", len(units), resamples, seed)]
    else:
        generator, n = np.random.default_rng(seed), len(units)
        drawn = [
            generator.multinomial(n, counts / n, size=rows) @ distinct for rows in chunks(resamples, len(distinct))
        ]
    sums, sizes = np.concatenate(drawn).T
    return _central(sums / sizes, confidence)


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
    if len(moved) < resamples.bit_length():
        patterns = np.arange(2 ** len(moved))[:, np.newaxis] >> np.arange(len(moved)) & 1
        return _extreme(moved, (1 - 2 * patterns).astype(np.float64)) / len(patterns)
    # Units without a difference also get signs: pairs with the same number of units then share their draws.
    hits = sum(_extreme(sums, signs) for signs in _drawn("signs", len(sums), resamples, seed))
    return (1 + hits) / (1 + resamples)


def smallest_p(units: int) -> float:
    """Return the smallest p that the sign-flip test of `units` units can give."""
    return min(1.0, 2.0 ** (1 - units))


def _extreme(sums: "NDArray[np.float64]", signs: "NDArray[np.float64]") -> int:
    """Count the rows of `signs`, shape (rows, len(sums)), that give a sum at least as far from zero as observed."""
    import numpy as np

    return int((np.abs(signs @ sums) >= abs(sums.sum()) - _ROUNDING).sum())


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


def _drawn(kind: _Kind, units: int, resamples: int, seed: int) -> "Iterator[NDArray[np.float64]]":
    """Yield all `resamples` rows of draws for `units` units, some rows at a time."""
    import numpy as np

    draw = _rows_drawn if resamples * units <= _MAX_CACHED else _rows_drawn.__wrapped__
    for start in range(0, resamples, _ROWS):
        yield draw(kind, units, min(_ROWS, resamples - start), seed, start).astype(np.float64)


@lru_cache(maxsize=2 * RESAMPLES // _ROWS)
def _rows_drawn(kind: _Kind, units: int, rows: int, seed: int, start: int) -> "NDArray[np.int8]":
    """Draw how often each unit is hit in `units` draws, or a sign for each unit; shape (rows, units)."""
    import numpy as np

    generator = np.random.default_rng([seed, start])
    if kind == "signs":
        return generator.integers(2, size=(rows, units), dtype=np.int8) * np.int8(2) - np.int8(1)
    drawn = generator.integers(units, size=(rows, units))
    cells = (drawn + units * np.arange(rows)[:, np.newaxis]).ravel()
    # A byte is enough: a unit among many is never drawn 128 times where one hit is expected.
    return np.bincount(cells, minlength=rows * units).reshape(rows, units).astype(np.int8)


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
