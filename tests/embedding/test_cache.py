import sqlite3
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from longmemeval.core.arrays import Vectors
from longmemeval.core.caches import SqliteCache, cache_key
from longmemeval.embedding.cache import CHUNK_TEXTS, CachedEmbedder
from longmemeval.embedding.hashing import HashingEmbedder
from longmemeval.embedding.registry import load_embedder
from longmemeval.errors import HarnessError, ModelError
from longmemeval.records import Usage


class CountingEmbedder:
    """Gives (length of the text, 1, 0, …) and notes what it was asked; fails on the call number `fail_on`."""

    spec = "counting"
    fingerprint = "counting-v1"

    def __init__(self, dimension: int = 3, fail_on: int = 0) -> None:
        self.dimension = dimension
        self.fail_on = fail_on
        self.calls: list[list[str]] = []

    def embed(self, texts: Sequence[str]) -> Vectors:
        self.calls.append(list(texts))
        if len(self.calls) == self.fail_on:
            raise ModelError("the embedder failed on purpose")
        vectors = np.zeros((len(texts), self.dimension), dtype=np.float32)
        vectors[:, 0] = [len(text) for text in texts]
        vectors[:, 1] = 1.0
        return vectors


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "embeddings.sqlite"


def test_each_text_is_computed_once_and_rows_keep_their_places(path: Path) -> None:
    embedder = CountingEmbedder()
    cached = CachedEmbedder(embedder, path)
    first = cached.embed(["aa", "b", "aa", "cccc"])
    assert first[:, 0].tolist() == [2.0, 1.0, 2.0, 4.0]
    assert (cached.hits, cached.misses) == (1, 3)
    second = cached.embed(["cccc", "new", "b"])
    assert second[:, 0].tolist() == [4.0, 3.0, 1.0]
    assert (cached.hits, cached.misses) == (3, 4)
    assert embedder.calls == [["aa", "b", "cccc"], ["new"]]


def test_vectors_of_a_light_embedder_are_not_kept(path: Path) -> None:
    cached = load_embedder("hashing:16", cache_path=path)
    assert np.array_equal(
        cached.embed(["a walk", "", "a walk"]), load_embedder("hashing:16").embed(["a walk", "", "a walk"])
    )
    assert (cached.hits, cached.misses) == (1, 2)
    assert not path.exists()
    # Nor is the file of an earlier version read, in which they were.
    path.parent.mkdir(parents=True)
    path.write_bytes(b"this is no database" * 100)
    assert load_embedder("hashing:16", cache_path=path).missing(["a walk"]) == ["a walk"]


def test_second_process_finds_the_same_bits(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HashingEmbedder, "is_light", False)
    texts = ["a walk", "another walk", ""]
    computed = load_embedder("hashing:16", cache_path=path).embed(texts)
    again = load_embedder("hashing:16", cache_path=path)
    assert np.array_equal(again.embed(texts), computed)
    assert (again.hits, again.misses) == (3, 0)


def test_without_a_file_only_duplicates_are_hits() -> None:
    embedder = CountingEmbedder()
    cached = CachedEmbedder(embedder)
    assert cached.embed(["a", "a"]).shape == (2, 3)
    cached.embed(["a"])
    assert (cached.hits, cached.misses) == (1, 2)


def test_embedders_do_not_find_each_others_vectors(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HashingEmbedder, "is_light", False)
    load_embedder("hashing:16", cache_path=path).embed(["a walk"])
    other = load_embedder("hashing:32", cache_path=path)
    assert other.embed(["a walk"]).shape == (1, 32)
    assert (other.hits, other.misses) == (0, 1)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_vectors_that_are_not_finite_are_refused_by_name_and_not_kept(path: Path, value: float) -> None:
    class Broken(CountingEmbedder):
        def embed(self, texts: Sequence[str]) -> Vectors:
            vectors = super().embed(texts)
            vectors[[text == "b" for text in texts], 2] = value
            return vectors

    cached = CachedEmbedder(Broken(), path)
    with pytest.raises(HarnessError, match="NaN or infinity as the vector of 1 of 2 texts, such as 'b'") as caught:
        cached.embed(["a", "b"])
    assert caught.value.where == "counting"
    assert CachedEmbedder(CountingEmbedder(), path).missing(["a", "b"]) == ["a", "b"]


