"""The offline fallback: vectors from hashed words and word pieces, with no model and no download."""

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from longmemeval.core.arrays import Vectors
from longmemeval.embedding.protocol import EmbedderKind, EmbedderSettings
from longmemeval.errors import HarnessError

DEFAULT_DIMENSION = 512
MAX_DIMENSION = 65_536

_WORD = re.compile(r"\w+")
_PIECE_LENGTHS = (3, 4, 5)
# Weights are integers: sums of integers are exact in any order, so every machine computes the same vector.
_WORD_WEIGHT = 256
_PIECES_WEIGHT = 192  # length of all pieces of a word together
_STOP_WORD_DIVISOR = 4
_STOP_TEXT = """
a about after all also am an and any are as at be been but by can could d did do does for from had has have he her here
him his how i if in into is it its just like ll m me more my no not of on one or our out re s she should so some t than
that the their them then there these they this those to too up us ve very was we were what when where which who why
will with would you your
"""
_STOP_WORDS = frozenset(_STOP_TEXT.split())
_MEMOISED_WORDS = 65_536


class HashingEmbedder:
    """Signed feature hashing of words and of their character 3- to 5-grams; for use without a model.

    It compares words and word pieces, not meaning: results made with it say little about dense retrieval.

    A text is lower-cased and its accents are folded. Each distinct word adds its own feature and, together weighing
    less, its pieces (`<cat>` gives `<ca`, `cat`, `at>`, …), times 1 + ln(occurrences). Common English words weigh a
    quarter. Features are placed and signed by BLAKE2b, as in Weinberger et al., "Feature Hashing for Large Scale
    Multitask Learning" (ICML 2009). Vectors are equal to the last bit in every process and on every platform.

    Args:
        dimension: length of a vector, 1 to `MAX_DIMENSION`.

    Raises:
        HarnessError: the dimension is out of range.
    """

    is_light = True
    """Marks a light embedder, see `cache.Light`."""

    def __init__(self, dimension: int = DEFAULT_DIMENSION) -> None:
        if not 1 <= dimension <= MAX_DIMENSION:
            raise HarnessError(
                f"A hashing embedder cannot have {dimension} dimensions",
                fix=f"Choose 1 to {MAX_DIMENSION}, e.g. hashing:{DEFAULT_DIMENSION}",
            )
        self.dimension = dimension
        self.spec = f"hashing:{dimension}"
        self.fingerprint = f"hashing-v1:{dimension}"

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Embed `texts`; see `Embedder.embed`. A text without any word gives a zero row."""
        vectors = np.zeros((len(texts), self.dimension), dtype=np.float32)
        for row, text in zip(vectors, texts, strict=True):
            counts = Counter(_WORD.findall(_fold(text)))
            if counts:
                row[:] = _unit(self._sum_features(counts))
        return vectors

    def _sum_features(self, counts: Counter[str]) -> NDArray[np.int64]:
        features = [_word_features(word, self.dimension) for word in counts]
        factors = np.repeat([_frequency_factor(count) for count in counts.values()], [f.shape[1] for f in features])
        positions, weights = np.concatenate(features, axis=1)
        return np.bincount(positions, weights=weights * factors, minlength=self.dimension).astype(np.int64)


def _fold(text: str) -> str:
    text = text.lower()
    if text.isascii():
        return text
    return "".join(letter for letter in unicodedata.normalize("NFKD", text) if not unicodedata.combining(letter))


@lru_cache(maxsize=256)
def _frequency_factor(count: int) -> int:
    return round(16 * (1 + math.log(count)))


@lru_cache(maxsize=_MEMOISED_WORDS)
def _word_features(word: str, dimension: int) -> NDArray[np.int64]:
    """Return the features of one word, shape (2, features): row 0 the positions, row 1 the signed weights."""
    marked = f"<{word}>"
    pieces = [marked[i : i + n] for n in _PIECE_LENGTHS for i in range(len(marked) - n + 1)]
    divisor = _STOP_WORD_DIVISOR if word in _STOP_WORDS else 1
    piece_weight = round(_PIECES_WEIGHT / math.sqrt(len(pieces)) / divisor)
    placed = [_place(f"word {word}", dimension, _WORD_WEIGHT // divisor)]
    placed += [_place(f"piece {piece}", dimension, piece_weight) for piece in pieces]
    return np.array(placed, dtype=np.int64).T


def _place(feature: str, dimension: int, weight: int) -> tuple[int, int]:
    value = int.from_bytes(blake2b(feature.encode(), digest_size=8).digest(), "little")
    return (value >> 1) % dimension, weight if value & 1 else -weight


def _unit(vector: NDArray[np.int64]) -> Vectors:
    length = math.sqrt(int(vector @ vector))
    return (vector / (length or 1.0)).astype(np.float32)


def _hashing(dimension: str, settings: EmbedderSettings) -> HashingEmbedder:
    if not dimension:
        return HashingEmbedder()
    if not (dimension.isascii() and dimension.isdigit()):
        raise HarnessError(
            "The dimension is not a whole number", where=f"hashing:{dimension}", fix="Write it like hashing:512"
        )
    return HashingEmbedder(int(dimension))


HASHING = EmbedderKind(_hashing)
