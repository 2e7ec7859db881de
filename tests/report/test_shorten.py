"""Fitting texts into a size."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longmemeval.report.page.question_records import Excerpt, excerpt, fair_limit, size_of


@pytest.mark.parametrize(
    ("sizes", "budget", "limit"),
    [
        ([], 0, None),
        ([5, 5], 10, None),
        ([5, 6], 10, 5),
        # The short one leaves 8 to the two long ones.
        ([2, 9, 9], 10, 4),
        ([1, 2, 100], 10, 7),
        ([3], 0, 0),
    ],
)
def test_the_longest_give_way(sizes: list[int], budget: int, limit: int | None) -> None:
    assert fair_limit(sizes, budget) == limit


@given(st.lists(st.integers(0, 1000)), st.integers(0, 5000))
def test_what_is_cut_to_the_limit_fits_and_one_more_does_not(sizes: list[int], budget: int) -> None:
    limit = fair_limit(sizes, budget)
    if limit is None:
        assert sum(sizes) <= budget
    else:
        assert sum(min(size, limit) for size in sizes) <= budget
        assert sum(min(size, limit + 1) for size in sizes) > budget


def test_what_is_left_out_is_counted() -> None:
    assert excerpt("0123456789", 10) == Excerpt("0123456789")
    assert excerpt("0123456789", 4) == Excerpt("0123", 6)
    assert excerpt("0123456789", 5, end=40) == Excerpt("012", 5, "89")
    assert excerpt("0123456789", None) == Excerpt("0123456789")


@given(st.text(), st.integers(0, 60), st.integers(0, 100))
def test_no_character_is_broken_or_lost_count_of(text: str, limit: int, end: int) -> None:
    cut = excerpt(text, limit, end=end)
    assert size_of(cut.text) + size_of(cut.end) <= max(limit, size_of(text) if cut.left_out == 0 else 0)
    assert len(cut.text) + cut.left_out + len(cut.end) == len(text)
    assert text.startswith(cut.text)
    assert text.endswith(cut.end)
