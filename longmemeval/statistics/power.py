"""Power: how small a difference between two runs the questions can show, independent or sharing haystacks."""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import ceil, fsum, log, sqrt
from statistics import NormalDist
from typing import TYPE_CHECKING

from longmemeval.statistics.resampling import share_haystacks, smallest_p

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

DISCORDANT = 0.2
"""Share of the questions that one of two runs gets right and the other wrong, assumed where nothing is known.
Two unrelated runs that are each right on 80% disagree on 32%; runs over the same data tend to fail on the same
questions and disagree on fewer."""

CORRELATION = 0.001
"""Intraclass correlation, within a haystack, of the difference in credit of two runs, assumed where nothing is known.
Measured on 1,986 questions about ten conversations, seven presets answered by `offline/extractive`: over their 21 pairs
0.0011 on average by `offline/lexical` and 0.0009 by token F1."""

ALPHA = 0.05
"""Level of the tests: the chance of calling any two runs different where none are."""


def independent_units(clusters: Sequence[str]) -> int:
    """Return how many units a test counts or flips: haystacks if several questions share one, else questions."""
    return len(set(clusters)) if share_haystacks(clusters) else len(clusters)


def can_show_nothing(clusters: Sequence[str], alpha: float = ALPHA) -> bool:
    """Return True if there are too few units for any p below `alpha`, whatever the runs answer.

    McNemar's test of n questions that one run alone gets right has p = 2 / 2^n, as does the sign-flip test of n units
    of the same sign: with five or fewer, p is never below 0.05.
    """
    return smallest_p(independent_units(clusters)) >= alpha


def assumed_design_effect(clusters: Sequence[str]) -> float:
    """Return the factor by which shared haystacks multiply the variance of a mean difference, under `CORRELATION`.

    At least 1. 1 + (m - 1) rho (Kish 1965, section 5.4), m the size of the haystack of a question drawn at random: the
    mean size of haystacks, weighted by their questions.
    """
    if not share_haystacks(clusters):
        return 1.0
    sizes = Counter(clusters).values()
    return 1 + (sum(size * size for size in sizes) / len(clusters) - 1) * CORRELATION


def design_effect(differences: Sequence[Sequence[float]], clusters: Sequence[str]) -> float:
    """Return the factor by which shared haystacks multiply the variance of mean differences, measured on pairs of runs.

    The variance between haystacks (that of a ratio estimate: Cochran 1977, section 6.3) over the variance of
    independent questions, each summed over the pairs. At least 1, since so few haystacks give less only by chance.

    Args:
        differences: differences of each pair of runs, one per question.
        clusters: haystack id of each question.
    """
    if not share_haystacks(clusters):
        return 1.0
    places: dict[str, list[int]] = {}
    for place, cluster in enumerate(clusters):
        places.setdefault(cluster, []).append(place)
    between = within = 0.0
    for values in differences:
        mean = fsum(values) / len(values)
        residuals = [fsum(values[place] - mean for place in members) for members in places.values()]
        between += fsum(residual * residual for residual in residuals) * len(places) / (len(places) - 1)
        within += fsum((value - mean) ** 2 for value in values)
    return max(1.0, between / within) if within else 1.0


