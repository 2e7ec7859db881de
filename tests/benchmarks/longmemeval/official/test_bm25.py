"""The official BM25, held against the library it stands for, bit for bit."""

from math import log
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rank_bm25 import BM25Okapi

from longmemeval.benchmarks.longmemeval.loader import LongMemEvalDataset
from longmemeval.benchmarks.longmemeval.official.bm25 import scores
from longmemeval.benchmarks.longmemeval.official.measures import official_corpus
from longmemeval.measures.notation import Granularity


def official(documents: list[str], query: str) -> bytes:
    return BM25Okapi([document.split(" ") for document in documents]).get_scores(query.split(" ")).tobytes()


texts = st.lists(st.sampled_from(["a", "b", "c", "B", "", "long", "a,"]), max_size=12).map(" ".join)


@pytest.mark.slow
@given(st.lists(texts, min_size=1, max_size=8), texts)
def test_equal_to_the_library(documents: list[str], query: str) -> None:
    assert scores(documents, query).tobytes() == official(documents, query)


odd_texts = st.lists(
    # Words of every length around 8 and 16 bytes, with what could be mistaken for a filling, in any encoding.
    st.sampled_from(
        ["x" * n for n in (7, 8, 9, 15, 16, 17, 24)] + ["x" * 16 + "\0", "\0", "a\0", "é" * 9, "日", "\ud800"]
    )
    | st.text(st.characters(), max_size=20),
    max_size=8,
).map(" ".join)


@pytest.mark.slow
@given(st.lists(odd_texts, min_size=1, max_size=5), odd_texts)
def test_odd_words_equal_the_library(documents: list[str], query: str) -> None:
    assert scores(documents, query).tobytes() == official(documents, query)


def test_many_words_equal_the_library() -> None:
    words = [f"word{number * number % 3001}" for number in range(30_000)]
    documents = [" ".join(words[start : start + 300]) for start in range(0, 30_000, 300)]
    query = " ".join(words[::4000])
    assert scores(documents, query).tobytes() == official(documents, query)


@pytest.mark.parametrize(
    ("documents", "query"),
    [
        (["a", "a", "a"], "a"),  # nothing but weights below zero: the average is below zero too
        (["a b", "a c", "a"], "a a a"),
        (["", "", "x"], ""),
        ([""], "x"),
        (["a  b", "\n", "\xa0a"], "a  b"),
        ([" ".join(map(str, range(n, 40))) for n in range(40)], "39 7 39 41 0"),
    ],
)
def test_hard_cases_equal_the_library(documents: list[str], query: str) -> None:
    assert scores(documents, query).tobytes() == official(documents, query)


def test_by_hand() -> None:
    # One of three documents has the word, once in two words; the documents are 2, 1 and 3 words long, 2 on average.
    assert scores(["red car", "b", "c c c"], "red") == pytest.approx([log(2.5) - log(1.5), 0, 0], abs=1e-15)


def test_no_documents_no_scores() -> None:
    assert scores([], "a").shape == (0,)
    assert scores([], "a").dtype == np.float64


@pytest.mark.parametrize("level", ["session", "turn"])
def test_real_question(real_longmemeval: Path, level: Granularity) -> None:
    record = next(LongMemEvalDataset(real_longmemeval).records())
    documents = [document.text for document in official_corpus(record, level)]
    assert len(documents) == {"session": 53, "turn": 273}[level]
    assert scores(documents, record.question).tobytes() == official(documents, record.question)
