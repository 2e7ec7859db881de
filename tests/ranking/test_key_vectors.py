"""Vectors of keys: the part that holds them, whose they are, and what they do to the dense score, by hand."""

import math
from datetime import date

import numpy as np
import pytest

from longmemeval.ranking.dense import DenseIndex, KeyVectors
from longmemeval.ranking.expansion import (
    Expansion,
    decode,
    encode,
    key_owners,
    key_vectors_part,
    keys_part,
    keys_to_embed,
)
from longmemeval.ranking.expansion.part import JoinMode
from longmemeval.ranking.history import HistoryView
from longmemeval.storage.vector_index import EmbedderIdentity, VectorIndex, VectorItem
from tests.ranking.support import history

X, Y, Z = np.eye(3, dtype=np.float32)
STORE = history([("user", "a"), ("assistant", "b")], [("user", "c")])


def scores(join: JoinMode, keys: KeyVectors | None, window: tuple[float, ...] = ()) -> list[float]:
    """The scores of three turns, whose vectors are x, y and z, for the query x."""
    view = HistoryView(STORE)
    items = [VectorItem(unit.unit_id, unit.thread_id, 0) for unit in view.units]
    index = DenseIndex(view, items, np.array([X, Y, Z]), window, keys, join)
    found: list[float] = index.scores(X).tolist()
    return found


def keys(*owned: tuple[int, np.ndarray[tuple[int], np.dtype[np.float32]]]) -> KeyVectors:
    return KeyVectors(np.array([vector for _, vector in owned]), np.array([unit for unit, _ in owned], dtype=np.int64))


TWO_FOR_THE_SECOND = keys((1, X), (1, Z))


def test_merge_is_the_mean_of_the_text_and_of_the_mean_of_its_keys() -> None:
    """(0, 1, 0) + (1, 0, 1) / sqrt 2 has length sqrt 2: the first coordinate is 1/2."""
    assert scores("merge", TWO_FOR_THE_SECOND) == pytest.approx([1.0, 0.5, 0.0])


def test_replace_is_the_mean_of_the_keys_and_leaves_other_units_their_text() -> None:
    assert scores("replace", TWO_FOR_THE_SECOND) == pytest.approx([1.0, 1 / math.sqrt(2), 0.0])


def test_separate_is_the_best_of_the_text_and_every_key() -> None:
    assert scores("separate", TWO_FOR_THE_SECOND) == pytest.approx([1.0, 1.0, 0.0])
    assert scores("separate", keys((0, -X), (2, -X))) == pytest.approx([1.0, 0.0, 0.0])


def test_joined_vectors_are_blended_with_neighbours_and_separate_keys_are_not() -> None:
    """The second turn is x: the first one is x + x/2, and both stay x."""
    assert scores("replace", keys((1, X)), window=(0.5,)) == pytest.approx([1.0, 1.0, 0.0])
    third = 0.5 / math.sqrt(1.25)
    assert scores("separate", keys((2, X)), window=(0.5,)) == pytest.approx([2 * third, third, 1.0])


@pytest.mark.parametrize("join", ["merge", "replace", "separate"])
def test_no_keys_change_nothing(join: JoinMode) -> None:
    none = KeyVectors(np.zeros((0, 3), np.float32), np.zeros(0, np.int64))
    assert scores(join, none) == scores(join, None) == [1.0, 0.0, 0.0]


def test_keys_that_cancel_each_other_out_leave_the_text_under_merge() -> None:
    assert scores("merge", keys((0, Y), (0, -Y))) == pytest.approx([1.0, 0.0, 0.0])


def test_every_key_that_says_something_is_embedded_once() -> None:
    items = (Expansion("s:0#1", ("a cat", " ", "a cat", "a dog")), Expansion("s:1", ()))
    found, texts = keys_to_embed(decode(encode("fact", "turn", items), "f"))
    assert texts == ["a cat", "a dog"]
    assert found == [VectorItem("s:0#1#0", "s", 0), VectorItem("s:0#1#1", "s", 1)]
    sessions = (Expansion("s:1", ("moved",), (date(2023, 5, 1),)),)
    found, _ = keys_to_embed(decode(encode("event", "session", sessions), "f"))
    assert found == [VectorItem("s:1#0", "s:1", 0)]


def test_what_is_written_is_read_with_its_units() -> None:
    items = [VectorItem("s:0#1#0", "s", 0), VectorItem("s:0#1#12", "s", 12)]
    opened = VectorIndex.of("keys", items, np.array([X, Y]), EmbedderIdentity("by hand", "by hand"))
    assert key_owners(opened) == ["s:0#1", "s:0#1"]
    assert opened.rows()[1].tolist() == [X.tolist(), Y.tolist()]


def test_names_of_parts() -> None:
    keys = keys_part("fact", "turn")
    vectors = key_vectors_part("fact", "turn")
    assert (keys.name, vectors.name) == ("expansions-fact-turn", "expansions-fact-turn-vectors")
    assert vectors.needs == (keys,)
    assert vectors.dependency_key(keys) == "keys_sha256"
