"""Scores corrected for a judge's errors: known answers, and the truth is inside the interval as often as it says."""

import numpy as np
import pytest

from longmemeval.evaluation.statistics.misclassification import KnownRate, corrected_accuracy, corrected_difference
from longmemeval.evaluation.statistics.spread import wilson_interval

TRIALS = 2000


def known(mean: float, n: int) -> KnownRate:
    return KnownRate(mean, n, 0.0, labels=True)


def test_known_answer() -> None:
    # 0.7 = a * 0.9 + (1 - a) * 0.2, so a = 0.5 / 0.7.
    found = corrected_accuracy(0.7, 1000, wilson_interval(700, 1000), known(0.9, 1000), known(0.2, 1000))
    assert found is not None
    assert found.value == pytest.approx(0.5 / 0.7)
    low, high = found.interval
    assert 0.65 < low < found.value < high < 0.78


def test_a_judge_that_never_errs_changes_nothing_but_the_width() -> None:
    plain = wilson_interval(60, 100)
    found = corrected_accuracy(0.6, 100, plain, known(1.0, 500), known(0.0, 500))
    assert found is not None
    assert found.value == 0.6
    assert found.interval == pytest.approx(plain, abs=0.02)


@pytest.mark.parametrize(("right", "wrong"), [(0.5, 0.5), (0.5, 0.45), (0.3, 0.8), (1.0, 1.0), (0.0, 0.0)])
def test_rates_that_leave_nothing_give_nothing(right: float, wrong: float) -> None:
    assert corrected_accuracy(0.5, 100, wilson_interval(50, 100), known(right, 60), known(wrong, 60)) is None
    assert corrected_difference(0.1, (0.0, 0.2), known(right, 60), known(wrong, 60)) is None


def test_what_is_corrected_stays_between_none_and_all() -> None:
    found = corrected_accuracy(0.16, 50, wilson_interval(8, 50), known(0.9, 100), known(0.2, 100))
    assert found is not None
    assert found.value == 0.0
    assert found.interval[0] == 0.0 < found.interval[1] < 0.25


def test_a_score_below_what_wrong_answers_get_has_none() -> None:
    assert corrected_accuracy(0.02, 50, wilson_interval(1, 50), known(0.9, 100), known(0.2, 100)) is None


def test_a_difference_grows_and_so_does_its_interval() -> None:
    found = corrected_difference(0.10, (0.02, 0.18), known(0.8, 10_000), known(0.3, 10_000))
    assert found is not None
    assert found.value == pytest.approx(0.2, abs=0.001)
    assert found.interval == pytest.approx((0.04, 0.36), abs=0.005)


def test_few_plants_make_a_difference_uncertain() -> None:
    many = corrected_difference(0.3, (0.2, 0.4), known(0.8, 10_000), known(0.3, 10_000))
    few = corrected_difference(0.3, (0.2, 0.4), known(0.8, 40), known(0.3, 40))
    assert many is not None
    assert few is not None
    assert few.interval[1] - few.interval[0] > 1.1 * (many.interval[1] - many.interval[0]) or few.interval[1] == 1.0


@pytest.mark.parametrize(
    ("truth", "right", "wrong", "n", "plants"),
    [(0.6, 0.95, 0.1, 200, 300), (0.6, 0.8, 0.4, 200, 300), (0.9, 0.95, 0.3, 100, 100), (0.3, 0.9, 0.05, 500, 1000)],
)
def test_the_interval_covers_the_truth(truth: float, right: float, wrong: float, n: int, plants: int) -> None:
    """At least 94 of 100 times: of the corrected accuracy, and of both rates. Seeded, so that it is always the same."""
    random = np.random.default_rng(14)
    covered = np.zeros(3)
    for _ in range(TRIALS):
        passed = int(random.binomial(n, truth * right + (1 - truth) * wrong))
        rights, wrongs = (int(random.binomial(plants, rate)) for rate in (right, wrong))
        found = corrected_accuracy(
            passed / n, n, wilson_interval(passed, n), known(rights / plants, plants), known(wrongs / plants, plants)
        )
        assert found is not None
        intervals = (found.interval, wilson_interval(rights, plants), wilson_interval(wrongs, plants))
        covered += [low <= what <= high for what, (low, high) in zip((truth, right, wrong), intervals, strict=True)]
    assert min(covered / TRIALS) >= 0.94


def test_questions_that_share_haystacks_count_less() -> None:
    alone = corrected_accuracy(0.6, 200, wilson_interval(120, 200), known(0.9, 500), known(0.1, 500))
    shared = corrected_accuracy(0.6, 200, (0.45, 0.75), known(0.9, 500), known(0.1, 500))
    assert alone is not None
    assert shared is not None
    assert shared.interval[1] - shared.interval[0] > 1.5 * (alone.interval[1] - alone.interval[0])