def minimum_detectable_difference(
    n: int,
    *,
    discordant: float = DISCORDANT,
    design_effect: float = 1.0,
    haystacks: int | None = None,
    power: float = 0.8,
    alpha: float = ALPHA,
) -> float:
    """Return the smallest true difference of two accuracies that the paired test shows with probability `power`.

    The normal approximation of Miettinen (1968) as in Connor (1987, Biometrics 43:207-211), solved for the difference
    d: d √n = z(1 - alpha/2) √discordant + z(power) √(discordant - d²). The exact test is a little weaker. Runs cannot
    differ by more than the discordant share, so that share is raised to the difference if it is less.
    Questions that share haystacks count as n / `design_effect` independent ones, and Student's t with one degree of
    freedom less than there are haystacks takes the place of z, as in cluster-randomised trials (Donner and Klar 2000).

    Args:
        n: number of questions both runs answer.
        discordant: share of the questions that one run gets right and the other wrong.
        design_effect: see the function of that name; 1 for independent questions.
        haystacks: number of haystacks the questions share; None: they are independent.
        power: probability of showing the difference, between 0 and 1.
        alpha: two-sided level of the test, between 0 and 1.

    Returns:
        Fraction between 0 and 1; also 1 if `n` is so small that no difference would show.
    """
    z_alpha, z_power = _quantile(1 - alpha / 2, haystacks), _quantile(power, haystacks)
    independent = n / design_effect
    room = independent + z_power**2 - z_alpha**2
    if room <= 0:
        return 1.0
    # The quadratic equation in d has the root slope * √discordant, and slope² where the discordant share is d itself.
    slope = (z_alpha * sqrt(independent) + z_power * sqrt(room)) / (independent + z_power**2)
    return min(1.0, max(slope * sqrt(discordant), slope**2))


def detectable_difference(
    n: int, units: int, squared: float, effect: float = 1.0, *, labels: bool, tests: int = 1
) -> float | None:
    """Return the smallest true difference that the test of two runs finds with 80% power, given how they disagree.

    For labels of independent questions, the exact power of McNemar's test (`exact_detectable_difference`); otherwise
    the normal approximation of `minimum_detectable_difference`, for scores scaled by their root mean square.

    Args:
        n: number of questions.
        units: number of units that the test flips: the haystacks that questions share, else the questions.
        squared: mean squared difference of the scores; for labels, the share of discordant questions.
        effect: factor by which shared haystacks multiply the variance (`design_effect`).
        labels: True if scores are 0 or 1.
        tests: number of tests in the family; the level of each is 0.05 divided by it.

    Returns:
        None if the questions can show nothing, or if the runs score the same on every question, which says nothing.
    """
    if smallest_p(units) >= ALPHA / tests or not squared:
        return None
    if labels and units == n:
        return exact_detectable_difference(n, squared, tests=tests)
    return _approximate(n, units, squared, effect, labels=labels, alpha=ALPHA / tests)


def planned_difference(haystacks: Mapping[str, str], *, labels: bool) -> float | None:
    """Return the difference that the questions can show between runs yet to be made; None if they can show none."""
    clusters = list(haystacks.values())
    if can_show_nothing(clusters):
        return None
    effect = assumed_design_effect(clusters)
    return _approximate(len(clusters), independent_units(clusters), DISCORDANT, effect, labels=labels)


def _approximate(n: int, units: int, squared: float, effect: float, *, labels: bool, alpha: float = ALPHA) -> float:
    """Return the detectable difference for a mean squared difference, by the normal approximation.

    For labels, that is the share of discordant questions, as in McNemar's test: runs cannot differ by more than the
    share of questions they disagree on. Mean scores can differ by more than their mean squared difference, so they use
    the same approximation without that bound.
    """
    shared = units if units < n else None
    discordant, scale = (squared, 1.0) if labels else (1.0, sqrt(squared))
    unscaled = minimum_detectable_difference(
        n, discordant=discordant, design_effect=effect, haystacks=shared, alpha=alpha
    )
    return unscaled * scale


