import numpy as np
import pytest

from longmemeval.statistics.paired import Concordance, agreement, kappa_interval

Labels = dict[str, bool | None]


def labels(prefix: str, both: int, a_only: int, b_only: int, neither: int) -> tuple[Labels, Labels]:
    pairs = [(True, True)] * both + [(True, False)] * a_only + [(False, True)] * b_only + [(False, False)] * neither
    ids = [f"{prefix}{number:03}" for number in range(len(pairs))]
    return dict(zip(ids, (a for a, _ in pairs), strict=True)), dict(zip(ids, (b for _, b in pairs), strict=True))


@pytest.mark.parametrize(
    ("counts", "agreed", "kappa"),
    [
        # Observed 35/50 = .7; expected .5 x .6 + .5 x .4 = .5; kappa .2 / .5.
        ((20, 5, 10, 15), 0.7, 0.4),
        ((3, 0, 0, 2), 1.0, 1.0),
        # Never agreed, half of each: (0 - .5) / .5.
        ((0, 2, 2, 0), 0.0, -1.0),
        # Independent at .5 and .5.
        ((1, 1, 1, 1), 0.5, 0.0),
        # One judge always says right, the other seldom: no better than chance.
        ((1, 9, 0, 0), 0.1, 0.0),
        # Both constant: equal labels leave nothing to explain, opposite ones agree as often as expected: never.
        ((4, 0, 0, 0), 1.0, None),
        ((0, 0, 0, 4), 1.0, None),
        ((0, 4, 0, 0), 0.0, 0.0),
    ],
)
def test_kappa_by_hand(counts: tuple[int, int, int, int], agreed: float, kappa: float | None) -> None:
    a, b = labels("q", *counts)
    overall = agreement(a, b, dict.fromkeys(a, "t")).overall
    assert (overall.n, overall.not_evaluated) == (sum(counts), 0)
    assert overall.agreed == pytest.approx(agreed, abs=1e-15)
    assert overall.kappa == (None if kappa is None else pytest.approx(kappa, abs=1e-15))


def test_types_add_up_and_disputes_are_named() -> None:
    a1, b1 = labels("u", 2, 1, 0, 1)
    a2, b2 = labels("t", 0, 0, 2, 1)
    types = {**dict.fromkeys(a1, "user"), **dict.fromkeys(a2, "temporal")}
    result = agreement(a1 | a2, b1 | b2, types)
    assert list(result.by_type) == ["temporal", "user"]
    assert result.by_type["user"] == Concordance(4, 0, 0.75, 0.5)
    # Observed 1/3; expected 3 x 1 of 9; kappa 0.
    assert result.by_type["temporal"] == Concordance(3, 0, 1 / 3, 0.0)
    assert (result.overall.n, result.overall.agreed) == (7, 4 / 7)
    assert result.disputed == ("t000", "t001", "u002")


def test_what_one_judge_has_not_evaluated_counts_apart() -> None:
    types = dict.fromkeys(["both", "a", "b", "none", "missing"], "t")
    a: Labels = {"both": True, "a": True, "b": None, "none": None}
    b: Labels = {"both": False, "a": None, "b": False, "none": None}
    result = agreement(a, b, types)
    assert result.overall == Concordance(1, 4, 0.0, 0.0)
    assert result.disputed == ("both",)


def test_labels_of_other_questions_are_ignored() -> None:
    assert agreement({"x": True, "other": True}, {"x": True, "other": False}, {"x": "t"}).disputed == ()


def test_without_judged_questions_nothing_is_known() -> None:
    nothing = agreement({}, {"x": True}, {"x": "t"})
    assert nothing.overall == nothing.by_type["t"] == Concordance(0, 1, None, None)
    assert agreement({}, {}, {}).by_type == {}


def test_the_order_of_the_questions_does_not_matter() -> None:
    a, b = labels("q", 3, 2, 1, 4)
    types = {one: "x" if number % 2 else "y" for number, one in enumerate(a)}
    back = dict(reversed(types.items()))
    assert agreement(a, b, types) == agreement(dict(reversed(a.items())), b, back)


def test_complete_agreement_has_an_interval_with_a_width() -> None:
    """Ten of ten: Wilson's lower bound of the agreement is 0.7225, by chance 0.5."""
    pairs = [(True, True)] * 5 + [(False, False)] * 5
    interval = kappa_interval(pairs, list("abcdefghij"))
    assert interval == pytest.approx(((0.72246 - 0.5) / 0.5, 1.0), abs=1e-4)
    assert kappa_interval([(True, True)] * 4, list("abcd")) is None
    assert kappa_interval([], []) is None


@pytest.mark.parametrize(
    ("n", "shares", "kappa"),
    [(108, (0.6, 0.01, 0.01, 0.38), 0.9580), (108, (0.4, 0.2, 0.1, 0.3), 0.4), (500, (0.6, 0.01, 0.02, 0.37), 0.9368)],
)
def test_the_interval_of_kappa_holds_it_in_95_of_100_cases(
    n: int, shares: tuple[float, float, float, float], kappa: float
) -> None:
    draws, held, times = np.random.default_rng(1), 0, 1000
    for both, a_only, b_only, neither in draws.multinomial(n, shares, size=times):
        a, b = labels("q", both, a_only, b_only, neither)
        interval = kappa_interval([(bool(a[name]), bool(b[name])) for name in a], list(a))
        held += interval is not None and interval[0] <= kappa <= interval[1]
    assert 0.93 < held / times < 0.985  # Two or three disagreements are coarse.


def test_answers_that_share_a_haystack_are_worth_fewer() -> None:
    """Each answer four times over, in one haystack: the interval of one time."""
    a, b = labels("q", 20, 5, 10, 15)
    pairs = [(bool(a[name]), bool(b[name])) for name in a]
    assert kappa_interval(pairs * 4, list(a) * 4) == pytest.approx(kappa_interval(pairs, list(a)))
