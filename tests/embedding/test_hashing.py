import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from longmemeval.core.files import sha256_bytes
from longmemeval.embedding.hashing import HashingEmbedder
from longmemeval.errors import HarnessError
from tests.support import IN_PROPORTION, growth

TEXT = "My sister Zoë adopted two greyhounds in Málaga last spring."


def similarity(first: str, second: str) -> float:
    a, b = HashingEmbedder(4096).embed([first, second])
    return float(a @ b)


def test_rows_are_float32_of_length_one() -> None:
    vectors = HashingEmbedder().embed(["a walk in the park", "the", "x"])
    assert vectors.shape == (3, 512)
    assert vectors.dtype == np.float32
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("text", ["", "   ", "!? ...", "🎉"])
def test_text_without_words_gives_a_zero_row(text: str) -> None:
    assert not HashingEmbedder().embed([text]).any()


def test_no_texts_give_no_rows() -> None:
    assert HashingEmbedder(7).embed([]).shape == (0, 7)


@given(st.lists(st.text(max_size=40), max_size=6), st.integers(1, 64))
def test_row_depends_on_its_own_text_only(texts: list[str], dimension: int) -> None:
    embedder = HashingEmbedder(dimension)
    together = embedder.embed(texts)
    for row, text in zip(together, texts, strict=True):
        assert np.array_equal(row, embedder.embed([text])[0])


def test_bits_are_the_same_in_every_process_and_for_ever() -> None:
    # The fingerprint says v1: whoever changes these bits must change the version, or old caches lie.
    expected = "da398af16b08dcaf1db430a61925ccba263e869e94b2645f997fbe726628c819"
    assert sha256_bytes(HashingEmbedder().embed([TEXT]).astype("<f4").tobytes()) == expected
    program = (
        "from longmemeval.embedding.hashing import HashingEmbedder; from longmemeval.core.files import sha256_bytes;"
        f"print(sha256_bytes(HashingEmbedder().embed([{TEXT!r}]).astype('<f4').tobytes()))"
    )
    for seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", program], env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        )
        assert done.stdout.strip() == expected


def test_one_word_has_the_weights_computed_by_hand() -> None:
    # <cat> has the pieces <ca cat at> <cat cat> <cat>: six of round(192 / sqrt(6)) = 78 beside the word's 256.
    (vector,) = HashingEmbedder(65_536).embed(["cat"])
    length = (256**2 + 6 * 78**2) ** 0.5
    assert sorted(abs(vector[vector != 0])) == pytest.approx([78 / length] * 6 + [256 / length])


def test_case_and_accents_do_not_matter() -> None:
    assert similarity("Zoë visited MÁLAGA", "zoe visited malaga") == pytest.approx(1.0, abs=1e-6)


def test_shared_word_weighs_more_than_shared_pieces_and_pieces_more_than_nothing() -> None:
    shared_word = similarity("greyhound racing", "greyhound puppies")
    shared_pieces = similarity("greyhound racing", "greyhounds puppies")
    nothing = similarity("greyhound racing", "violin lessons")
    assert shared_word > shared_pieces > nothing + 0.1


def test_common_words_weigh_less_than_rare_ones() -> None:
    question = "what was the name of the dentist"
    assert similarity(question, "my dentist moved") > similarity(question, "what was the of the")


def test_repetition_adds_less_each_time() -> None:
    # Against "cat dog" the share of "cat" grows with ln, so eight cats are far from eight times one cat.
    once, thrice, often = (similarity("cat " * n + "dog", "cat") for n in (1, 3, 8))
    assert once < thrice < often < 0.97
    assert thrice - once > often - thrice


@pytest.mark.parametrize("dimension", [0, -3, 65_537])
def test_dimension_out_of_range_is_refused(dimension: int) -> None:
    with pytest.raises(HarnessError, match="65536"):
        HashingEmbedder(dimension)


@pytest.mark.thorough
def test_turns_take_time_in_proportion() -> None:
    words = [f"word{i % 997}" for i in range(170)]
    turns = [" ".join([*words[i % 50 :], f"turn{i}"]) for i in range(1_200)]
    assert growth(lambda size: HashingEmbedder().embed(turns[:size]), 300) < IN_PROPORTION