@lru_cache(maxsize=512)
def exact_detectable_difference(n: int, share: float, *, tests: int = 1, power: float = 0.8) -> float | None:
    """Return the smallest true difference that McNemar's exact test finds with probability `power`.

    The smallest d with sum_k Bin(k; n, s) sum_b Bin(b; k, (1 + d / s) / 2) [p(b, k) < 0.05 / tests, b > k / 2] at least
    `power`, where s is the observed share of discordant questions, k their number and b how many of them the better
    run gets right. Runs cannot differ by more than the share they disagree on: where that is not enough, s is d.

    Args:
        n: number of questions.
        share: observed share of the questions on which the two runs disagree, above 0.
        tests: number of tests in the family.
        power: probability of finding the difference, between 0 and 1.

    Returns:
        A fraction between 0 and 1, rounded up to 0.001; None if no difference is found with that probability.
    """
    low, high, split = 0.0, share, True
    if _exact_power(n, share, 1.0, tests) < power:
        low, high, split = share, 1.0, False
        if _exact_power(n, 1.0, 1.0, tests) < power:
            return None
    while high - low > 0.0001:
        middle = (low + high) / 2
        found = (
            _exact_power(n, share, (1 + middle / share) / 2, tests) if split else _exact_power(n, middle, 1.0, tests)
        )
        low, high = (low, middle) if found >= power else (middle, high)
    return ceil(high * 1000 - 0.1) / 1000


def _exact_power(n: int, share: float, better: float, tests: int) -> float:
    """Return the power of McNemar's exact test where runs disagree on `share`, `better` of it for the better run."""
    import numpy as np

    ways = _log_ways(n)
    numbers = np.arange(n + 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        chances = ways[n] + numbers * np.log(share) + np.where(numbers < n, (n - numbers) * np.log1p(-share), 0.0)
        likely = np.flatnonzero(chances > log(_NEGLIGIBLE))
        total = 0.0
        for k in likely:
            least = _least_significant(int(k), tests)
            if least is None:
                continue
            b = np.arange(least, k + 1)
            tail = ways[k, least : k + 1] + b * np.log(better)
            tail = tail + np.where(b < k, (k - b) * np.log1p(-better), 0.0)
            total += float(np.exp(chances[k] + tail).sum())
    return total


_NEGLIGIBLE = 1e-7
"""Numbers of discordant questions that are less likely are left out of a power."""


@lru_cache(maxsize=4)
def _log_ways(n: int) -> "NDArray[np.float64]":
    """Return the logarithms of the binomial coefficients up to `n`, shape (n + 1, n + 1)."""
    import numpy as np

    factorials = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, n + 1)))])
    rows, columns = np.arange(n + 1)[:, np.newaxis], np.arange(n + 1)
    ways: NDArray[np.float64] = factorials[rows] - factorials[columns] - factorials[np.maximum(rows - columns, 0)]
    return ways


@lru_cache(maxsize=4096)
def _least_significant(k: int, tests: int) -> int | None:
    """Return the fewest of `k` discordant questions that are significant for the better run; None if not even all."""
    limit = ALPHA / tests / 2
    tail, ways, found = 0.0, 1.0, None
    scale = 2.0**-k
    for worse in range(k + 1):  # How many the worse run gets right: from none upwards.
        tail += ways * scale
        if tail >= limit or 2 * worse >= k:
            break
        found = k - worse
        ways = ways * (k - worse) / (worse + 1)
    return found


def questions_to_tell(
    difference: float, variance: float, *, other_error: float = 0.0, power: float = 0.8, alpha: float = ALPHA
) -> int | None:
    """Return the fewest questions whose mean shows a true difference from another figure with probability `power`.

    The normal approximation (Fleiss, Levin and Paik 2003, section 2.4) with the standard error of the other figure
    added to that of the mean: n = variance / ((d / (z(1 - alpha/2) + z(power)))² - error²).

    Args:
        difference: d, a fraction above 0.
        variance: of the credit of one question, as far as haystacks are shared more than it seems.
        other_error: standard error of the other figure; 0: it has none.
        power: probability of showing the difference.
        alpha: two-sided level.

    Returns:
        None if no number is enough, because the other figure alone is too uncertain.
    """
    room = (difference / (_quantile(1 - alpha / 2, None) + _quantile(power, None))) ** 2 - other_error**2
    return ceil(variance / room) if room > 0 else None


def _quantile(share: float, haystacks: int | None) -> float:
    if haystacks is None:
        return NormalDist().inv_cdf(share)
    from scipy.special import stdtrit

    return float(stdtrit(haystacks - 1, share))
