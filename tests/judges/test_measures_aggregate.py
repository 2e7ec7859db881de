import random

import pytest

from longmemeval.measures import Measure, mrr, ndcg, precision, recall, recall_all, recall_any
from longmemeval.measures.notation import (
    DEFAULT_INTERVALS,
    IntervalOptions,
    Mean,
    QuestionValues,
    aggregate,
)
from longmemeval.statistics.intervals import wilson_interval
from tests.support import IN_PROPORTION, growth


def question(number: int, value: float | None, *, haystack: str = "", kind: str = "multi-session") -> QuestionValues:
    values = {"recall@5": value, "recall_any@5": None if value is None else float(value > 0)}
    return QuestionValues(f"q{number:04}", kind, haystack or f"h{number:04}", values)


def mean_of(questions: list[QuestionValues], measure: Measure, intervals: IntervalOptions = DEFAULT_INTERVALS) -> Mean:
    return aggregate(questions, [measure], "a rule", intervals=intervals).measures[str(measure)]


def test_mean_denominator_and_undefined_are_told() -> None:
    questions = [question(1, 1.0), question(2, 0.5), question(3, None), question(4, 0.0)]
    summary = aggregate(questions, [recall @ 5], "no abstention, user evidence")
    assert summary.denominator == "4 questions: no abstention, user evidence"
    result = summary.measures["recall@5"]
    assert (result.mean, result.n, result.undefined) == (0.5, 3, 1)


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0 questions: x"), (1, "1 question: x"), (1986, "1,986 questions: x")]
)
def test_denominator_in_words(number: int, text: str) -> None:
    assert aggregate([question(one, 1.0) for one in range(number)], [], "x").denominator == text


@pytest.mark.parametrize("questions", [[], [question(1, None), question(2, None)]])
def test_without_values_there_is_no_mean(questions: list[QuestionValues]) -> None:
    assert mean_of(questions, recall @ 5) == Mean(None, 0, len(questions), None, None)


def test_types_come_in_the_order_given_and_add_up() -> None:
    kinds = ["temporal-reasoning", "own", "single-session-user", "another"]
    questions = [question(one, one / 8, kind=kinds[one % 4]) for one in range(8)]
    order = ("single-session-user", "temporal-reasoning")
    by_type = aggregate(questions, [recall @ 5], "x", type_order=order).by_type
    assert list(by_type) == ["single-session-user", "temporal-reasoning", "another", "own"]
    assert by_type["own"]["recall@5"].mean == (1 / 8 + 5 / 8) / 2
    assert sum(means["recall@5"].n for means in by_type.values()) == 8


def test_an_order_of_types_can_be_asked_for() -> None:
    questions = [question(one, 1.0, kind=str(one)) for one in range(1, 6)]
    assert list(aggregate(questions, [], "x", type_order=["4", "1", "2", "3", "5"]).by_type) == [
        "4",
        "1",
        "2",
        "3",
        "5",
    ]


def test_proportions_have_wilsons_interval() -> None:
    result = mean_of([question(one, float(one < 7)) for one in range(10)], recall_any @ 5)
    assert (result.mean, result.method) == (0.7, "wilson")
    assert result.interval == wilson_interval(7, 10)
    wide = mean_of(
        [question(one, float(one < 7)) for one in range(10)], recall_any @ 5, IntervalOptions(confidence=0.99)
    )
    assert wide.interval == wilson_interval(7, 10, 0.99)


def test_other_measures_are_bootstrapped() -> None:
    # 100 values, half 0.2 and half 0.8: the mean is 0.5 with standard error 0.3/sqrt(100) = 0.03.
    result = mean_of(
        [question(one, 0.2 if one % 2 else 0.8) for one in range(100)], recall @ 5, IntervalOptions(resamples=4000)
    )
    assert result.method == "bootstrap"
    assert result.interval == pytest.approx((0.5 - 1.96 * 0.03, 0.5 + 1.96 * 0.03), abs=0.008)


