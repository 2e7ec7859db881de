import random
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from longmemeval.statistics.intervals import wilson_interval
from longmemeval.statistics.resampling import (
    bootstrap_mean,
    share_haystacks,
    sign_flip_interval,
    sign_flip_p,
    smallest_p,
)

TABLE = [1.0] * 81 + [-1.0] * 29 + [0.0] * 390


def own(n: int) -> list[str]:
    """A haystack for each of `n` questions."""
    return [f"h{number:05}" for number in range(n)]


def inverted(differences: Sequence[float], clusters: Sequence[str]) -> tuple[float, float]:
    """The interval that inverts the sign-flip test."""
    return sign_flip_interval(differences, clusters, sign_flip_p(differences, clusters))


def band(share: float, trials: int) -> float:
    """Four standard errors of a share seen in `trials` simulations: passed by chance 6 times in 100,000."""
    return float(4 * np.sqrt(share * (1 - share) / trials))


def test_haystacks_are_drawn_whole() -> None:
    # Two haystacks, nine questions at 1 and one at 0: a draw is 18/18, 9/10 or 0/2.
    differences, clusters = [1.0] * 9 + [0.0], ["big"] * 9 + ["small"]
    assert bootstrap_mean(differences, clusters) == (0.0, 1.0)


def test_questions_of_one_haystack_are_drawn_one_by_one() -> None:
    assert inverted(TABLE, ["only"] * 500) == pytest.approx(inverted(TABLE, own(500)), abs=0.003)
    low, high = bootstrap_mean([0.2, 0.8] * 50, ["only"] * 100)
    assert (low, high) == pytest.approx((0.5 - 1.96 * 0.03, 0.5 + 1.96 * 0.03), abs=0.012)


@pytest.mark.parametrize(
    ("clusters", "shared"),
    [(["a", "a", "b"], True), (["a", "b", "c"], False), (["a", "a", "a"], False), (["a"], False), ([], False)],
)
def test_who_shares(clusters: list[str], shared: bool) -> None:
    assert share_haystacks(clusters) is shared


@pytest.mark.parametrize("method", [inverted, sign_flip_p])
@pytest.mark.parametrize("haystacks", [1, 7, 60])
def test_the_order_of_the_questions_does_not_matter(method: Callable[..., object], haystacks: int) -> None:
    source = random.Random(1)
    pairs = [(source.random() - 0.4, f"h{number % haystacks}") for number in range(60)]
    shuffled = source.sample(pairs, len(pairs))
    first, second = (method([d for d, _ in order], [c for _, c in order]) for order in (pairs, shuffled))
    assert first == second


def test_the_number_drawn_at_a_time_does_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    differences = [random.Random(number).random() - 0.4 for number in range(60)]
    whole = bootstrap_mean(differences, own(60))
    monkeypatch.setattr("longmemeval.statistics.resampling._CELLS", 7_000)
    assert bootstrap_mean(differences, own(60)) == pytest.approx(whole, abs=1e-12)


def exact_sign_flip_p(sums: Sequence[float]) -> float:
    """Over all assignments of signs."""
    totals = [0.0]
    for one in sums:
        totals = [total + sign * one for total in totals for sign in (1, -1)]
    return float(np.mean(np.abs(totals) >= abs(sum(sums)) - 1e-9))


@pytest.mark.parametrize(
    ("differences", "clusters", "exact"),
    [
        # All five positive: 2 of 32 assignments are as extreme.
        ([0.1, 0.2, 0.3, 0.4, 0.5], own(5), 2 / 32),
        # Only the sign of all: every one of 2 assignments.
        ([0.7], own(1), 1.0),
        ([0.0, 0.0], own(2), 1.0),
        # 3 - 1 = 2 of {3, 1}: all four of ±2, ±4.
        ([3.0, -1.0], own(2), 1.0),
        # Four haystacks of ten questions that fare alike are four observations: 2 of 16, not 2 of 2^40.
        ([0.5] * 40, [f"h{number % 4}" for number in range(40)], 2 / 16),
        # All of one haystack: the questions are what is flipped.
        ([1.0] * 6, ["only"] * 6, 2 / 64),
    ],
)
def test_sign_flips_by_hand(differences: list[float], clusters: list[str], exact: float) -> None:
    assert sign_flip_p(differences, clusters) == pytest.approx(exact, abs=1e-12)


