"""The BM25 of LongMemEval's `flat-bm25`: `BM25Okapi` of the library rank-bm25 with its defaults, equal to the last bit.

rank-bm25 counts words in dictionaries and weights all of them. Here words become numbers that numpy counts, and only
the words of the query are weighted. From the rest of the vocabulary only the average weight is needed, since words in
more than half of the documents get a share of it. `equals_library` compares both; runs do so on their first questions.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from math import log
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from longmemeval.core.text_files import decode_json, reading
from longmemeval.errors import DataError, HarnessError
from longmemeval.ranking.expansion.chat import ExpansionKind, ExpansionLevel
from longmemeval.ranking.expansion.part import JoinMode

_K1 = 1.5
_B = 0.75
_EPSILON = 0.25

_MASKS = np.array([(1 << 8 * length) - 1 for length in range(9)], np.uint64)
"""Masks for the part of eight bytes, read as a number, that belongs to a word of that many bytes."""
_MIXERS = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F], np.uint64)
"""Odd multipliers that spread keys over slots (Knuth, The Art of Computer Programming 3, section 6.4)."""

Integers = NDArray[np.int64]
Keys = NDArray[np.uint64]


class _Corpus(NamedTuple):
    """The words of a corpus as numbers; equal words have equal numbers, which rise in order of first appearance."""

    words: Integers
    """Words of all documents in sequence."""
    query: list[int]
    lengths: Integers
    """Number of words in each document."""
    owners: Integers
    """The document of each word."""
    holders: Integers
    """Number of documents with a word, by number of the word; 0 if no word has the number."""


def scores(documents: Sequence[str], query: str) -> NDArray[np.float64]:
    """Score every document for a query.

    Texts are split at single spaces, as in `run_retrieval.py`: case and punctuation count, two adjacent spaces enclose
    an empty word, an empty text is one empty word.

    Args:
        documents: the texts; without any there are no scores, whereas rank-bm25 divides by zero.
        query: the question; a repeated word counts repeatedly.

    Returns:
        Array of shape (len(documents),), equal to `BM25Okapi(documents).get_scores(query)` bit for bit.
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
    """Return whether `scores` of `documents`, at least one, equal those of the installed rank-bm25 to the last bit."""
    from rank_bm25 import BM25Okapi

    library = BM25Okapi([document.split(" ") for document in documents])
    return np.array_equal(library.get_scores(query.split(" ")), scores(documents, query))


def _weights(corpus: _Corpus) -> dict[int, float]:
    """Return the inverse document frequencies of the query's words, 0 for a word in no document.

    A share of the average replaces a negative value.
    """
    table = _idf_table(len(corpus.lengths))
    weights = {word: float(table[count]) if (count := corpus.holders[word]) else 0.0 for word in corpus.query}
    if min(weights.values()) >= 0:
        return weights
    # Summed one by one in order of first appearance: another order would round differently.
    counts = corpus.holders[np.flatnonzero(corpus.holders > 0)]
    floor = _EPSILON * (float(np.cumsum(table[counts])[-1]) / len(counts))
    return {word: floor if weight < 0 else weight for word, weight in weights.items()}


@cache
def _keep_freed_memory() -> None:
    """Make glibc keep freed memory, by freeing an untouched block: it keeps memory of blocks smaller than that.

    Otherwise freed memory is returned and mapped again page by page, which takes as long as the counting.
    """
    np.empty(1 << 24, np.uint8)


@lru_cache(maxsize=64)
def _idf_table(documents: int) -> NDArray[np.float64]:
    """Return the inverse document frequency of a word in n documents, ln(N - n + 1/2) - ln(n + 1/2), at index n."""
    # numpy's logarithm may differ from the standard library's in the last bit.
    logarithms = np.array([log(count + 0.5) for count in range(documents + 1)])
    table: NDArray[np.float64] = logarithms[::-1] - logarithms
    return table


