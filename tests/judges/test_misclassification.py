"""Scores corrected for a judge's errors: known answers, and the truth is inside the interval as often as it says."""

from functools import lru_cache

import numpy as np
import pytest
from numpy.typing import NDArray

from longmemeval.statistics import misclassification
from longmemeval.statistics.intervals import wilson_interval
from longmemeval.statistics.misclassification import (
    Corrected,
    MeasuredRates,
    NotCorrectable,
    PlantCredit,
    corrected_accuracy,
    corrected_difference,
)

TRIALS = 600
RIGHT, WRONG = 2, 3
"""Plants of each question in a simulation."""


def measured(right: float, wrong: float, n: int) -> MeasuredRates:
    """Rates of so many plants of each kind, one of a question."""
    credits = [PlantCredit(f"r{place}", True, float(place < round(right * n))) for place in range(n)]
    return MeasuredRates([*credits, *(PlantCredit(f"w{i}", False, float(i < round(wrong * n))) for i in range(n))])


def given(found: Corrected | NotCorrectable) -> Corrected:
    assert isinstance(found, Corrected), found
    low, high = found.interval
    assert low <= found.value <= high
    return found


def width(found: Corrected | NotCorrectable) -> float:
    low, high = given(found).interval
    return high - low


def test_known_answer() -> None:
    # 0.7 = a * 0.9 + (1 - a) * 0.2, so a = 0.5 / 0.7.
    found = given(corrected_accuracy(0.7, 1000, wilson_interval(700, 1000), measured(0.9, 0.2, 1000)))
    assert found.value == pytest.approx(0.5 / 0.7)
    assert 0.65 < found.interval[0] < found.interval[1] < 0.78


def test_what_was_not_evaluated_was_not_failed_by_the_judge() -> None:
    """Of 1,000 questions 600 have a label; half of these are right: 300. The judge sees .9 of 300 and .2 of 300."""
    score, rates = 0.27 + 0.06, measured(0.9, 0.2, 1000)
    found = given(corrected_accuracy(score, 1000, wilson_interval(330, 1000), rates, not_evaluated=400))
    assert found.value == pytest.approx(0.3)
    assert corrected_accuracy(0.0, 50, wilson_interval(0, 50), rates, not_evaluated=50) == NotCorrectable(
        "no question was evaluated"
    )
    # The other run has labels everywhere: of its truth .5 the same judge makes .55.
    assert given(corrected_difference(0.55 - score, (0.17, 0.27), rates, evaluated=0.4)).value == pytest.approx(0.2)


@pytest.mark.parametrize("not_evaluated", [0, 40])
def test_a_judge_that_never_errs_changes_nothing_but_the_width(not_evaluated: int) -> None:
    plain = wilson_interval(60, 100)
    found = given(corrected_accuracy(0.6, 100, plain, measured(1.0, 0.0, 500), not_evaluated=not_evaluated))
    assert found.value == pytest.approx(0.6)
    assert found.interval == pytest.approx(plain, abs=0.02)


@pytest.mark.parametrize(("right", "wrong"), [(0.5, 0.5), (0.5, 0.45), (0.3, 0.8), (1.0, 1.0), (0.0, 0.0)])
def test_rates_that_leave_nothing_give_the_reason(right: float, wrong: float) -> None:
    rates = measured(right, wrong, 60)
    found = corrected_accuracy(0.5, 100, wilson_interval(50, 100), rates)
    assert isinstance(found, NotCorrectable)
    assert found.reason == "the test answers do not show that this judge tells correct from incorrect answers"
    assert corrected_difference(0.1, (0.0, 0.2), rates) == found


def test_few_plants_show_nothing() -> None:
    assert not measured(1.0, 0.0, 1).unlike
    assert measured(1.0, 0.0, 10).unlike
    with pytest.raises(ValueError, match="right and wrong"):
        MeasuredRates([PlantCredit("q", True, 1.0)])


def test_what_is_corrected_stays_between_none_and_all_and_inside_its_interval() -> None:
    """Of any score, also where the rates put the value at an end."""
    rates = measured(0.9, 0.2, 100)
    for right in range(51):
        found = corrected_accuracy(right / 50, 50, wilson_interval(right, 50), rates)
        if isinstance(found, Corrected):
            low, high = found.interval
            assert 0.0 <= low <= found.value <= high <= 1.0
        else:
            assert not 5 < right < 48, found
    found = given(corrected_accuracy(0.16, 50, wilson_interval(8, 50), rates))
    assert (found.value, found.interval[0]) == (0.0, 0.0)
    for place in range(-20, 21):
        low, high = given(corrected_difference(place / 20, (place / 20 - 0.1, place / 20 + 0.1), rates)).interval
        assert -1.0 <= low <= high <= 1.0