@pytest.mark.parametrize("units", [1, 7, 8, 9, 10, 13])
def test_few_signs_are_all_looked_at(units: int) -> None:
    source = random.Random(units)
    differences = [round(source.uniform(-0.5, 0.8), 3) for _ in range(units)]
    for seed in (0, 1):
        assert sign_flip_p(differences, own(units), seed=seed) == exact_sign_flip_p(differences)


@pytest.mark.parametrize("units", [0, 1, 2, 10])
def test_no_p_is_below_the_smallest(units: int) -> None:
    assert sign_flip_p([0.25] * units, own(units)) == smallest_p(units)


def test_what_another_pair_drew_before_does_not_show() -> None:
    source = random.Random(12)
    first, second, third = ([source.uniform(-0.5, 0.7) for _ in range(60)] for _ in range(3))
    alone = inverted(first, own(60))
    inverted(second, own(60))
    inverted(third[:55], own(55))
    assert inverted(first, own(60)) == alone


def test_questions_that_do_not_differ_have_no_say() -> None:
    source = random.Random(13)
    differences = [source.uniform(-0.3, 0.5) for _ in range(10)]
    alone = sign_flip_p(differences, own(10))
    assert sign_flip_p([*differences, *[0.0] * 300], own(310)) == alone


def test_the_mean_is_drawn_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    values = [random.Random(number).random() for number in range(61)]
    whole = bootstrap_mean(values, own(61))
    monkeypatch.setattr("longmemeval.statistics.resampling._CELLS", 700)
    assert bootstrap_mean(values, own(61)) == whole


def test_sign_flips_of_unequal_differences() -> None:
    source = random.Random(5)
    differences = [round(source.uniform(-0.4, 0.6), 2) for _ in range(16)]
    exact = exact_sign_flip_p(differences)
    assert 0.001 < exact < 0.5
    assert sign_flip_p(differences, own(16)) == pytest.approx(exact, abs=band(exact, 10_000) + 1e-4)


def rejected(sums: Sequence[float], sizes: Sequence[int], shift: float) -> bool:
    """Whether flipping all signs in every way rejects a shift."""
    return exact_sign_flip_p([total - shift * size for total, size in zip(sums, sizes, strict=True)]) < 0.05


@pytest.mark.parametrize("seed", range(6))
def test_the_interval_holds_what_the_test_does_not_reject(seed: int) -> None:
    """By brute force: eight units of unequal size; just inside of each bound is kept, just outside rejected."""
    source = random.Random(seed)
    sizes = [source.randint(1, 4) for _ in range(8)]
    clusters = [f"h{unit}" for unit, size in enumerate(sizes) for _ in range(size)]
    differences = [source.uniform(-0.4, 0.7) for _ in clusters]
    sums = [sum(d for d, c in zip(differences, clusters, strict=True) if c == f"h{unit}") for unit in range(8)]
    low, high = inverted(differences, clusters)
    assert -1 < low < sum(sums) / sum(sizes) < high < 1
    assert [rejected(sums, sizes, shift) for shift in (low - 1e-6, low + 1e-6, high - 1e-6, high + 1e-6)] == [
        True,
        False,
        False,
        True,
    ]


@pytest.mark.parametrize("units", [0, 1, 5])
def test_five_units_reject_nothing(units: int) -> None:
    assert inverted([0.5] * units, own(units)) == (-1.0, 1.0)


def test_equal_differences_have_no_width_and_a_shift_of_all_shifts_the_interval() -> None:
    assert inverted([0.25] * 8, own(8)) == (0.25, 0.25)
    source = random.Random(3)
    differences = [source.uniform(-0.3, 0.3) for _ in range(40)]
    there, back = inverted(differences, own(40)), inverted([-one for one in differences], own(40))
    assert back == (-there[1], -there[0])
    shifted = inverted([one + 0.2 for one in differences], own(40))
    assert shifted == pytest.approx((there[0] + 0.2, there[1] + 0.2), abs=1e-9)


