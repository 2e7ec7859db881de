import random
from collections.abc import Mapping
from math import log

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from longmemeval.errors import HarnessError
from longmemeval.statistics.intervals import Spread, repeat_spread, wilson_interval
from longmemeval.statistics.paired import (
    Paired,
    clopper_pearson,
    compare_credits,
    compare_pairs,
    holm,
    label_difference_interval,
    mcnemar,
    tango_interval,
)

Scores = dict[str, float | None]


def table(a_only: int, b_only: int, both: int, neither: int) -> tuple[Scores, Scores]:
    """Two runs with these counts."""
    pairs = [(1.0, 0.0)] * a_only + [(0.0, 1.0)] * b_only + [(1.0, 1.0)] * both + [(0.0, 0.0)] * neither
    ids = [f"q{number:04}" for number in range(len(pairs))]
    return dict(zip(ids, (a for a, _ in pairs), strict=True)), dict(zip(ids, (b for _, b in pairs), strict=True))


def test_a_published_table() -> None:
    # 418 and 366 of 500: 83.6 % [80.1, 86.6] and 73.2 % [69.2, 76.9].
    a, b = table(81, 29, 337, 53)
    assert wilson_interval(418, 500) == pytest.approx((0.801, 0.866), abs=5e-4)
    assert wilson_interval(366, 500) == pytest.approx((0.692, 0.769), abs=5e-4)
    pair = compare_pairs(a, b, {})
    assert (pair.n, pair.a_only, pair.b_only, pair.both, pair.neither) == (500, 81, 29, 337, 53)
    assert pair.difference == pytest.approx(0.104, abs=1e-15)
    assert pair.interval == pytest.approx((0.064, 0.144), abs=0.003)
    assert pair.p < 1e-6
    assert (pair.test, pair.mcnemar_p) == ("exact McNemar", pair.p)


def test_tangos_interval_solves_his_equation() -> None:
    """By hand for one pair of every n: the score at both bounds is ±1.96, with q found by another method."""
    from scipy.optimize import brentq, minimize_scalar

    z = 1.959963984540054
    for a_only, b_only, n in ((9, 3, 44), (0, 5, 40), (1, 1, 60), (30, 0, 100)):

        def likelihood(q: float, d: float, a_only: int = a_only, b_only: int = b_only, n: int = n) -> float:
            cells = ((q + d, a_only), (q, b_only), (1 - 2 * q - d, n - a_only - b_only))
            return -sum(count * log(max(p, 1e-300)) for p, count in cells if count)

        def score(d: float, a_only: int = a_only, b_only: int = b_only, n: int = n) -> float:
            found = minimize_scalar(likelihood, bounds=(max(0.0, -d), (1 - d) / 2), args=(d,), method="bounded")
            variance = n * (2 * found.x + d * (1 - d))
            return float((a_only - b_only - n * d) / np.sqrt(variance))

        low, high = tango_interval(a_only, b_only, n)
        observed = (a_only - b_only) / n
        assert low == pytest.approx(brentq(lambda d: score(d) - z, -0.9, observed), abs=1e-3)
        assert high == pytest.approx(brentq(lambda d: score(d) + z, observed, 0.9), abs=1e-3)


@pytest.mark.parametrize(("successes", "n"), [(0, 12), (12, 12), (3, 17), (81, 110), (250, 500)])
def test_exact_shares_are_those_of_the_beta_distribution(successes: int, n: int) -> None:
    from scipy.stats import beta

    low = beta.ppf(0.025, successes, n - successes + 1) if successes else 0.0
    high = beta.ppf(0.975, successes + 1, n - successes) if successes < n else 1.0
    assert clopper_pearson(successes, n) == pytest.approx((low, high), abs=1e-9)


@pytest.mark.slow
def test_the_interval_of_labels_excludes_zero_exactly_where_mcnemar_rejects() -> None:
    for n in (6, 20, 60, 500):
        for a_only in range(min(n, 45) + 1):
            for b_only in range(min(n - a_only, 45) + 1):
                low, high = label_difference_interval(a_only, b_only, n)
                assert (low > 0 or high < 0) == (mcnemar(a_only, b_only) < 0.05), (a_only, b_only, n)
                assert -1 <= low <= (a_only - b_only) / n <= high <= 1