def test_a_score_below_what_wrong_answers_get_has_none() -> None:
    found = corrected_accuracy(0.02, 50, wilson_interval(1, 50), measured(0.9, 0.2, 100))
    assert found == NotCorrectable("the score is below what this judge gives wrong answers alone")
    found = corrected_accuracy(0.98, 500, wilson_interval(490, 500), measured(0.6, 0.1, 200))
    assert found == NotCorrectable("the score is above what this judge gives right answers alone")


@pytest.mark.slow
def test_a_difference_grows_and_so_does_its_interval() -> None:
    found = given(corrected_difference(0.10, (0.02, 0.18), measured(0.8, 0.3, 10_000)))
    assert found.value == pytest.approx(0.2, abs=0.001)
    assert found.interval == pytest.approx((0.04, 0.36), abs=0.005)


@pytest.mark.slow
def test_few_plants_make_a_difference_uncertain() -> None:
    many = corrected_difference(0.3, (0.2, 0.4), measured(0.8, 0.3, 10_000))
    few = corrected_difference(0.3, (0.2, 0.4), measured(0.8, 0.3, 40))
    assert width(few) > 1.1 * width(many) or given(few).interval[1] == 1.0


def simulated(
    random: np.random.Generator, questions: int, right: float, wrong: float, together: float
) -> MeasuredRates:
    """Plants of so many questions; for a share `together` of these, all right plants fail or pass at once, and all
    wrong ones pass where the right ones are likely to fail."""
    luck = random.random((questions, 1))
    alike = random.random((questions, 1)) < together
    passes = [
        (np.where(alike, shared, random.random((questions, count))) < rate).sum(axis=1).tolist()
        for rate, count, shared in ((right, RIGHT, luck), (wrong, WRONG, 1 - luck))
    ]
    return _rates_of(tuple(sorted(zip(*passes, strict=True))))


@lru_cache(maxsize=TRIALS)
def _rates_of(passed: tuple[tuple[int, int], ...]) -> MeasuredRates:
    """Rates of questions with so many right and wrong plants that pass: which question is which changes nothing, and
    of few or like questions many trials have the same."""
    return MeasuredRates(
        [
            PlantCredit(f"q{place}", is_right, float(plant < passing))
            for place, of in enumerate(passed)
            for is_right, count, passing in ((True, RIGHT, of[0]), (False, WRONG, of[1]))
            for plant in range(count)
        ]
    )


@pytest.mark.slow
@pytest.mark.variants
@pytest.mark.parametrize(
    ("accuracy", "evaluated", "right", "wrong", "n", "questions", "together"),
    [
        # Plants that fail together, of rates near the ends: an interval that forgets either is far too narrow.
        (0.05, 1.0, 0.98, 0.03, 500, 60, 1.0),
        (0.6, 1.0, 0.95, 0.1, 200, 150, 0.0),
        # A truth of 30 with labels for 60 %.
        (0.5, 0.6, 0.95, 0.1, 200, 60, 0.0),
        (0.5, 0.6, 0.9, 0.2, 500, 60, 1.0),  # And plants that fail together.
        (0.6, 1.0, 0.97, 0.02, 500, 40, 1.0),
        (0.9, 1.0, 0.95, 0.3, 100, 50, 1.0),
        (0.5, 0.6, 1.0, 0.0, 200, 60, 0.0),  # Perfect rates.
        (0.6, 1.0, 0.95, 0.1, 200, 12, 0.0),  # Few plants.
        (0.6, 1.0, 0.95, 0.1, 200, 12, 1.0),
    ],
)
def test_the_interval_covers_the_truth(
    accuracy: float, evaluated: float, right: float, wrong: float, n: int, questions: int, together: float
) -> None:
    """At least 94 of 100 times, give or take what so few trials may be off. Seeded, so that it is always the same."""
    random = np.random.default_rng(14)
    covered = made = 0
    for _ in range(TRIALS):
        labelled = int(random.binomial(n, evaluated))
        true = int(random.binomial(labelled, accuracy))
        passed = int(random.binomial(true, right) + random.binomial(labelled - true, wrong))
        rates = simulated(random, questions, right, wrong, together)
        interval = wilson_interval(passed, n)
        found = corrected_accuracy(passed / n, n, interval, rates, not_evaluated=n - labelled)
        if isinstance(found, Corrected):
            made += 1
            covered += found.interval[0] <= accuracy * evaluated <= found.interval[1]
    assert made > 0.9 * TRIALS
    assert covered / made >= 0.935


