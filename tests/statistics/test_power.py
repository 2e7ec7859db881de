"""What so many questions can show: formulas against counting, and the power they name against simulation."""

import numpy as np
import pytest

from longmemeval.statistics.power import (
    DISCORDANT,
    assumed_design_effect,
    can_show_nothing,
    design_effect,
    detectable_difference,
    exact_detectable_difference,
    independent_units,
    minimum_detectable_difference,
)
from longmemeval.statistics.resampling import sign_flip_p


def own(n: int) -> list[str]:
    """A haystack for each of `n` questions."""
    return [f"h{number}" for number in range(n)]


def shared(haystacks: int, each: int) -> list[str]:
    return [f"h{number % haystacks}" for number in range(haystacks * each)]


def test_detectable_difference_of_connors_formula() -> None:
    # Discordant shares .45 and .05 need (1.959964 √.5 + .841621 √.34)² / .16 = 22.01 pairs for power .8.
    assert minimum_detectable_difference(22, discordant=0.5) == pytest.approx(0.4, abs=2e-4)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "discordant"), [(500, DISCORDANT), (200, 0.3), (1986, 0.1)])
def test_detectable_difference_has_the_power_it_names(n: int, discordant: float) -> None:
    from scipy.stats import binomtest  # Takes a second, which the quick tests save.

    difference = minimum_detectable_difference(n, discordant=discordant)
    shares = [(discordant + difference) / 2, (discordant - difference) / 2, 1 - discordant]
    tables = np.random.default_rng(n).multinomial(n, shares, size=4000)
    a_only, b_only = tables[:, 0], tables[:, 1]
    shown = np.abs(a_only - b_only) > 1.959964 * np.sqrt(a_only + b_only)
    assert shown.mean() == pytest.approx(0.8, abs=4 * np.sqrt(0.8 * 0.2 / 4000))
    # The exact test is a little weaker, as the docstring says.
    p_values = {
        (a, b): binomtest(a, a + b).pvalue for a, b in {(int(a), int(b)) for a, b in zip(a_only, b_only, strict=True)}
    }
    exact = np.mean([p_values[int(a), int(b)] < 0.05 for a, b in zip(a_only, b_only, strict=True)])
    assert 0.72 < exact <= shown.mean()


def test_detectable_difference_shrinks_with_questions_and_grows_with_demands() -> None:
    by_n = [minimum_detectable_difference(n) for n in range(1, 2000)]
    assert by_n == sorted(by_n, reverse=True)
    assert (by_n[0], by_n[2]) == (1.0, 1.0)
    assert minimum_detectable_difference(500, power=0.9) > minimum_detectable_difference(500)
    assert minimum_detectable_difference(500, alpha=0.01) > minimum_detectable_difference(500)
    # Runs that part on 0.1 % of 500 questions cannot be told apart; one that wins 2 % can: 10 to none.
    assert 0.001 < minimum_detectable_difference(500, discordant=0.001) < 0.02


@pytest.mark.parametrize(
    ("clusters", "units", "nothing"),
    [
        ([], 0, True),
        (own(1), 1, True),
        (own(5), 5, True),
        (own(6), 6, False),
        (shared(5, 200), 5, True),
        (shared(6, 2), 6, False),
        # All of one haystack: the questions are what is counted.
        (["only"] * 5, 5, True),
        (["only"] * 6, 6, False),
    ],
)
def test_below_six_nothing_can_be_shown(clusters: list[str], units: int, nothing: bool) -> None:
    assert independent_units(clusters) == units
    assert can_show_nothing(clusters) is nothing
    # The most that can be seen: one run right everywhere, the other nowhere.
    p = 2.0 ** (1 - units) if units else 1.0
    assert (p >= 0.05) is nothing


def plain_design_effect(differences: np.ndarray, clusters: list[str]) -> float:
    """The variance of a mean over drawn haystacks by the textbook, over the one of drawn questions."""
    names = np.array(clusters)
    groups = [differences[names == name] for name in sorted(set(clusters))]
    n, count, mean = len(differences), len(groups), differences.mean()
    totals = np.array([group.sum() for group in groups])
    sizes = np.array([len(group) for group in groups])
    between = count / (count - 1) * ((totals - mean * sizes) ** 2).sum() / n**2
    return float(between / (differences.var() / n))


def test_the_design_effect_by_a_plain_recomputation() -> None:
    generator = np.random.default_rng(4)
    sizes = generator.integers(5, 60, size=12)
    clusters = np.repeat(own(12), sizes).tolist()
    shifts = np.repeat(generator.uniform(-0.5, 0.5, size=12), sizes)
    values = np.sign(shifts + generator.uniform(-0.6, 0.6, size=len(shifts))) * 1.0
    expected = plain_design_effect(values, clusters)
    assert expected > 3
    assert design_effect([values.tolist()], clusters) == pytest.approx(expected, rel=1e-12)
    # The order of the questions does not matter, and a pair that never differs adds nothing.
    order = generator.permutation(len(values))
    shuffled = design_effect([values[order].tolist(), [0.0] * len(values)], [clusters[place] for place in order])
    assert shuffled == pytest.approx(expected, rel=1e-12)