def test_four_lost_and_none_won_are_not_worse() -> None:
    """The percentile bootstrap gave -1.6 to -0.2 points beside p = 0.125."""
    low, high = label_difference_interval(0, 4, 500)
    assert low < -0.016
    assert 0 < high < 0.003


REPEATED = (64, 65, 63, 51, 54)


def test_repeats_are_pooled_before_anything_else() -> None:
    """Five repeats against one run of 45%: the mean, one test over question means, p as planted."""
    ids = [f"q{number:03}" for number in range(100)]
    source = random.Random(7)
    base = dict.fromkeys(ids, 0.0) | dict.fromkeys(source.sample(ids, 45), 1.0)
    runs = [dict.fromkeys(ids, 0.0) | dict.fromkeys(source.sample(ids, right), 1.0) for right in REPEATED]
    pair = compare_credits(runs, [base], {})
    assert pair.difference == pytest.approx(0.594 - 0.45)
    assert (pair.test, pair.mcnemar_p, pair.units) == ("sign-flip permutation", None, 100)
    assert pair.approximate
    means = [sum(run[name] for run in runs) / 5 - base[name] for name in ids]
    signs = np.random.default_rng(99).choice([-1.0, 1.0], size=(200_000, 100))
    assert pair.p == pytest.approx(float((np.abs(signs @ means) >= abs(sum(means)) - 1e-9).mean()), abs=0.004)
    assert not compare_credits(runs, [base] * 5, {}).approximate
    assert compare_credits([base], [base], {}).approximate is False


def test_a_minus_b() -> None:
    a, b = table(8, 2, 5, 5)
    there, back = compare_pairs(a, b, {}), compare_pairs(b, a, {})
    assert there.difference == 0.3
    assert back.difference == -0.3
    assert back.interval == (-there.interval[1], -there.interval[0])
    assert (back.a_only, back.b_only, back.p) == (there.b_only, there.a_only, there.p)


@pytest.mark.parametrize(
    ("a_only", "b_only", "p"),
    [
        (0, 0, 1.0),
        (1, 0, 1.0),
        (5, 0, 2 / 32),
        (0, 6, 2 / 64),
        # 2 (1 + 10 + 45) / 1024.
        (8, 2, 112 / 1024),
        (7, 7, 1.0),
    ],
)
def test_mcnemar_by_hand(a_only: int, b_only: int, p: float) -> None:
    assert mcnemar(a_only, b_only) == pytest.approx(p, abs=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("a_only", "b_only"), [(0, 1), (7, 7), (7, 8), (81, 29), (900, 1086), (40, 3000), (20_000, 20_300)]
)
def test_mcnemar_is_scipys_binomial_test(a_only: int, b_only: int) -> None:
    from scipy.stats import binomtest  # Takes a second, which the quick tests save.

    expected = binomtest(a_only, a_only + b_only).pvalue
    assert mcnemar(a_only, b_only) == mcnemar(b_only, a_only) == pytest.approx(expected, rel=1e-9)


def test_not_evaluated_counts_as_wrong() -> None:
    pair = compare_pairs({"x": 1.0, "y": None, "z": None}, {"x": None, "y": None, "z": 1.0}, {})
    assert (pair.a_only, pair.b_only, pair.neither, pair.difference) == (1, 1, 1, 0.0)
    assert pair.test == "exact McNemar"


def test_booleans_are_labels() -> None:
    a, b = table(8, 2, 5, 5)
    assert compare_pairs({one: score == 1 for one, score in a.items()}, b, {}) == compare_pairs(a, b, {})


def test_scores_have_a_permutation_test_in_place_of_mcnemars() -> None:
    # Each of six questions is 0.25 better in `a`: 2 of 64 assignments of signs are as extreme.
    a: Scores = {f"q{number}": 0.75 if number else 1.0 for number in range(6)}
    b: Scores = {one: (score or 0) - 0.25 for one, score in a.items()}
    pair = compare_pairs(a, b, {})
    assert (pair.mcnemar_p, pair.test, pair.difference) == (None, "sign-flip permutation", 0.25)
    assert pair.p == pytest.approx(2 / 64, abs=0.008)
    assert (pair.a_only, pair.neither) == (1, 5)


