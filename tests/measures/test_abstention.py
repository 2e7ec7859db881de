import math
import random

import msgspec
import pytest

from longmemeval.measures.abstention import (
    Abstaining,
    Calibration,
    ScoreBin,
    abstaining,
    by_other_rules,
    calibrate,
    method,
)
from longmemeval.records import Gold
from longmemeval.statistics.intervals import wilson_interval

REFUSAL = "I don't know; that was never mentioned."
Scores = dict[str, float | None]
Labels = dict[str, bool | None]

METHOD = method()


def gold(question_id: str) -> Gold:
    return Gold(question_id, "multi-session", "an answer", (), (), question_id.endswith("_abs"))


GOLDS = [gold(one) for one in ("a", "b", "c", "d_abs", "e_abs", "f_abs", "g_abs")]


def without_intervals(found: Abstaining | None) -> Abstaining | None:
    return found and msgspec.structs.replace(found, precision_interval=None, recall_interval=None)


@pytest.mark.parametrize(
    ("refused", "expected"),
    [
        # Right on two of three: precision 2/3, recall 2/4, F1 = 2 x 2 / (3 + 4).
        (["a", "d_abs", "e_abs"], Abstaining(3, 4, 2, 2 / 3, 0.5, 4 / 7, METHOD)),
        ([], Abstaining(0, 4, 0, None, 0.0, 0.0, METHOD)),
        (["a", "b"], Abstaining(2, 4, 0, 0.0, 0.0, 0.0, METHOD)),
        (["d_abs", "e_abs", "f_abs", "g_abs"], Abstaining(4, 4, 4, 1.0, 1.0, 1.0, METHOD)),
    ],
)
def test_abstaining_by_hand(refused: list[str], expected: Abstaining) -> None:
    hypotheses = {one.question_id: REFUSAL if one.question_id in refused else "In May." for one in GOLDS}
    assert without_intervals(abstaining(GOLDS, hypotheses)) == expected


def test_who_gives_no_answer_does_not_abstain() -> None:
    result = abstaining(GOLDS, {"d_abs": REFUSAL, "e_abs": "", "of-another-run": REFUSAL})
    assert result is not None
    assert (result.abstained, result.right, result.unanswerable) == (1, 1, 4)


def test_without_unanswerable_questions() -> None:
    golds = [gold("a"), gold("b")]
    assert abstaining(golds, {"a": "In May.", "b": "Rome"}) is None
    found = abstaining(golds, {"a": "In May.", "b": REFUSAL})
    assert without_intervals(found) == Abstaining(1, 0, 0, 0.0, None, None, METHOD)
    assert found is not None
    assert found.recall_interval is None
    assert abstaining([], {}) is None


def test_figures_of_other_rules_are_not_compared() -> None:
    new = Abstaining(3, 4, 2, 2 / 3, 0.5, 4 / 7, METHOD)
    old = msgspec.structs.replace(new, abstained=4, method="offline-lexical-00000000")
    assert by_other_rules(old, new)
    assert not by_other_rules(msgspec.structs.replace(new, abstained=4), new)
    # Missing figures are the rules' doing only where nothing is unanswerable.
    assert not by_other_rules(None, new)
    none_unanswerable = msgspec.structs.replace(new, unanswerable=0)
    assert by_other_rules(None, none_unanswerable)
    assert by_other_rules(msgspec.structs.replace(none_unanswerable, method="offline-lexical-00000000"), None)
    assert not by_other_rules(none_unanswerable, None)
    assert not by_other_rules(None, None)


def test_precision_and_recall_have_intervals() -> None:
    found = abstaining(GOLDS, {"a": REFUSAL, "d_abs": REFUSAL, "e_abs": REFUSAL})
    assert found is not None
    assert found.precision_interval == wilson_interval(2, 3)
    assert found.recall_interval == wilson_interval(2, 4)
    # Two haystacks, in one of which all unanswerable questions are refused and in the other none.
    halves = dict.fromkeys(("a", "b", "c", "d_abs", "e_abs"), "one") | dict.fromkeys(("f_abs", "g_abs"), "two")
    shared = abstaining(GOLDS, {"a": REFUSAL, "d_abs": REFUSAL, "e_abs": REFUSAL}, halves)
    assert shared is not None
    assert shared.recall_interval == (0.0, 1.0)
    # All that abstain are of one haystack: they count one by one.
    assert shared.precision_interval == wilson_interval(2, 3)


