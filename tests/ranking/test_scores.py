"""Lexical and dense scores against values computed by hand or by another way."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from longmemeval.core.text.words import content_words
from longmemeval.ranking.dense import DenseIndex
from longmemeval.ranking.fusion import fuse, min_max, order, reciprocal_rank
from longmemeval.ranking.history import HistoryView
from longmemeval.ranking.lexical import LexicalIndex, LexicalParameters
from longmemeval.storage.vector_index import VectorItem
from tests.ranking.support import Line, history

PLAIN = LexicalParameters(window=(), session=0.0)
WORDS = ["paint", "river", "bicycle", "garage", "cook", "lemon", "train", "violin"]


def naive_bm25(documents: Sequence[Mapping[str, float]], query: list[str], k1: float, b: float) -> list[float]:
    """BM25 straight from the formula, one document and one word at a time."""
    n = len(documents)
    lengths = [sum(document.values()) for document in documents]
    mean = sum(lengths) / n
    scores = []
    for document, length in zip(documents, lengths, strict=True):
        score = 0.0
        for word in query:
            frequency = sum(word in other for other in documents)
            idf = math.log(1 + (n - frequency + 0.5) / (frequency + 0.5))
            count = document.get(word, 0.0)
            score += idf * count * (k1 + 1) / (count + k1 * (1 - b + b * length / mean)) if count else 0.0
        scores.append(score)
    return scores


def windowed_counts(session: Sequence[Counter[str]], place: int) -> dict[str, float]:
    """The words of a turn, of its neighbours by half, and of theirs by a quarter."""
    total: dict[str, float] = {}
    for other, counts in enumerate(session):
        weight = {0: 1.0, 1: 0.5, 2: 0.25}.get(abs(other - place), 0.0)
        for word, count in counts.items():
            if weight:
                total[word] = total.get(word, 0.0) + weight * count
    return total


def test_bm25_by_hand() -> None:
    """Two documents, the word in one: idf = ln(1 + 1.5/1.5) = ln 2; equal lengths, so the rest is 1 * 2.5 / 2.5 = 1."""
    view = HistoryView(history([("user", "violin train"), ("assistant", "lemon river")]))
    assert LexicalIndex(view, PLAIN).scores("violin") == pytest.approx([math.log(2), 0.0])


@pytest.mark.slow
@given(st.lists(st.lists(st.lists(st.sampled_from(WORDS), max_size=6), min_size=1, max_size=4), min_size=1, max_size=4))
def test_window_and_session_are_the_formula(sessions: list[list[list[str]]]) -> None:
    lines: list[list[Line]] = [[("user", " ".join(words)) for words in session] for session in sessions]
    view = HistoryView(history(*lines))
    parameters = LexicalParameters(window=(0.5, 0.25), session=0.3)
    query = "paint a river by train, paint"
    words = content_words(query)
    own = [[Counter(content_words(text)) for _, text in session] for session in lines]
    windowed = [windowed_counts(session, place) for session in own for place in range(len(session))]
    if not any(windowed):
        return
    units = naive_bm25(windowed, words, 1.5, 0.75)
    whole = naive_bm25([sum(session, Counter()) for session in own], words, 1.5, 0.75)
    expected = [score + 0.3 * whole[thread] for score, thread in zip(units, view.threads, strict=True)]
    assert LexicalIndex(view, parameters).scores(query) == pytest.approx(expected)


def test_unknown_words_and_empty_histories_score_nothing() -> None:
    view = HistoryView(history([("user", "violin"), ("assistant", "")]))
    assert LexicalIndex(view, PLAIN).scores("zebra").tolist() == [0.0, 0.0]
    empty = HistoryView(history())
    assert LexicalIndex(empty, LexicalParameters()).scores("violin").tolist() == []
    blank = HistoryView(history([("user", "")]))
    assert LexicalIndex(blank, LexicalParameters()).scores("violin").tolist() == [0.0]


def test_dense_blends_neighbours_of_the_same_session_only() -> None:
    view = HistoryView(history([("user", "a"), ("assistant", "b")], [("user", "c")]))
    items = [VectorItem(unit.unit_id, unit.thread_id, 0) for unit in view.units]
    vectors = np.eye(3, dtype=np.float32)
    scores = DenseIndex(view, items, vectors, window=(0.5,)).scores(np.array([1, 0, 0], dtype=np.float32))
    length = math.sqrt(1 + 0.25)
    assert scores == pytest.approx([1 / length, 0.5 / length, 0.0])


def test_dense_of_a_session_is_the_mean_of_its_messages_and_blank_ones_count_nothing() -> None:
    view = HistoryView(history([("user", "a"), ("assistant", "")], [("user", "c")]), "session")
    items = [VectorItem("s1:0", "s1", 0), VectorItem("s2:0", "s2", 0)]
    vectors = np.array([[1, 0], [0, 1]], dtype=np.float32)
    assert DenseIndex(view, items, vectors).scores(np.array([1, 0], dtype=np.float32)) == pytest.approx([1.0, 0.0])


def test_fusion_by_hand() -> None:
    lexical, dense = np.array([0.0, 4.0, 2.0]), np.array([0.9, 0.1, 0.5])
    assert fuse([(1.0, lexical), (2.0, dense)], "scores") == pytest.approx([2.0, 1.0, 1.5])
    first, second, third = 1.0, 61 / 62, 61 / 63
    assert reciprocal_rank(lexical) == pytest.approx([third, first, second])
    assert fuse([(1.0, lexical), (1.0, dense)], "ranks") == pytest.approx(
        [third + first, first + third, second + second]
    )


def test_equal_scores_say_nothing_and_ties_keep_the_order_of_the_history() -> None:
    assert min_max(np.array([3.0, 3.0])).tolist() == [0.0, 0.0]
    assert min_max(np.array([])).tolist() == []
    assert order(np.array([1.0, 2.0, 1.0, 2.0])).tolist() == [1, 3, 0, 2]
