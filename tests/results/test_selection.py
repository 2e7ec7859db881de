"""Samples are nested, keep the shares of the types, and depend on nothing but ids, types and the seed."""

from collections import Counter
from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longmemeval.errors import HarnessError
from longmemeval.records import Question
from longmemeval.results.selection import Selection, select, stratified_order

TYPES = st.dictionaries(
    st.text("abcdef0123456789_", min_size=1, max_size=8), st.sampled_from(["one", "two", "three"]), min_size=1
)


def questions(*ids: str) -> list[Question]:
    return [Question(name, "What?", datetime(2023, 5, 30), "2023/05/30 (Tue) 00:00", name) for name in ids]


def chosen(types: dict[str, str], selection: Selection) -> list[str]:
    return [question.question_id for question in select(questions(*types), selection, types.__getitem__)]


@given(TYPES, st.integers(0, 5), st.data())
def test_smaller_sample_lies_in_the_larger(types: dict[str, str], seed: int, data: st.DataObject) -> None:
    large = data.draw(st.integers(1, len(types)))
    small = data.draw(st.integers(1, large))
    inner = chosen(types, Selection(sample=small, seed=seed))
    assert set(inner) <= set(chosen(types, Selection(sample=large, seed=seed)))
    assert len(inner) == small


@pytest.mark.slow
@given(TYPES, st.integers(0, 5), st.data())
def test_sample_does_not_depend_on_file_order(types: dict[str, str], seed: int, data: st.DataObject) -> None:
    shuffled = dict(data.draw(st.permutations(list(types.items()))))
    selection = Selection(sample=max(1, len(types) // 2), seed=seed)
    assert set(chosen(types, selection)) == set(chosen(shuffled, selection))


@pytest.mark.slow
@given(TYPES, st.integers(0, 5), st.data())
def test_every_prefix_keeps_the_shares_of_the_types(types: dict[str, str], seed: int, data: st.DataObject) -> None:
    size = data.draw(st.integers(1, len(types)))
    drawn = Counter(types[name] for name in stratified_order(types, seed)[:size])
    for kind, count in Counter(types.values()).items():
        # No further from its share than rounding each type on its own can take it.
        assert abs(drawn[kind] - size * count / len(types)) <= len(set(types.values())) / 2 + 0.5


def test_shares_are_exact_where_they_can_be() -> None:
    types = {f"q{number}": "rare" if number % 4 == 0 else "common" for number in range(100)}
    assert Counter(types[name] for name in stratified_order(types, 0)[:20]) == {"rare": 5, "common": 15}


def test_seed_decides_which_questions_and_file_order_how_they_stand() -> None:
    types = {f"q{number}": "only" for number in range(50)}
    first, again, other = (chosen(types, Selection(sample=10, seed=seed)) for seed in (1, 1, 2))
    assert first == again
    assert set(first) != set(other)
    assert first == sorted(first, key=lambda name: int(name[1:]))


def test_limit_takes_the_first_in_file_order() -> None:
    assert chosen({"b": "x", "a": "x", "c": "x"}, Selection(limit=2)) == ["b", "a"]


def test_named_questions_come_once_in_file_order() -> None:
    assert chosen({"b": "x", "a": "x", "c": "x"}, Selection(question_ids=("c", "b", "c"))) == ["b", "c"]


def test_counts_above_the_number_of_questions_take_all() -> None:
    assert chosen({"b": "x", "a": "y"}, Selection(sample=9)) == ["b", "a"]
    assert chosen({"b": "x", "a": "y"}, Selection(limit=9)) == ["b", "a"]


def test_type_is_asked_for_stratified_samples_only() -> None:
    def never(question_id: str) -> str:
        raise AssertionError(question_id)

    for selection in (Selection(), Selection(limit=1), Selection(question_ids=("a",))):
        assert select(questions("a"), selection, never) == questions("a")


def test_unknown_question_is_refused_with_the_nearest() -> None:
    with pytest.raises(HarnessError, match=r"no question 'q11'.*Did you mean 'q1'\?"):
        chosen({"q1": "x", "b2": "x"}, Selection(question_ids=("q11",)))


def test_ways_to_select_exclude_each_other() -> None:
    for ways in (
        {"limit": 1, "sample": 1},
        {"limit": 1, "question_ids": ("a",)},
        {"sample": 1, "question_ids": ("a",)},
    ):
        with pytest.raises(HarnessError, match="cannot be combined"):
            Selection(**ways)


@pytest.mark.parametrize("count", [0, -3])
def test_counts_begin_at_one(count: int) -> None:
    with pytest.raises(HarnessError, match=f"--limit must be at least 1, not {count}"):
        Selection(limit=count)
    with pytest.raises(HarnessError, match=f"--sample must be at least 1, not {count}"):
        Selection(sample=count)