def test_scores_are_averaged_where_the_judge_gives_scores() -> None:
    flags = {"x": True, "y": True, "k": False, "l": False, "m": False, "n": False}
    scores: Scores = {"x": 0.1, "y": 0.1, "k": 0.9, "l": 0.9, "m": 0.9, "n": 0.9}
    # No answer has full credit: the mean is what counts, of answers that decline too.
    given = {"x": 0.5, "y": 0.5, "k": 0.25, "l": 0.25, "m": 0.25, "n": 0.25}
    result = calibrate(scores, flags, given, {"x"})
    held_out = result.held_out
    assert held_out is not None
    assert (held_out.accuracy, held_out.judged_accuracy) == pytest.approx((1 / 3, 1 / 3))
    assert [one.accuracy for one in result.curve] == [0.5, 0.5, 0.25, 0.25, 0.25, 0.25]


def test_declining_earns_what_this_judge_gave_it() -> None:
    """Scores find all that are unanswerable: what that is worth is the judge's to say."""
    flags = questions(8, 4)
    scores: Scores = {one: 0.1 if flag else 0.9 for one, flag in flags.items()}
    for given, expected in ((1.0, 1.0), (0.5, 0.5), (0.0, 0.0)):
        credits = dict.fromkeys(flags, 0.0) | {"q000": given, "q001": given}
        held_out = calibrate(scores, flags, credits, {"q000", "q001"}).held_out
        assert held_out is not None
        tried = held_out.abstaining.unanswerable
        assert (held_out.declining, held_out.pays) == (given, given > 0)
        assert held_out.accuracy == pytest.approx(expected * tried / held_out.n)
    # A lenient judge that gives declining an answerable question something is taken at its word.
    credits = dict.fromkeys(flags, 0.0) | {"q000": 1.0, "q007": 0.5}
    every = calibrate(dict.fromkeys(flags, 0.1), flags, credits, {"q000", "q007"}).held_out
    assert every is not None
    assert every.accuracy == pytest.approx((2 * 1.0 + 2 * 0.5) / 4)


def test_what_a_judge_gives_declining_is_unknown_where_nothing_declined() -> None:
    flags = questions(8, 4)
    scores: Scores = {one: 0.1 if flag else 0.9 for one, flag in flags.items()}
    # An answer that declined and was not judged tells nothing either.
    for declined in (set[str](), {"q007"}, {"q000"}):
        held_out = calibrate(scores, flags, dict.fromkeys(flags), declined).held_out
        assert held_out is not None
        assert (held_out.accuracy, held_out.declining, held_out.pays) == (None, None, True)


def test_a_threshold_that_lowers_the_score_is_known_to() -> None:
    flags = questions(16, 4)
    credits = dict.fromkeys(flags, 1.0)
    telling: Scores = {one: 0.1 if flag else 0.9 for one, flag in flags.items()}
    for scores, costs in ((telling, False), (dict.fromkeys(flags, 0.5), True)):
        held_out = calibrate(scores, flags, credits, {"q000", "q001"}).held_out
        assert held_out is not None
        assert held_out.accuracy is not None
        assert held_out.costs == (held_out.accuracy < held_out.judged_accuracy) == costs


def questions(n: int, unanswerable: int) -> dict[str, bool]:
    return {f"q{number:03}": number < unanswerable for number in range(n)}


def test_scores_that_tell_all_are_found_out() -> None:
    # Unanswerable questions score below 0.3, others above 0.6 and are judged right every other time.
    flags = questions(80, 20)
    scores: Scores = {
        one: 0.1 + number / 100 if flag else 0.6 + number / 1000 for number, (one, flag) in enumerate(flags.items())
    }
    labels: Labels = {one: not flag and int(one[1:]) % 2 == 0 for one, flag in flags.items()}
    labels |= {"q000": True, "q001": True}
    result = calibrate(scores, flags, labels, {"q000", "q001"})
    assert result.threshold is not None
    assert 0.29 < result.threshold < 0.62
    held_out = result.held_out
    assert held_out is not None
    assert (result.chosen_on, held_out.n, result.unscored) == (40, 40, 0)
    assert held_out.abstaining == Abstaining(10, 10, 10, 1.0, 1.0, 1.0, "best recall score below the threshold")
    # All ten unanswerable questions come right; the answerable ones keep what they had.
    assert held_out.accuracy == pytest.approx(30 / 2 / 40 + 10 / 40)


def f1_below(threshold: float, ids: list[str], scores: Scores, flags: dict[str, bool]) -> float:
    below = [one for one in ids if (scores[one] or 0) < threshold]
    return 2 * sum(flags[one] for one in below) / (len(below) + sum(flags[one] for one in ids))