def test_independent_questions_have_no_design_effect() -> None:
    assert design_effect([[1.0, -1.0, 0.0]], own(3)) == 1.0
    assert design_effect([[1.0, -1.0, 0.0]], ["only"] * 3) == 1.0
    assert design_effect([[0.0] * 8], shared(2, 4)) == 1.0
    # Haystacks that are more alike than chance would have it are no evidence of more questions than there are.
    assert design_effect([[1.0, 1.0, -1.0, -1.0]], ["a", "b", "a", "b"]) == 1.0
    assert assumed_design_effect(own(500)) == assumed_design_effect(["only"] * 500) == 1.0


def test_the_assumed_design_effect_by_hand() -> None:
    # A question drawn at random has (30² + 10²) / 40 = 25 in its haystack.
    assert assumed_design_effect(["a"] * 30 + ["b"] * 10) == pytest.approx(1 + 24 * 0.001)
    # LoCoMo: ten conversations of some 200 questions.
    assert assumed_design_effect(shared(10, 199)) == pytest.approx(1.198)


def paired_runs(
    generator: np.random.Generator, haystacks: int, each: int, difference: float, spread: float
) -> np.ndarray:
    """Differences of two runs, shape (haystacks, each): 20% discordant, their balance shifted haystack by haystack."""
    balance = difference / DISCORDANT + generator.choice([-spread, spread], size=(haystacks, 1))
    parted = generator.random((haystacks, each)) < DISCORDANT
    first = generator.random((haystacks, each)) < (1 + balance) / 2
    return np.where(parted, np.where(first, 1.0, -1.0), 0.0)


@pytest.mark.slow
@pytest.mark.parametrize(("haystacks", "each", "spread"), [(10, 200, 0.15), (10, 200, 0.35), (30, 20, 0.3)])
def test_shared_haystacks_have_the_power_that_is_named(haystacks: int, each: int, spread: float) -> None:
    generator, clusters = np.random.default_rng(haystacks + each), np.repeat(own(haystacks), each).tolist()
    # Two answers of one haystack have the covariance of its shift: (20 % of the questions times the spread)².
    correlation = (DISCORDANT * spread) ** 2 / DISCORDANT
    effect = 1 + (each - 1) * correlation
    difference = minimum_detectable_difference(haystacks * each, design_effect=effect, haystacks=haystacks)
    assert difference > minimum_detectable_difference(haystacks * each, design_effect=effect)
    assert difference > 1.1 * minimum_detectable_difference(haystacks * each)
    trials, shown = 400, 0
    for _ in range(trials):
        differences = paired_runs(generator, haystacks, each, difference, spread)
        shown += sign_flip_p(differences.ravel().tolist(), clusters, resamples=499) < 0.05
    assert shown / trials == pytest.approx(0.8, abs=0.08)


def test_few_haystacks_show_little_however_many_questions_they_have() -> None:
    by_haystacks = [minimum_detectable_difference(2000, haystacks=number) for number in range(2, 60)]
    assert by_haystacks == sorted(by_haystacks, reverse=True)
    assert minimum_detectable_difference(2000) < by_haystacks[-1] < 1.05 * minimum_detectable_difference(2000)


def brute_power(n: int, share: float, difference: float, level: float) -> float:
    """Over all numbers of discordant questions, and of those for the better run."""
    from scipy.stats import binom, binomtest

    total = 0.0
    for k in range(n + 1):
        for b in range(k // 2 + 1, k + 1):
            if binomtest(b, k).pvalue < level:
                total += binom.pmf(k, n, share) * binom.pmf(b, k, (1 + difference / share) / 2)
    return float(total)


@pytest.mark.slow
@pytest.mark.parametrize(("tests", "points"), [(1, 0.124), (7, 0.151)])
def test_the_exact_power_of_mcnemar(tests: int, points: float) -> None:
    """108 questions of which a fifth part the two: 12.4 points alone, 15.1 among seven comparisons."""
    assert exact_detectable_difference(108, 0.2, tests=tests) == points
    assert brute_power(40, 0.3, exact_detectable_difference(40, 0.3, tests=tests) or 0, 0.05 / tests) >= 0.8
    less = (exact_detectable_difference(40, 0.3, tests=tests) or 0) - 0.002
    assert brute_power(40, 0.3, less, 0.05 / tests) < 0.8


def test_runs_cannot_differ_by_more_than_they_disagree() -> None:
    # One question in a hundred parts them: only a larger share could show a difference, and all of it would be needed.
    found = exact_detectable_difference(100, 0.01)
    assert found is not None
    assert 0.06 < found < 0.12
    assert exact_detectable_difference(5, 0.4) is None
    assert exact_detectable_difference(7, 0.4, tests=4) is None


def test_a_family_needs_more() -> None:
    alone = detectable_difference(200, 200, 0.2, labels=True)
    family = detectable_difference(200, 200, 0.2, labels=True, tests=28)
    assert alone is not None
    assert family is not None
    assert alone < family
    assert detectable_difference(200, 200, 0.0, labels=True) is None
    assert detectable_difference(200, 5, 0.2, labels=True) is None
    scores = detectable_difference(200, 200, 0.2, labels=False)
    assert scores == pytest.approx(minimum_detectable_difference(200, discordant=1.0) * 0.2**0.5)