def _corpus(documents: Sequence[str], query: str) -> _Corpus:
    texts = [text.encode("utf-8", "surrogatepass") for text in (*documents, query)]
    # Spaces become zeros, which no word contains. The zeros after the last word allow reading beyond it.
    data = np.frombuffer(b" ".join(texts) + b" " * 16, np.uint8) ^ np.uint8(ord(" "))
    ends = np.flatnonzero(data[:-15] == 0)
    numbers = _first_equals(*_keys(data, ends), _MIXERS)
    # The query is the last text.
    last_words = np.searchsorted(ends, np.cumsum([len(text) + 1 for text in texts[:-1]]) - 1)
    words, query_words = np.split(numbers, [last_words[-1] + 1])
    lengths = np.diff(last_words, prepend=-1)
    owners = np.repeat(np.arange(len(documents)), lengths)
    bits = len(documents).bit_length()
    held = np.sort(words << bits | owners)
    distinct = held[1:][np.flatnonzero(held[1:] != held[:-1])]
    holders = np.bincount(distinct >> bits, minlength=len(numbers))
    # The first pair, word 0 in document 0, is not covered by any difference.
    holders[0] += 1
    return _Corpus(words, query_words.tolist(), lengths, owners, holders)


def _keys(data: NDArray[np.uint8], ends: Integers) -> tuple[Keys, Keys]:
    """Return two numbers for each word, equal only for equal words: its first and its next eight bytes.

    Args:
        data: the words, each followed by a zero, and 15 more zeros.
        ends: indexes of the zeros after the words.
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
        # The first byte is zero, unlike in the key of any other word except the empty one, whose key is zero.
        head[place] = numbers.setdefault(word, len(numbers) + 1) << 8
        tail[place] = 0
    return head, tail


def _first_equals(head: Keys, tail: Keys, mixers: Keys) -> Integers:
    """Return, for each pair of keys, the index at which the same pair first occurs.

    It uses a hash table without lists: a slot holds the first index that falls into it; pairs that find a different
    pair there are processed again among themselves, with other multipliers.
    """
    bits = len(head).bit_length() + 1
    slots = ((head * mixers[0] + tail * mixers[1]) >> np.uint64(64 - bits)).view(np.int64)
    table = np.empty(1 << bits, np.int64)
    # For a repeated index, the last assignment stays.
    table[slots[::-1]] = np.arange(len(head) - 1, -1, -1)
    firsts: Integers = table[slots]
    others = np.flatnonzero((head[firsts] != head) | (tail[firsts] != tail))
    if others.size:
        firsts[others] = others[_first_equals(head[others], tail[others], mixers * mixers)]
    return firsts


# LongMemEval's own way of joining expansions with its corpus, faults included; only for its protocol.
#
# Facts: `src/retrieval/index_expansion_utils.py` and `run_retrieval.py` of github.com/xiaowu0162/LongMemEval at
# 9e0b455, join modes without `split-`. Differences from `joined_words` that change scores:
#
# - An empty list of facts takes the document out of the corpus (`merge`, `replace`).
# - A document relabelled `noans` never matches the id by which it is looked up, and stays as it is; under `separate`
#   its expansion is added under the id that counts as gold.
# - A session that occurs twice in a haystack is expanded twice, and each pass affects both documents.
# - Keys of sessions match no document of turns, nor vice versa; under `separate` they are added anyway.

OfficialExpansion = str | Sequence[object] | None
"""A value of an official cache file: a text, a list of facts, or null for a failed extraction."""

_KINDS: Mapping[ExpansionKind, str] = {"summary": "summ", "keyphrase": "keyphrase", "fact": "userfact"}
_METHODS = ("session-summ", "session-keyphrase", "session-userfact", "turn-keyphrase", "turn-userfact")


class CorpusItem(NamedTuple):
    """A document of the official corpus."""

    corpus_id: str
    text: str
    timestamp: str


def official_method(kind: ExpansionKind, level: ExpansionLevel, granularity: ExpansionLevel) -> str:
    """Return the official name of an expansion, such as `turn-userfact`.

    Args:
        level: level of the expansion.
        granularity: level of the documents in the corpus.

    Raises:
        HarnessError: the official code does not join such an expansion, or not with such a corpus.
    """
    method = f"{level}-{_KINDS.get(kind, kind)}"
    if method not in _METHODS:
        raise HarnessError(
            f"The official protocol has no expansion of kind '{kind}' at level '{level}'",
            fix="Set expansion to keyphrase or fact, or to summary with expansion_level=session",
        )
    # In the official code, facts of sessions escape this check because of a misspelt name.
    if granularity == "turn" and method in ("session-summ", "session-keyphrase"):
        raise HarnessError(
            f"The official protocol joins '{method}' with sessions only",
            fix="Use --granularity session, or another expansion",
        )
    return method


def read_official_cache(path: Path, method: str) -> dict[str, OfficialExpansion]:
    """Read expansions from a file of the official scripts: a JSON object from id to text, list of facts or null.

    Args:
        path: the file; the official code requires the method in its path.
        method: the method that the path must contain.

    Raises:
        HarnessError: the path does not contain the method.
        DataError: the file cannot be read, or is not such an object.
    """
    if method not in str(path):
        raise HarnessError(
            f"By its name, the expansion cache is not for '{method}'",
            where=str(path),
            fix="Name the file of that expansion; the official code looks for its name in the path too",
        )
    fix = "It must be one JSON object: session or turn id to a text, a list of facts, or null"
    with reading(
        "The expansion cache", path, "does not have the form that the official scripts write", kind=DataError, fix=fix
    ):
        cache = decode_json(path.read_bytes(), dict[str, OfficialExpansion])
    for name, value in cache.items():
        if isinstance(value, list) and len(value) != 1 and not method.endswith("userfact"):
            raise DataError(
                f"The entry '{name}' is a list of {len(value)}, but an expansion '{method}' is one text",
                where=str(path),
            )
    return cache


def official_cache(kind: ExpansionKind, texts: Mapping[str, Sequence[str]]) -> dict[str, OfficialExpansion]:
    """Return expansions as in an official cache file.

    Args:
        kind: kind of the expansions; facts stay a list, summaries are joined by spaces, keyphrases by semicolons.
        texts: official id, as in the data (`answer_` included), to the expansion's texts. No text becomes null, but an
            empty list of facts stays one.

    Raises:
        DataError: events, which the official code does not join.
    """
    if kind == "event":
        raise DataError("The official protocol does not join events", fix="Choose summary, keyphrase or fact")
    if kind == "fact":
        return {_cache_key(name): list(items) for name, items in texts.items()}
    separator = " " if kind == "summary" else "; "
    return {_cache_key(name): separator.join(items) or None for name, items in texts.items()}


def official_unit_id(unit_id: str, level: ExpansionLevel) -> str:
    """Return the official id of a stored unit: the thread id of a session; `session_1` for the turn `session:0`."""
    if level == "session":
        return unit_id
    session_id, _, index = unit_id.rpartition(":")
    return f"{session_id}_{int(index) + 1}"


def official_join(
    corpus: Sequence[CorpusItem],
    units: Sequence[tuple[str, str]],
    cache: Mapping[str, OfficialExpansion],
    mode: JoinMode,
) -> list[CorpusItem]:
    """Return the corpus after index expansion.

    Args:
        corpus: the documents in file order, ids relabelled where they are not gold.
        units: id and timestamp of every session, or of every user turn (`{session}_{position from 1}`), in file order,
            each as often as in the haystack; ids as in the data, not relabelled.
        cache: content of an official cache file: id without `answer_` and `noans_`, to the expansion.
        mode: `separate` appends documents, `merge` puts expansion and space before the text, `replace` replaces it.
    """
    if mode == "separate":
        return [
            *corpus,
            *(
                CorpusItem(unit_id, text, timestamp)
                for unit_id, timestamp in units
                for text in _official_texts(cache.get(_cache_key(unit_id)))
            ),
        ]
    passes = Counter(unit_id for unit_id, _ in units)
    joined: list[CorpusItem] = []
    for item in corpus:
        items = [item]
        texts = _official_texts(cache.get(_cache_key(item.corpus_id))) if item.corpus_id in passes else []
        for _ in range(passes[item.corpus_id]):
            items = [_expanded(variant, text, mode) for variant in items for text in texts]
        joined += items
    return joined


def _cache_key(unit_id: str) -> str:
    return unit_id.replace("answer_", "").replace("noans_", "")


def _official_texts(expansion: OfficialExpansion) -> list[str]:
    """Return at most one text; none only for an empty list."""
    if expansion is None:
        return [""]
    if isinstance(expansion, str):
        return [expansion]
    return [" ".join(map(str, expansion))] if expansion else []


def _expanded(item: CorpusItem, text: str, mode: JoinMode) -> CorpusItem:
    return item._replace(text=f"{text} {item.text}" if mode == "merge" else text)