@pytest.mark.parametrize("right", [1.0, 0.9])
def test_shared_haystacks_are_the_observations(right: float) -> None:
    # Four conversations of ten questions, `a` ahead on all forty: four observations say little.
    a: Scores = {f"q{number:02}": right for number in range(40)}
    b: Scores = dict.fromkeys(a, 0.0)
    haystacks = {one: f"conversation-{number % 4}" for number, one in enumerate(a)}
    pair = compare_pairs(a, b, haystacks)
    assert pair.test == "sign-flip permutation over haystacks"
    assert pair.p == pytest.approx(2 / 16, abs=0.014)
    assert pair.mcnemar_p == (mcnemar(40, 0) if right == 1 else None)


def test_identical_runs() -> None:
    a, _ = table(5, 0, 5, 10)
    pair = compare_pairs(a, a, {})
    # Tango's: z² / (n + z²) = 3.8415 / 23.8415.
    assert pair.interval == pytest.approx((-0.16113, 0.16113), abs=1e-5)
    assert (pair.difference, pair.p, pair.squared) == (0.0, 1.0, 0.0)


def test_without_questions_nothing_is_known() -> None:
    pair = compare_pairs({}, {}, {})
    assert (pair.n, pair.difference, pair.interval, pair.p) == (0, 0.0, (-1.0, 1.0), 1.0)


def test_other_questions_are_refused() -> None:
    with pytest.raises(HarnessError, match=r"2 of them.*'only-a'.*same selection"):
        compare_pairs({"x": 1.0, "only-a": 1.0}, {"x": 1.0, "only-b": 0.0}, {})


def test_the_record_survives_json() -> None:
    a, b = table(3, 1, 2, 2)
    pair = compare_pairs(a, b, {})
    assert msgspec.json.decode(msgspec.json.encode(pair), type=Paired) == pair


@pytest.mark.slow
@given(
    st.dictionaries(
        st.text(max_size=3), st.tuples(st.sampled_from([0.0, 0.5, 1.0, None]), st.sampled_from([0.0, 1.0])), max_size=12
    ),
    st.randoms(use_true_random=False),
)
def test_order_does_not_matter_and_all_questions_count(
    scores: Mapping[str, tuple[float | None, float]], order: random.Random
) -> None:
    haystacks = {one: str(len(one)) for one in scores}
    a, b = {one: x for one, (x, _) in scores.items()}, {one: y for one, (_, y) in scores.items()}
    shuffled = list(scores)
    order.shuffle(shuffled)
    pair = compare_pairs(a, b, haystacks, resamples=50)
    assert pair == compare_pairs({one: a[one] for one in shuffled}, b, haystacks, resamples=50)
    assert pair.both + pair.a_only + pair.b_only + pair.neither == pair.n == len(scores)
    assert 0 < pair.p <= 1


@pytest.mark.parametrize(
    ("p_values", "adjusted"),
    [
        ([], []),
        ([0.04], [0.04]),
        # Times 4, 3, 2, 1 by rank: 0.004, 0.06, 0.06 (0.04 raised to its forerunner), 0.06 (0.03 likewise).
        ([0.02, 0.001, 0.03, 0.02], [0.06, 0.004, 0.06, 0.06]),
        # 0.03, 0.04 and 0.6 to 1: times 3, 2, 1.
        ([0.6, 0.01, 0.02], [0.6, 0.03, 0.04]),
        ([0.5, 0.6, 0.7], [1.0, 1.0, 1.0]),
    ],
)
def test_holm_by_hand(p_values: list[float], adjusted: list[float]) -> None:
    assert holm(p_values) == pytest.approx(adjusted)


@given(st.lists(st.floats(0, 1), max_size=20))
def test_holm_keeps_the_order_and_stays_a_probability(p_values: list[float]) -> None:
    adjusted = holm(p_values)
    assert all(p <= one <= 1 for p, one in zip(p_values, adjusted, strict=True))
    ranked = [one for _, one in sorted(zip(p_values, adjusted, strict=True))]
    assert ranked == sorted(ranked)


def test_repeats_by_hand() -> None:
    # Mean 0.8; deviations -0.02, 0, 0.02: √(0.0008 / 2).
    spread = repeat_spread([0.82, 0.78, 0.8])
    assert spread.mean == pytest.approx(0.8)
    assert spread.sd == pytest.approx(0.02)
    assert (spread.lowest, spread.highest, spread.n) == (0.78, 0.82, 3)
    assert repeat_spread([0.8, 0.82, 0.78]) == spread


def test_one_run_has_no_spread() -> None:
    assert repeat_spread([0.7]) == Spread(0.7, None, 0.7, 0.7, 1)
