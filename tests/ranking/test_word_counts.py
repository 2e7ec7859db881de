"""The words of a haystack: counted once, kept per message, added up for any unit."""

import hashlib
import json
from collections import Counter
from pathlib import Path
from typing import Any, get_args
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from longmemeval.benchmarks.longmemeval.loader import LongMemEvalDataset
from longmemeval.core.text.words import content_words, search_words
from longmemeval.errors import FixtureError
from longmemeval.ranking import word_counts
from longmemeval.ranking.history import Granularity, HistoryView, Side
from longmemeval.ranking.lexical import LexicalIndex, LexicalParameters, Priors
from longmemeval.ranking.word_counts import (
    WORDS,
    WORDS_RECIPE,
    SortedWords,
    Vocabulary,
    WordCounts,
    count_words,
    decode_words,
    encode_words,
)
from longmemeval.records import DatasetIdentity, FixtureMeta, PartInfo
from longmemeval.storage.memory_store import MemoryStore
from tests.ranking.support import history
from tests.support import peak_memory

CHAT = (
    [("user", "I paint. Do I paint rivers?"), ("assistant", "")],
    [("user", "Rivers, rivers!"), ("assistant", "Do you mean the Loire?"), ("user", "The Loire")],
)


def counted(words: WordCounts, place: int) -> Counter[str]:
    """The words of one text."""
    found = {
        word: words.counts[words.entries(word)][words.places[words.entries(word)] == place] for word in words.numbers
    }
    return +Counter({word: int(counts.sum()) for word, counts in found.items()})


def test_counts_by_hand() -> None:
    words = count_words([message.content for message in history(*CHAT).messages])
    assert [counted(words, place) for place in range(5)] == [
        Counter(paint=2, river=1),
        Counter(),
        Counter(river=2),
        Counter(mean=1, loir=1),
        Counter(loir=1),
    ]
    # Words outside of questions.
    assert words.stated.tolist() == [1, 0, 2, 0, 1]
    assert words.entries("zebra") == slice(0, 0)


def test_blocks_of_texts_are_counted_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = ["a red pear", "", "pear, pear and plum", "the plum is red", "fig"] * 3
    whole = count_words(texts)
    monkeypatch.setattr(word_counts, "_BLOCK_WORDS", 4)
    blocks = count_words(texts)
    for one, other in zip(whole.__struct_fields__, blocks.__struct_fields__, strict=True):
        np.testing.assert_array_equal(getattr(whole, one), getattr(blocks, other))


@pytest.mark.slow
def test_counting_takes_less_memory_than_the_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(word_counts, "_BLOCK_WORDS", 4096)
    vocabulary = Vocabulary()
    texts = [vocabulary.read(" ".join(f"fruit{(place + word) % 40}" for word in range(200))) for place in range(800)]
    # Of 160,000 words, a fifth of which are entries; sorting all of them together takes 26 bytes each.
    assert peak_memory(lambda: vocabulary.counts(texts)) < 8 * 160_000


@given(st.lists(st.text(alphabet="abe's ?!.\n", max_size=30), max_size=6))
def test_every_content_word_is_counted(texts: list[str]) -> None:
    words = count_words(texts)
    assert [counted(words, place) for place in range(len(texts))] == [Counter(content_words(text)) for text in texts]


@pytest.mark.slow
@given(st.lists(st.text(max_size=30), max_size=6))
def test_the_part_holds_what_was_counted(texts: list[str]) -> None:
    store = history([("user", text) for text in texts])
    data = encode_words(store.messages)
    read, made = decode_words(data, "here"), count_words(texts)
    assert (read.texts, read.numbers) == (made.texts, made.numbers)
    for name in ("starts", "places", "counts", "stated"):
        assert getattr(read, name).tolist() == getattr(made, name).tolist()
    assert encode_words(MemoryStore.hydrate(store.persist(), "db").messages) == data


def test_the_part_changes_only_with_its_version() -> None:
    """Where this fails, the rules of words have changed: raise `WORDS_RECIPE`, and put the new hash here."""
    store = history(*CHAT, [("user", "It's Zürich's 3rd children's café — ran, running, STUDIES… isn't it?\nYes")])
    assert (WORDS_RECIPE, hashlib.sha256(encode_words(store.messages)).hexdigest()[:16]) == (
        {"version": 3},
        "890350b34de5b86f",
    )


def test_chinese_and_japanese_are_found_by_pairs_of_characters() -> None:
    assert search_words("我昨天搬到上海了。") == ["我昨", "昨天", "天搬", "搬到", "到上", "上海", "海了"]
    assert search_words("私は東京のGoogleで働いている") == [
        "私は",
        "は東",
        "東京",
        "京の",
        "google",
        "で働",
        "働い",
        "いて",
        "てい",
        "いる",
    ]
    assert search_words("茶 and ラーメン") == ["茶", "ラー", "ーメ", "メン"]
    assert search_words("Ran, STUDIES… café, Москва, 서울에") == content_words("Ran, STUDIES… café, Москва, 서울에")