@pytest.mark.thorough
@pytest.mark.slow
def test_scores_in_between_are_covered_too() -> None:
    """Credits, not labels: right answers get .4 to 1, wrong ones 0 to .4; 40% have none."""
    random = np.random.default_rng(14)
    covered, n, questions = 0, 200, 60
    for _ in range(TRIALS // 2):
        plants = [
            PlantCredit(f"q{place}", is_right, float(random.uniform(*ends)))
            for place in range(questions)
            for is_right, ends in ((True, (0.4, 1.0)), (False, (0.0, 0.4)))
        ]
        credits = np.where(random.random(n) < 0.5, random.uniform(0.4, 1.0, n), random.uniform(0.0, 0.4, n))
        credits[random.random(n) < 0.4] = np.nan
        mean, spread = float(np.nan_to_num(credits).mean()), float(np.nan_to_num(credits).std() / n**0.5)
        interval = mean - 1.96 * spread, mean + 1.96 * spread
        missing = int(np.isnan(credits).sum())
        found = corrected_accuracy(mean, n, interval, MeasuredRates(plants), not_evaluated=missing, labels=False)
        low, high = given(found).interval
        covered += low <= 0.3 <= high
    assert covered / (TRIALS // 2) >= 0.935


@pytest.mark.thorough
@pytest.mark.slow
def test_a_difference_is_covered_where_labels_are_missing() -> None:
    random = np.random.default_rng(14)
    covered, n = 0, 400
    for _ in range(TRIALS):
        credits = np.zeros((2, n))
        evaluated = [random.random(n) < share for share in (1.0, 0.6)]
        for row, labelled in enumerate(evaluated):
            credits[row] = (random.random(n) < np.where(random.random(n) < 0.6, 0.9, 0.2)) & labelled
        apart = credits[0] - credits[1]
        mean, spread = float(apart.mean()), float(apart.std() / n**0.5)
        shares = float(evaluated[0].mean() - evaluated[1].mean())
        interval = mean - 1.96 * spread, mean + 1.96 * spread
        found = corrected_difference(mean, interval, simulated(random, 60, 0.9, 0.2, 1.0), evaluated=shares)
        low, high = given(found).interval
        covered += low <= 0.6 - 0.6 * 0.6 <= high
    assert covered / TRIALS >= 0.935


def test_plants_that_fail_together_count_less() -> None:
    """Ten questions of which one passes all ten wrong plants, or a hundred questions with one each."""
    together = [PlantCredit(f"q{place}", False, float(place == 0)) for place in range(10) for _ in range(10)]
    apart = [PlantCredit(f"q{place}", False, float(place < 10)) for place in range(100)]
    right = [PlantCredit(f"r{place}", True, 1.0) for place in range(100)]
    found = [
        corrected_accuracy(0.6, 500, wilson_interval(300, 500), MeasuredRates([*right, *wrong]))
        for wrong in (together, apart)
    ]
    assert width(found[0]) > 1.4 * width(found[1])


def test_questions_that_share_haystacks_count_less() -> None:
    rates = measured(0.9, 0.1, 500)
    alone = corrected_accuracy(0.6, 200, wilson_interval(120, 200), rates)
    assert width(corrected_accuracy(0.6, 200, (0.45, 0.75), rates)) > 1.5 * width(alone)


def test_the_order_of_plants_changes_nothing() -> None:
    plants = [PlantCredit(f"q{place % 7}", place % 2 == 0, place % 3 / 2) for place in range(60)]
    first, second = ([draws.tolist() for draws in MeasuredRates(some).draws] for some in (plants, plants[::-1]))
    assert first == second


def test_rates_are_drawn_once_for_many_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawing them takes seconds where thousands of questions have plants; a score takes a millisecond."""
    rates, asked = measured(0.9, 0.2, 30), list[int]()
    weights = misclassification._weights

    def counted(generator: np.random.Generator, counts: NDArray[np.int64], rows: int) -> NDArray[np.float64]:
        asked.append(rows)
        return weights(generator, counts, rows)

    monkeypatch.setattr(misclassification, "_weights", counted)
    for right in range(3):
        given(corrected_accuracy(0.6 + right / 10, 100, wilson_interval(60 + right, 100), rates))
    assert sum(asked) == misclassification.DRAWS
