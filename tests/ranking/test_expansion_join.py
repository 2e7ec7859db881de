"""Joining expansions with texts: ours, which loses nothing, and the official one, faults included."""

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from longmemeval.benchmarks.longmemeval.official.bm25 import CorpusItem, official_cache, official_join
from longmemeval.errors import DataError
from longmemeval.ranking.expansion import JoinMode, joined_words
from longmemeval.ranking.lexical import UnitWords
from longmemeval.ranking.word_counts import count_words

MODES: tuple[JoinMode, ...] = ("separate", "merge", "replace")
TEXTS = ["about cats", "about dogs", "hello"]
IDS = ["s:0", "s:2", "t:0"]
OWN = UnitWords(count_words(TEXTS), np.arange(3))
KEYS = {"s:0": ("Tom", "a cat"), "s:2": (), "elsewhere": ("lost",)}


def found_by(keys: Mapping[str, Sequence[str]], mode: JoinMode) -> list[list[Counter[str]]]:
    """The words of every unit, index by index."""
    return [
        [sum((words_in(source, place) for source in sources), Counter()) for place in range(len(IDS))]
        for sources in joined_words(OWN, IDS, keys, mode)
    ]


def words_in(source: UnitWords, place: int) -> Counter[str]:
    """What the texts of one unit add up to."""
    counts: Counter[str] = Counter()
    for word in source.words.numbers:
        entries = source.words.entries(word)
        owners = source.units[source.words.places[entries]]
        counts[word] = int(source.words.counts[entries][owners == place].sum())
    return +counts


def test_merge_adds_the_words_of_the_keys() -> None:
    assert found_by(KEYS, "merge") == [[Counter(tom=1, cat=2), Counter(dog=1), Counter(hello=1)]]


def test_replace_keeps_the_words_of_a_unit_without_keys() -> None:
    assert found_by(KEYS, "replace") == [[Counter(tom=1, cat=1), Counter(dog=1), Counter(hello=1)]]


def test_separate_puts_keys_in_an_index_of_their_own() -> None:
    own = [Counter(cat=1), Counter(dog=1), Counter(hello=1)]
    assert found_by({**KEYS, "t:0": ("greeting",)}, "separate") == [
        own,
        [Counter(tom=1, cat=1), Counter(), Counter(greet=1)],
    ]


def test_blank_and_repeated_texts_of_a_unit_do_not_count() -> None:
    keys = {"s:0": (" ", "\n"), "s:2": ("Rex", "", "Rex")}
    assert found_by(keys, "replace") == [[Counter(cat=1), Counter(rex=1), Counter(hello=1)]]
    assert found_by(keys, "merge") == [[Counter(cat=1), Counter(rex=1, dog=1), Counter(hello=1)]]


@pytest.mark.parametrize("mode", MODES)
def test_history_without_units(mode: JoinMode) -> None:
    none = UnitWords(count_words([]), np.zeros(0, np.int64))
    assert [[source.words.texts for source in index] for index in joined_words(none, [], KEYS, mode)] in (
        [[0, 0]],
        [[0], [0]],
    )


@pytest.mark.slow
@given(
    st.lists(st.lists(st.sampled_from(["", " ", "tea", "big lemon"]), max_size=3) | st.none(), min_size=3, max_size=3),
    st.sampled_from(MODES),
)
def test_no_unit_is_ever_lost(made: list[list[str] | None], mode: JoinMode) -> None:
    keys = {name: texts for name, texts in zip(IDS, made, strict=True) if texts is not None}
    indexes = found_by(keys, mode)
    for place, texts in enumerate(made):
        has_keys = any(text.strip() for text in texts or ())
        own = found_by({}, "merge")[0][place]
        assert any(index[place] for index in indexes)
        assert any(index[place] >= own for index in indexes) or (mode == "replace" and has_keys)
        assert any(index[place] & Counter(tea=1, lemon=1) for index in indexes) == has_keys


# The official join


def item(corpus_id: str, text: str, day: str = "d1") -> CorpusItem:
    return CorpusItem(corpus_id, text, day)


CORPUS = [item("noans_x_1", "small talk"), item("answer_x_3", "evidence"), item("y_1", "filler", "d2")]
UNITS = [("answer_x_1", "d1"), ("answer_x_3", "d1"), ("y_1", "d2")]


def test_official_merge_and_replace() -> None:
    cache = {"x_3": ["F", "G"], "y_1": ["H"]}
    assert official_join(CORPUS, UNITS, cache, "merge") == [
        item("noans_x_1", "small talk"),
        item("answer_x_3", "F G evidence"),
        item("y_1", "H filler", "d2"),
    ]
    assert [one.text for one in official_join(CORPUS, UNITS, cache, "replace")] == ["small talk", "F G", "H"]


@pytest.mark.parametrize("mode", ["merge", "replace"])
def test_official_empty_list_takes_the_document_out(mode: JoinMode) -> None:
    joined = official_join(CORPUS, UNITS, {"x_3": [], "y_1": ["H"]}, mode)
    assert [one.corpus_id for one in joined] == ["noans_x_1", "y_1"]


def test_official_failed_extraction_counts_as_an_empty_text() -> None:
    assert [one.text for one in official_join(CORPUS, UNITS, {"x_3": None}, "merge")] == [
        "small talk",
        " evidence",
        " filler",
    ]
    assert [one.text for one in official_join(CORPUS, UNITS, {}, "replace")] == ["small talk", "", ""]


@pytest.mark.parametrize("mode", ["merge", "replace"])
def test_official_relabelled_document_is_never_reached(mode: JoinMode) -> None:
    joined = official_join(CORPUS, UNITS, {"x_1": ["F"], "x_3": ["G"], "y_1": ["H"]}, mode)
    assert joined[0] == CORPUS[0]


def test_official_separate_lets_an_expansion_of_no_evidence_in_as_gold() -> None:
    joined = official_join(CORPUS, UNITS, {"x_1": ["F"], "x_3": [], "y_1": "S"}, "separate")
    assert joined == [*CORPUS, item("answer_x_1", "F"), item("y_1", "S", "d2")]


def test_official_session_held_twice_is_expanded_twice() -> None:
    corpus = [item("x", "text"), item("x", "text", "d2")]
    units = [("x", "d1"), ("x", "d2")]
    assert official_join(corpus, units, {"x": "F"}, "merge") == [item("x", "F F text"), item("x", "F F text", "d2")]
    assert official_join(corpus, units, {"x": "F"}, "separate")[2:] == [item("x", "F"), item("x", "F", "d2")]


def test_official_join_leaves_its_input_alone() -> None:
    corpus = list(CORPUS)
    official_join(corpus, UNITS, {"x_3": ["F"]}, "separate")
    assert corpus == CORPUS


def test_official_cache_keeps_what_the_faults_rest_on() -> None:
    made = {"answer_x_3": ("a", "b"), "y_1": ()}
    assert official_cache("fact", made) == {"x_3": ["a", "b"], "y_1": []}
    assert official_cache("keyphrase", made) == {"x_3": "a; b", "y_1": None}
    assert official_cache("summary", made) == {"x_3": "a b", "y_1": None}
    with pytest.raises(DataError, match="does not join events"):
        official_cache("event", made)