def test_less_confidence_narrows_the_bootstrap() -> None:
    questions = [question(one, one / 50) for one in range(50)]
    wide, narrow = (
        mean_of(questions, recall @ 5).interval,
        mean_of(questions, recall @ 5, IntervalOptions(confidence=0.5)).interval,
    )
    assert wide is not None
    assert narrow is not None
    assert wide[0] < narrow[0] < narrow[1] < wide[1]


@pytest.mark.parametrize("measure", [recall @ 5, recall_any @ 5])
def test_shared_haystacks_are_resampled_whole(measure: Measure) -> None:
    # Ten conversations whose 40 questions all fare alike: ten observations, not 400. Half are 0, half are 1, so the
    # standard error is 0.5/sqrt(10) = 0.158; question by question it would be 0.025.
    questions = [question(one, float(one % 10 < 5), haystack=f"h{one % 10}") for one in range(400)]
    result = mean_of(questions, measure)
    assert result.method == "bootstrap over haystacks"
    assert result.interval is not None
    low, high = result.interval
    assert low == pytest.approx(0.2, abs=0.11)
    assert high == pytest.approx(0.8, abs=0.11)


def test_haystacks_of_different_size_keep_their_weight() -> None:
    # Two haystacks, 9 questions at 1 and 1 question at 0: a draw is (9+9)/18, (9+0)/10 or (0+0)/2.
    questions = [question(one, 1.0, haystack="big") for one in range(9)] + [question(9, 0.0, haystack="small")]
    result = mean_of(questions, recall @ 5)
    assert (result.mean, result.interval) == (0.9, (0.0, 1.0))
    median = mean_of(questions, recall @ 5, IntervalOptions(confidence=1e-9)).interval
    assert median == pytest.approx((0.9, 0.9))


def test_questions_of_one_haystack_are_resampled_one_by_one() -> None:
    result = mean_of([question(one, one / 20, haystack="only") for one in range(20)], recall @ 5)
    assert result.method == "bootstrap"
    assert result.interval is not None
    assert result.interval[0] < 0.475 < result.interval[1]


def test_a_perfect_proportion_is_not_certain() -> None:
    questions = [question(one, 1.0, haystack=f"h{one % 3}") for one in range(12)]
    result = mean_of(questions, recall_any @ 5)
    assert (result.interval, result.method) == (wilson_interval(12, 12), "wilson")


def test_one_value_says_nothing_of_its_spread() -> None:
    assert mean_of([question(1, 0.4), question(2, None)], recall @ 5) == Mean(0.4, 1, 1, None, None)


def test_same_input_same_result_in_any_order() -> None:
    source = random.Random(1)
    questions = [question(one, source.random(), haystack=f"h{one % 7}") for one in range(60)]
    shuffled = source.sample(questions, len(questions))
    assert aggregate(shuffled, [recall @ 5], "x") == aggregate(questions, [recall @ 5], "x")


def test_the_seed_decides_what_is_drawn() -> None:
    questions = [question(one, random.Random(one).random()) for one in range(60)]
    first, again, other = (mean_of(questions, recall @ 5, IntervalOptions(seed=seed)) for seed in (1, 1, 2))
    assert first == again
    assert first.interval != other.interval


def test_a_measure_does_not_depend_on_its_neighbours() -> None:
    questions = [question(one, random.Random(one).random()) for one in range(60)]
    both = aggregate(questions, [recall_any @ 5, recall @ 5], "x")
    assert both.measures["recall@5"] == mean_of(questions, recall @ 5)


@pytest.mark.thorough
@pytest.mark.parametrize("haystacks", [10, 1986])
def test_a_whole_benchmark_is_averaged_fast(haystacks: int) -> None:
    source = random.Random(0)
    measures = [recall @ 5, recall @ 10, precision @ 5, ndcg @ 5, ndcg @ 10, mrr, recall_any @ 5, recall_all @ 5]
    questions = [
        QuestionValues(
            f"q{number}",
            str(number % 5),
            f"h{number % haystacks}",
            {str(measure): float(source.random() < 0.5) for measure in measures},
        )
        for number in range(1984)
    ]
    assert growth(lambda size: aggregate(questions[:size], measures, "x"), 496) < IN_PROPORTION
