"""Shards divide what is selected: nothing twice, nothing lost, a haystack in one of them; larger samples move none."""

from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longmemeval.errors import HarnessError
from longmemeval.records import Question
from longmemeval.results.selection import (
    Selection,
    base_of,
    part_of,
    partition,
    select,
    shard_named,
    sharded_id,
    shards_with_questions,
)

HAYSTACKS = st.lists(st.integers(0, 6), min_size=1, max_size=40)
"""Of each question the number of its haystack."""


def questions(haystacks: list[int]) -> list[Question]:
    day = datetime(2023, 5, 30)
    return [
        Question(f"q{place}", "What?", day, "2023/05/30 (Tue) 00:00", f"h{haystack}")
        for place, haystack in enumerate(haystacks)
    ]


def kind(question_id: str) -> str:
    return "odd" if int(question_id[1:]) % 2 else "even"


@given(HAYSTACKS, st.integers(1, 9), st.data())
def test_shards_are_a_partition_by_haystack(haystacks: list[int], of: int, data: st.DataObject) -> None:
    asked = questions(haystacks)
    size = data.draw(st.integers(1, len(asked)))
    whole = Selection(sample=size) if data.draw(st.booleans()) else Selection(limit=size)
    names = shards_with_questions(asked, whole, of, kind)
    parts = [select(asked, Selection(whole.limit, whole.sample, shard=name), kind) for name in names]
    assert sorted(one.question_id for part in parts for one in part) == sorted(
        one.question_id for one in select(asked, whole, kind)
    )
    homes = [{one.haystack_id for one in part} for part in parts]
    assert sum(map(len, homes)) == len(set[str]().union(*homes))
    assert all(part == [one for one in asked if one in part] for part in parts)


@given(HAYSTACKS, st.integers(1, 9), st.data())
def test_a_larger_selection_moves_no_question(haystacks: list[int], of: int, data: st.DataObject) -> None:
    asked = questions(haystacks)
    small = partition(asked[: data.draw(st.integers(0, len(asked)))], of)
    assert all(set(part) <= set(larger) for part, larger in zip(small, partition(asked, of), strict=True))


def test_questions_on_haystacks_of_their_own_are_dealt_evenly() -> None:
    sizes = [len(part) for part in partition(questions(list(range(500))), 8)]
    assert sizes == [63, 63, 63, 63, 62, 62, 62, 62]


def test_names() -> None:
    assert (sharded_id("r", "3/8"), sharded_id("r-3of8", "3/8"), sharded_id("r", "")) == ("r-3of8", "r-3of8", "r")
    assert (base_of("r-s-3of8"), base_of("r"), base_of("r-0of8")) == ("r-s", "", "")
    assert part_of(Selection(shard="3/8"), 62, 500) == "62 of 500 questions, shard 3/8"
    assert part_of(Selection(limit=50, shard="3/8"), 6, 500) == "6 of 500 questions, the first ones, shard 3/8"


@pytest.mark.parametrize("text", ["0/8", "9/8", "3", "3/", "a/8", "03/8", "3/8 ", "-1/8"])
def test_what_is_no_shard_is_refused(text: str) -> None:
    with pytest.raises(HarnessError, match="is not a shard"):
        shard_named(text)


def test_a_shard_without_questions_is_named() -> None:
    with pytest.raises(HarnessError, match="Shard 3/3 has none of the selected questions"):
        select(questions([1, 2]), Selection(shard="3/3"), kind)