@pytest.mark.slow
@given(
    st.lists(st.tuples(st.sampled_from([-1.0, -0.5, 0.0, 0.3, 1.0]), st.integers(0, 12)), min_size=1, max_size=40),
)
def test_the_interval_excludes_zero_exactly_where_the_test_rejects(pairs: list[tuple[float, int]]) -> None:
    differences, clusters = [d for d, _ in pairs], [f"h{c}" for _, c in pairs]
    p = sign_flip_p(differences, clusters, resamples=200)
    low, high = sign_flip_interval(differences, clusters, p, resamples=200)
    assert (low > 0 or high < 0) == (p < 0.05)
    assert -1 <= low <= high <= 1


def test_sign_flips_never_give_zero() -> None:
    assert sign_flip_p([1.0] * 500, own(500), resamples=999) == 1 / 1000


def clustered(generator: np.random.Generator, mean: float) -> tuple[list[float], list[str]]:
    """Some 240 differences in 40 haystacks that shift all of theirs alike; `mean` is true of every question."""
    sizes = generator.integers(3, 10, size=40)
    shifts = np.repeat(generator.uniform(-0.3, 0.3, size=40), sizes)
    values = mean + shifts + generator.uniform(-0.2, 0.2, size=len(shifts))
    return values.tolist(), np.repeat(own(40), sizes).tolist()


@pytest.mark.thorough
def test_intervals_over_haystacks_cover_the_truth() -> None:
    generator, trials = np.random.default_rng(0), 300
    by_haystack = by_question = by_mean = 0
    for _ in range(trials):
        differences, clusters = clustered(generator, 0.1)
        low, high = inverted(differences, clusters)
        by_haystack += low <= 0.1 <= high
        low, high = bootstrap_mean(differences, clusters)
        by_mean += low <= 0.1 <= high
        low, high = bootstrap_mean(differences, own(len(differences)))
        by_question += low <= 0.1 <= high
    assert by_haystack / trials == pytest.approx(0.95, abs=band(0.95, trials))
    assert by_mean / trials == pytest.approx(0.95, abs=band(0.95, trials))
    # What the haystacks are for: drawn one by one, the same questions pretend to know far more.
    assert by_question / trials < 0.8


@pytest.mark.slow
def test_p_is_uniform_where_nothing_differs() -> None:
    generator, trials = np.random.default_rng(1), 400
    by_haystack, by_question = [], []
    for _ in range(trials):
        differences, clusters = clustered(generator, 0.0)
        by_haystack.append(sign_flip_p(differences, clusters, resamples=499))
        by_question.append(sign_flip_p(differences, own(len(differences)), resamples=499))
    for level in (0.05, 0.2, 0.5, 0.8):
        assert np.mean(np.array(by_haystack) <= level) == pytest.approx(level, abs=band(level, trials))
    assert np.mean(np.array(by_question) <= 0.05) > 0.05 + band(0.05, trials)


@pytest.mark.parametrize(("n", "accuracy"), [(30, 0.5), (100, 0.8), (500, 0.836), (500, 0.95)])
def test_wilsons_interval_covers_the_truth(n: int, accuracy: float) -> None:
    trials = 10_000
    seen = np.random.default_rng(n).binomial(n, accuracy, size=trials)
    intervals = {count: wilson_interval(count, n) for count in set(seen.tolist())}
    covered = np.mean([intervals[count][0] <= accuracy <= intervals[count][1] for count in seen.tolist()])
    # Counts are whole: each end of the interval may take in or leave out one count too many, 1.96 standard deviations
    # out, where a count is exp(-1.96² / 2) = 0.15 times as likely as the likeliest.
    discreteness = 2 * 0.15 * np.bincount(seen).max() / trials
    assert covered == pytest.approx(0.95, abs=band(0.95, trials) + discreteness)
