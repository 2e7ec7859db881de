"""The BM25 of LongMemEval's `flat-bm25`: `BM25Okapi` of the library rank-bm25 with its defaults, equal to the last bit.

rank-bm25 counts words in dictionaries and weighs every one of them. Here words become numbers that numpy counts, and
only the query's are weighed. What remains of the vocabulary is its average weight, of which words in more than half of
the documents get a share. `equals_library` holds both against each other; runs do so on their first questions.
"""

from collections.abc import Sequence
from functools import cache, lru_cache
from math import log
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

_K1 = 1.5
_B = 0.75
_EPSILON = 0.25

_MASKS = np.array([(1 << 8 * length) - 1 for length in range(9)], np.uint64)
"""What of eight bytes, read as a number, belongs to a word of so many bytes."""
_MIXERS = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F], np.uint64)
"""Odd numbers that spread what they are multiplied by (Knuth, The Art of Computer Programming 3, section 6.4)."""

Integers = NDArray[np.int64]
Keys = NDArray[np.uint64]


class _Corpus(NamedTuple):
    """The words of a corpus as numbers; equal words have equal numbers, which rise in order of first appearance."""

    words: Integers
    """Of all documents, one after the other."""
    query: list[int]
    lengths: Integers
    """Words in each document."""
    owners: Integers
    """The document of each word."""
    holders: Integers
    """By number of a word: documents that have it; 0 where no word has the number."""


def scores(documents: Sequence[str], query: str) -> NDArray[np.float64]:
    """Score every document for a query.

    Texts are split at single spaces, as `run_retrieval.py` does: case and punctuation count, two spaces in a row hold
    an empty word, an empty text is one empty word.

    Args:
        documents: the texts; without any there are no scores, where rank-bm25 divides by zero.
        query: a word that is repeated counts repeatedly.

    Returns:
        Array of shape (len(documents),), what `BM25Okapi(documents).get_scores(query)` gives, bit for bit.
    """
    total = np.zeros(len(documents))
    if not documents:
        return total
    _keep_freed_memory()
    corpus = _corpus(documents, query)
    norms = _K1 * (1 - _B + _B * corpus.lengths / (len(corpus.words) / len(documents)))
    weights = _weights(corpus)
    frequencies = {
        word: np.bincount(corpus.owners[np.flatnonzero(corpus.words == word)], minlength=len(documents))
        for word in weights
    }
    for word in corpus.query:
        total += weights[word] * (frequencies[word] * (_K1 + 1) / (frequencies[word] + norms))
    return total


def equals_library(documents: Sequence[str], query: str) -> bool:
    """Whether `scores` of `documents`, at least one, are what the installed rank-bm25 gives, to the last bit."""
    from rank_bm25 import BM25Okapi

    library = BM25Okapi([document.split(" ") for document in documents])
    return np.array_equal(library.get_scores(query.split(" ")), scores(documents, query))


def _weights(corpus: _Corpus) -> dict[int, float]:
    """Inverse document frequency of the query's words; 0 for one in no document, a share of the average below 0."""
    table = _idf_table(len(corpus.lengths))
    weights = {word: float(table[count]) if (count := corpus.holders[word]) else 0.0 for word in corpus.query}
    if min(weights.values()) >= 0:
        return weights
    # Added up one by one in order of first appearance: another order would round otherwise.
    counts = corpus.holders[np.flatnonzero(corpus.holders > 0)]
    floor = _EPSILON * (float(np.cumsum(table[counts])[-1]) / len(counts))
    return {word: floor if weight < 0 else weight for word, weight in weights.items()}


@cache
def _keep_freed_memory() -> None:
    """Have glibc keep what is freed: it does so for blocks smaller than one that was freed, which is never touched.

    Else freed memory goes back and comes again page by page, which takes as long as the counting.
    """
    np.empty(1 << 24, np.uint8)


@lru_cache(maxsize=64)
def _idf_table(documents: int) -> NDArray[np.float64]:
    """The inverse document frequency of a word in n of the documents, ln(N - n + 1/2) - ln(n + 1/2), at index n."""
    # numpy's logarithm may differ from the standard library's in the last bit.
    logarithms = np.array([log(count + 0.5) for count in range(documents + 1)])
    table: NDArray[np.float64] = logarithms[::-1] - logarithms
    return table


def _corpus(documents: Sequence[str], query: str) -> _Corpus:
    texts = [text.encode("utf-8", "surrogatepass") for text in (*documents, query)]
    # Spaces become zeros, which no word then holds. The zeros behind the last word are for reading beyond it.
    data = np.frombuffer(b" ".join(texts) + b" " * 16, np.uint8) ^ np.uint8(ord(" "))
    ends = np.flatnonzero(data[:-15] == 0)
    numbers = _first_equals(*_keys(data, ends), _MIXERS)
    # The query is the last text.
    last_words = np.searchsorted(ends, np.cumsum([len(text) + 1 for text in texts[:-1]]) - 1)
    words, asked = np.split(numbers, [last_words[-1] + 1])
    lengths = np.diff(last_words, prepend=-1)
    owners = np.repeat(np.arange(len(documents)), lengths)
    bits = len(documents).bit_length()
    held = np.sort(words << bits | owners)
    distinct = held[1:][np.flatnonzero(held[1:] != held[:-1])]
    holders = np.bincount(distinct >> bits, minlength=len(numbers))
    # The pair before all others: word 0 in document 0.
    holders[0] += 1
    return _Corpus(words, asked.tolist(), lengths, owners, holders)


def _keys(data: NDArray[np.uint8], ends: Integers) -> tuple[Keys, Keys]:
    """Two numbers for each word, the same for the same word alone: its first and its next eight bytes.

    Args:
        data: the words, each with a zero behind it, and 15 zeros more.
        ends: where those zeros are.
    """
    starts = np.append(0, ends[:-1] + 1)
    lengths = ends - starts
    eights = np.ndarray((len(data) - 7,), "<u8", data, strides=(1,))
    head = eights.take(starts) & _MASKS[np.minimum(lengths, 8)]
    tail = np.zeros_like(head)
    long = np.flatnonzero(lengths > 8)
    tail[long] = eights[starts[long] + 8] & _MASKS[np.minimum(lengths[long] - 8, 8)]
    numbers: dict[bytes, int] = {}
    for place in long[lengths[long] > 16].tolist():
        word = data[starts[place] : ends[place]].tobytes()
        # Its first byte is zero, as no other word's is but the empty one's, whose key is zero.
        head[place] = numbers.setdefault(word, len(numbers) + 1) << 8
        tail[place] = 0
    return head, tail


def _first_equals(head: Keys, tail: Keys, mixers: Keys) -> Integers:
    """For each pair of keys the place where the same pair comes first.

    A hash table without lists: a slot holds the first place that falls into it; those who find another pair there are
    looked at once more among themselves, spread otherwise.
    """
    bits = len(head).bit_length() + 1
    slots = ((head * mixers[0] + tail * mixers[1]) >> np.uint64(64 - bits)).view(np.int64)
    table = np.empty(1 << bits, np.int64)
    # Where an index is repeated, the last assignment stays.
    table[slots[::-1]] = np.arange(len(head) - 1, -1, -1)
    found: Integers = table[slots]
    others = np.flatnonzero((head[found] != head) | (tail[found] != tail))
    if others.size:
        found[others] = others[_first_equals(head[others], tail[others], mixers * mixers)]
    return found