CHINESE = {
    "我住在上海。": "我在哪个城市, 是上海吗?",
    "我的狗叫小白。": "我的狗叫什么?",
    "我对花生过敏。": "花生能吃吗?",
    "我妹妹是护士。": "妹妹做什么工作?",
    "京都に引っ越しました。": "京都はどうですか。",
    "毎朝コーヒーを飲みます。": "コーヒーが好きですか。",
}
"""Statements by a question about each."""


def test_word_search_finds_chinese_and_japanese() -> None:
    view = HistoryView(history(*([("user", text)] for text in CHINESE)))
    index = LexicalIndex(view, LexicalParameters())
    assert [int(index.scores(question).argmax()) for question in CHINESE.values()] == list(range(6))
    assert all(index.scores(question).max() > 0 for question in CHINESE.values())


def test_a_part_of_before_pairs_is_counted_again_where_it_has_runs() -> None:
    texts = ["我住在上海。", "She paints."]
    store = history([("user", text) for text in texts])
    file = json.loads(encode_words(store.messages))
    assert "上海" in file["words"].split()
    file |= {
        "words": "paint 我住在上海",
        "starts": FIRST_STARTS,
        "places": "AQAAAAAAAAA=",
        "counts": "AQAAAAEAAAA=",
        "stated": "AQAAAAEAAAA=",
    }
    stored = Mock(data=lambda: json.dumps(file).encode(), where="here", info=PartInfo("", {"version": 2}))
    stored.part.return_value.messages = store.messages
    assert WORDS.open(stored).numbers == count_words(texts).numbers
    file["words"] = "paint river"
    assert list(WORDS.open(stored).numbers) == ["paint", "river"]


FIRST_STARTS = "AAAAAAEAAAACAAAA"


FIRST_VERSION = {
    "format": 1,
    "messages": 5,
    "words": ["paint", "river", "mean", "loir"],
    "starts": "AAAAAAEAAAADAAAABAAAAAYAAAA=",
    "places": "AAAAAAAAAAACAAAAAwAAAAMAAAAEAAAA",
    "counts": "AgAAAAEAAAACAAAAAQAAAAEAAAABAAAA",
    "stated": "AQAAAAAAAAACAAAAAAAAAAEAAAA=",
}
"""What the version before wrote of `CHAT`."""


def test_a_part_of_the_first_version_is_read() -> None:
    read = decode_words(json.dumps(FIRST_VERSION).encode(), "here")
    made = count_words([message.content for message in history(*CHAT).messages])
    assert [counted(read, place) for place in range(5)] == [counted(made, place) for place in range(5)]
    assert WORDS.info(meta(WORDS_RECIPE))
    assert WORDS.info(meta({"version": 2}))
    assert WORDS.info(meta({"version": 1}))
    assert not WORDS.info(meta({"version": 0}))


def meta(recipe: dict[str, Any]) -> FixtureMeta:
    """Of a fixture with counted words."""
    return FixtureMeta(1, DatasetIdentity("d", ""), "h", (), "r", (), {WORDS.name: PartInfo("", recipe)})


@given(st.sets(st.text(alphabet="aéß's€😀z", min_size=1), max_size=9), st.text(max_size=3))
def test_words_are_found_in_their_text(words: set[str], other: str) -> None:
    numbers = SortedWords(" ".join(sorted(words)))
    assert dict(numbers) == {word: number for number, word in enumerate(sorted(words))}
    assert (other in numbers) == (other in words)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"words": ["paint"]}, "do not fit together"),
        ({"stated": ""}, "do not fit together"),
        ({"places": "////fw=="}, "do not fit together"),
        ({"counts": "AAA="}, "do not fit together"),
        ({"starts": ""}, "do not fit together"),
        ({"words": "paint"}, "do not fit together"),
        ({"words": 1}, "not a valid part of a fixture"),
        ({"format": 2}, "upgrade longmemeval"),
    ],
)
def test_a_part_that_contradicts_itself_is_refused(change: dict[str, object], said: str) -> None:
    whole = json.loads(encode_words(history(*CHAT).messages))
    with pytest.raises(FixtureError, match=said):
        decode_words(json.dumps(whole | change).encode(), "words.json")


@pytest.mark.parametrize("side", get_args(Side))
@pytest.mark.parametrize("granularity", get_args(Granularity))
def test_counts_of_messages_serve_every_unit(granularity: Granularity, side: Side, real_longmemeval: Path) -> None:
    """Bit for bit what counting the text of every unit gives."""
    (haystack,) = LongMemEvalDataset(real_longmemeval).haystacks()
    store = MemoryStore.from_haystack(haystack)
    view = HistoryView(store, granularity, side, count_words([message.content for message in store.messages]))
    whole = HistoryView(history([("user", text) for text in view.texts]))
    alone = LexicalParameters(window=(), session=0.0)
    for query in ("weeks spent on the furniture project in June", "my sister's dog and her dog's vet"):
        assert LexicalIndex(view, alone).scores(query).tobytes() == LexicalIndex(whole, alone).scores(query).tobytes()
    assert np.array_equal(Priors(view).statement, Priors(whole).statement)
