"""Power: how small a difference between two runs the questions can show, independent or sharing haystacks."""

from collections import Counter
from collections.abc import Sequence
from math import ceil, fsum, sqrt
from statistics import NormalDist

from longmemeval.statistics.resampling import share_haystacks, smallest_p

DISCORDANT = 0.2
"""Share of the questions that one of two runs gets right and the other wrong, assumed where nothing is known.
Two unrelated runs that are each right on 80 % disagree on 32 %; runs over the same data tend to fail on the same
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


def planned_difference(haystacks, *, labels):
    return 0.1