@pytest.mark.parametrize("fail_on", [1, 2, 3])
def test_interrupted_embedding_keeps_its_finished_chunks(path: Path, fail_on: int) -> None:
    texts = [f"text {i}" for i in range(3 * CHUNK_TEXTS + 10)]
    broken = CachedEmbedder(CountingEmbedder(fail_on=fail_on), path)
    with pytest.raises(ModelError, match="on purpose"):
        broken.embed(texts)
    kept = (fail_on - 1) * CHUNK_TEXTS
    assert broken.misses == kept
    embedder = CountingEmbedder()
    resumed = CachedEmbedder(embedder, path)
    whole = resumed.embed(texts)
    assert [text for call in embedder.calls for text in call] == texts[kept:]
    assert np.array_equal(whole, CountingEmbedder().embed(texts))


def test_progress_counts_finished_texts_duplicates_included(path: Path) -> None:
    cached = CachedEmbedder(CountingEmbedder(), path)
    cached.embed(["old"])
    texts = ["old", "old"] + [f"text {i}" for i in range(CHUNK_TEXTS + 1)] + ["text 0"]
    seen: list[int] = []
    cached.embed(texts, on_progress=seen.append)
    assert seen == [2, 2 + CHUNK_TEXTS + 1, len(texts)]


def test_missing_texts_are_told_without_computing_them(path: Path) -> None:
    embedder = CountingEmbedder()
    cached = CachedEmbedder(embedder, path)
    cached.embed(["old"])
    assert cached.missing(["new", "old", "newer", "new"]) == ["new", "newer"]
    assert (cached.hits, cached.misses, len(embedder.calls)) == (0, 1, 1)


def test_value_of_a_wrong_length_is_computed_again(path: Path) -> None:
    store = SqliteCache(path)
    store.put_many({cache_key("counting-v1", "damaged"): b"\x00\x00\x80"})
    store.close()
    cached = CachedEmbedder(CountingEmbedder(), path)
    assert cached.embed(["damaged"]).tolist() == [[7.0, 1.0, 0.0]]
    assert (cached.hits, cached.misses, cached.damaged) == (0, 1, 1)
    assert CachedEmbedder(CountingEmbedder(fail_on=1), path).embed(["damaged"]).tolist() == [[7.0, 1.0, 0.0]]


def test_a_damaged_vector_is_computed_again(path: Path) -> None:
    CachedEmbedder(CountingEmbedder(), path).embed(["good", "damaged"])
    with sqlite3.connect(path) as raw:
        raw.execute(
            "UPDATE entries SET value = x'000000000000000000000000' WHERE key = ?",
            (cache_key("counting-v1", "damaged"),),
        )
    embedder = CountingEmbedder()
    cached = CachedEmbedder(embedder, path)
    assert cached.embed(["good", "damaged"])[:, 0].tolist() == [4.0, 7.0]
    assert embedder.calls == [["damaged"]]
    assert (cached.hits, cached.misses, cached.damaged) == (1, 1, 1)


def test_values_are_little_endian_float32(path: Path) -> None:
    CachedEmbedder(CountingEmbedder(), path).embed(["ab"])
    key = cache_key("counting-v1", "ab")
    assert SqliteCache(path).get_many([key])[key] == bytes.fromhex("00000040 0000803f 00000000")


def test_another_model_behind_the_same_name_is_noticed(path: Path) -> None:
    CachedEmbedder(CountingEmbedder(dimension=3), path).embed(["a"])
    with pytest.raises(HarnessError, match=r"5 numbers per text but gave 3 before.*embeddings\.sqlite"):
        CachedEmbedder(CountingEmbedder(dimension=5), path).embed(["b"])


@pytest.mark.parametrize("with_file", [True, False])
def test_no_texts_give_no_rows(path: Path, with_file: bool) -> None:
    assert CachedEmbedder(CountingEmbedder(), path if with_file else None).embed([]).shape == (0, 3)


def test_local_embedder_costs_nothing() -> None:
    cached = load_embedder("hashing")
    cached.embed(["a walk"])
    assert cached.usage == Usage()
