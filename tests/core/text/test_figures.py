"""How figures are written, at the edges where they change form."""

import pytest

from longmemeval.core.text.figures import (
    UNKNOWN,
    bounds,
    count,
    in_dollars,
    in_percent,
    listed,
    p_value,
    percent,
    percents,
    signed_bounds,
    span,
)


def test_what_is_unknown_is_a_dash_and_zero_is_zero() -> None:
    assert {count(None), percent(None), in_percent(None), bounds(None), in_dollars(None)} == {UNKNOWN}
    assert (count(0), percent(0.0), in_dollars(0.0)) == ("0", "0.0%", "$0")
    assert span(None, 2, count) == UNKNOWN


@pytest.mark.parametrize(
    ("usd", "shown"), [(1234.5, "$1,234.5000"), (0.0001, "$0.0001"), (0.00005, "<$0.0001"), (0.0, "$0")]
)
def test_dollars_have_one_form(usd: float, shown: str) -> None:
    assert in_dollars(usd) == shown


def test_no_minus_zero() -> None:
    assert (percent(-0.0001), signed_bounds((-0.0001, 0.02))) == ("0.0%", "[0.0, +2.0]")


def test_a_range_of_one_figure_is_that_figure() -> None:
    assert (span(0.12341, 0.12342, in_dollars), span(1, 2000, count)) == ("$0.1234", "1 to 2,000")


def test_long_lists_are_counted() -> None:
    assert listed(["a", "b"], 2) == "a, b"
    assert listed(["a", "b", "c"], 2) == "a, b and 1 more"
    assert listed([str(n) for n in range(1500)], 1, "; ") == "0 and 1,499 more"
    assert listed([], 3) == ""


def test_p_values_below_a_thousandth_say_so() -> None:
    assert (p_value(0.0009), p_value(0.001)) == ("< 0.001", "0.001")


def test_two_shares_that_differ_read_differently() -> None:
    assert percents(0.75, 0.72) == ("75.0%", "72.0%")
    assert percents(0.75, 0.7499) == ("75.00%", "74.99%")
    assert percents(3 / 4, 2999 / 4000) == ("75.00%", "74.98%")
    assert percents(0.75, 0.75) == ("75.0%", "75.0%")