def test_the_threshold_is_the_best_of_one_half_and_is_tried_on_the_other() -> None:
    source = random.Random(2)
    flags = questions(61, 23)
    scores: Scores = {one: round(source.gauss(0.4 if flag else 0.6, 0.15), 2) for one, flag in flags.items()}
    # A label moves the accuracy as judged of the half it is tried on, and of that only: this tells the halves apart.
    tried = [one for one in flags if (held := calibrate(scores, flags, {one: True}).held_out) and held.judged_accuracy]
    chosen = [one for one in flags if one not in tried]
    assert (len(chosen), sum(flags[one] for one in chosen)) == (31, 12)
    result = calibrate(scores, flags, {})
    assert result.threshold is not None
    assert result.held_out is not None
    best = max(f1_below(number / 1000, chosen, scores, flags) for number in range(-500, 1500))
    assert f1_below(result.threshold, chosen, scores, flags) == best
    assert result.held_out.abstaining.f1 == f1_below(result.threshold, tried, scores, flags)
    # What is tried may be anything: it has no part in the choice.
    shuffled = scores | {one: source.random() for one in tried}
    assert calibrate(shuffled, flags, {}).threshold == result.threshold


def test_accuracy_with_the_threshold_by_hand() -> None:
    # One of each kind in each half, and every question of a kind alike, so either half gives the same.
    flags = {"x": True, "y": True, "k": False, "l": False, "m": False, "n": False}
    scores: Scores = {"x": 0.1, "y": 0.1, "k": 0.1, "l": 0.1, "m": 0.1, "n": 0.1}
    labels: Labels = {"x": True, "y": True, "k": True, "l": True, "m": True, "n": True}
    result = calibrate(scores, flags, labels, {"x", "y"})
    held_out = result.held_out
    assert held_out is not None
    # Equal scores: all or nothing. All: 1 right of 3, F1 = 2/(3+1); and both answerable ones are lost.
    assert held_out.abstaining == Abstaining(3, 1, 1, 1 / 3, 1.0, 0.5, "best recall score below the threshold")
    assert (held_out.accuracy, held_out.judged_accuracy) == (1 / 3, 1.0)


def test_questions_without_a_score_keep_their_label() -> None:
    flags = {"x": True, "y": True, "k": False, "l": False}
    labels: Labels = {"x": True, "y": True, "k": True, "l": True}
    result = calibrate({"x": 0.1, "y": 0.1, "k": None}, flags, labels, {"x"})
    held_out = result.held_out
    assert held_out is not None
    assert (result.unscored, sum(one.n for one in result.curve)) == (2, 2)
    assert (held_out.abstaining.abstained, held_out.accuracy) == (1, 1.0)


@pytest.mark.parametrize(
    ("scores", "flags"),
    [({}, {}), ({"a": 0.5, "b": 0.6}, {"a": False, "b": False}), ({"k": 0.4}, {"x": True, "y": True, "k": False})],
)
def test_no_threshold_without_scored_unanswerable_questions(scores: Scores, flags: dict[str, bool]) -> None:
    result = calibrate(scores, flags, {})
    assert (result.threshold, result.held_out) == (None, None)
    assert len(result.curve) == len(scores)


@pytest.mark.parametrize("score", [0.0, -1.5, 0.1, 1e300])
def test_a_threshold_is_above_the_scores_it_abstains_on(score: float) -> None:
    # Neighbouring floats leave no room for a midpoint.
    above = math.nextafter(score, math.inf)
    flags = {"x": True, "y": True, "k": False, "l": False}
    result = calibrate({"x": score, "y": score, "k": above, "l": above}, flags, {})
    assert result.held_out is not None
    assert result.held_out.abstaining.f1 == 1.0


def test_the_curve_by_hand() -> None:
    # 25 questions in ten bins of two or three; the lowest five are unanswerable, the upper half is judged right.
    flags = questions(25, 5)
    scores: Scores = {one: int(one[1:]) / 25 for one in flags}
    labels: Labels = {one: int(one[1:]) >= 12 for one in flags}
    curve = calibrate(scores, flags, labels).curve
    assert [one.n for one in curve] == [2, 3, 2, 3, 2, 3, 2, 3, 2, 3]
    assert curve[0] == ScoreBin(0.0, 1 / 25, 2, 0.0, 0.0)
    assert curve[1] == ScoreBin(2 / 25, 4 / 25, 3, 0.0, 0.0)
    assert curve[5] == ScoreBin(12 / 25, 14 / 25, 3, 1.0, 1.0)


def test_the_order_does_not_matter_and_the_seed_does() -> None:
    source = random.Random(4)
    flags = questions(60, 20)
    scores: Scores = {one: source.random() for one in flags}
    labels: Labels = {one: source.random() < 0.5 for one in flags}
    first = calibrate(scores, flags, labels)
    assert calibrate(dict(reversed(scores.items())), dict(reversed(flags.items())), labels) == first
    assert len({calibrate(scores, flags, labels, seed=seed).threshold for seed in range(8)}) > 1
    assert msgspec.json.decode(msgspec.json.encode(first), type=Calibration) == first
