"""The words of a haystack, counted at prepare: the fixture part `words.json`.

Counts are stored per message; rankings of turns, rounds or sessions, of one side or both, add them up.
"""

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from longmemeval.core.text.words import is_unspaced, search_words
from longmemeval.errors import FixtureError
from longmemeval.records import FixtureMeta, Message, PartInfo
from longmemeval.storage.messages_part import MESSAGES
from longmemeval.storage.part_files import FORMAT, REMAKE, decode_versioned
from longmemeval.storage.parts import Part, PartInput, PartOutput, PartTools, Stored

WORDS_RECIPE: dict[str, Any] = {"version": 3}
"""Increase the version when the rules of `search_words`, the definition of a question here, or the file change."""
_READ = (WORDS_RECIPE, {"version": 2}, {"version": 1})
"""Versions 1 and 2 had a run of Chinese or Japanese as one word; version 1 had the words as a list."""

SENTENCE = re.compile(r"[^.!?\n]*[.!?\n]+|[^.!?\n]+$")

Integers = NDArray[np.int32] | NDArray[np.int64]

_BLOCK_WORDS = 1 << 18
"""Words counted at a time."""


class WordCounts(Struct, frozen=True):
    """Occurrences of each word in each of several texts, as entries ordered by word."""

    texts: int
    """Number of texts."""
    numbers: Mapping[str, int]
    """Number of each word: its position among all in the order of their code points."""
    starts: Integers
    """Start of the entries of each word, and the end of the last; shape (words + 1,)."""
    places: Integers
    """Text of each entry, shape (entries,); ascending within a word."""
    counts: Integers
    """Occurrences of the word in it, shape (entries,)."""
    stated: Integers
    """Number of words of each text that are not in a question, shape (texts,)."""

    def entries(self, word: str) -> slice:
        """Return the entries of `word`; none if no text contains it."""
        number = self.numbers.get(word)
        return slice(0, 0) if number is None else slice(int(self.starts[number]), int(self.starts[number + 1]))


class TextWords(NamedTuple):
    """Words of one text, by their numbers in a `Vocabulary`."""

    numbers: NDArray[np.int32]
    """Number of each word in order, shape (words,)."""
    stated: int
    """Number of words that are not in a question."""


class Vocabulary:
    """Reads texts once, and counts the words of any subset of them."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def read(self, text: str) -> TextWords:
        """Return the content words of `text`, stemmed as queries are."""
        found: list[int] = []
        stated = 0
        for sentence in SENTENCE.findall(text):
            words = search_words(sentence)
            found += [self._numbers.setdefault(word, len(self._numbers)) for word in words]
            stated += 0 if sentence.rstrip().endswith("?") else len(words)
        return TextWords(np.array(found, np.int32), stated)

    def counts(self, texts: Sequence[TextWords]) -> WordCounts:
        """Count the words of some of the texts read; words of the others are numbered but have no entries."""
        ordered = {word: number for number, word in enumerate(sorted(self._numbers))}
        places_in_order = np.array([ordered[word] for word in self._numbers], np.int32)
        blocks = [_entries(block, first, places_in_order) for first, block in _blocks(texts)]
        entry_counts = np.zeros(len(ordered), np.int64)
        for block in blocks:
            entry_counts += np.bincount(block.words, minlength=len(ordered))
        starts = np.concatenate(([0], np.cumsum(entry_counts)))
        # Entries of a block follow those of earlier blocks, word by word, so that no full sort is needed.
        places, counts = (np.empty(starts[-1], np.int32) for _ in range(2))
        following = starts[:-1].copy()
        for block in blocks:
            in_block = np.bincount(block.words, minlength=len(ordered))
            first = np.cumsum(in_block) - in_block
            targets = following[block.words] + np.arange(len(block.words)) - first[block.words]
            places[targets], counts[targets] = block.places, block.counts
            following += in_block
        stated = np.array([text.stated for text in texts], np.int64)
        return WordCounts(len(texts), ordered, starts, places, counts, stated)


class _Entries(NamedTuple):
    """The entries of some consecutive texts, by word and then by text; each of shape (entries,)."""

    words: NDArray[np.int32]
    places: NDArray[np.int32]
    counts: NDArray[np.int32]


def _blocks(texts: Sequence[TextWords]) -> Iterator[tuple[int, Sequence[TextWords]]]:
    """Split texts into blocks of about `_BLOCK_WORDS` words, each with the position of its first text."""
    first, words = 0, 0
    for place, text in enumerate(texts, start=1):
        words += len(text.numbers)
        if words >= _BLOCK_WORDS or place == len(texts):
            yield first, texts[first:place]
            first, words = place, 0


def _entries(texts: Sequence[TextWords], first: int, numbers: NDArray[np.int32]) -> _Entries:
    """Count the occurrences of each word in each of the texts.

    Args:
        texts: texts of a block.
        first: position of the first of them.
        numbers: number of each word by its number in the vocabulary.
    """
    found = numbers[np.concatenate([text.numbers for text in texts])].astype(np.int64)
    keys = found * len(texts) + np.repeat(np.arange(len(texts)), [len(text.numbers) for text in texts])
    distinct, counts = np.unique(keys, return_counts=True)
    words, places = np.divmod(distinct, len(texts))
    return _Entries(words.astype(np.int32), (places + first).astype(np.int32), counts.astype(np.int32))


def count_words(texts: Iterable[str]) -> WordCounts:
    """Count the content words of `texts`, stemmed as queries are."""
    vocabulary = Vocabulary()
    return vocabulary.counts([vocabulary.read(text) for text in texts])


class SortedWords(Mapping[str, int]):
    """Numbers of counted words, looked up in their text: nothing is built for unused ones.

    Args:
        words: in the order of their code points, separated by blanks.
    """

    def __init__(self, words: str) -> None:
        self._text = words.encode()
        blanks = np.flatnonzero(np.frombuffer(self._text, np.uint8) == ord(" "))
        self._starts = np.concatenate(([0], blanks + 1, [len(self._text) + 1])) if words else np.zeros(1, np.int64)

    def __len__(self) -> int:
        return len(self._starts) - 1

    def __iter__(self) -> Iterator[str]:
        return (self._word(number).decode() for number in range(len(self)))

    def __getitem__(self, word: str) -> int:
        # Bytes of UTF-8 have the order of the code points.
        wanted = word.encode(errors="surrogatepass")
        number = bisect_left(range(len(self)), wanted, key=self._word)
        if number == len(self) or self._word(number) != wanted:
            raise KeyError(word)
        return number

    def _word(self, number: int) -> bytes:
        return self._text[self._starts[number] : self._starts[number + 1] - 1]


class _WordsFile(Struct, frozen=True):
    """`words.json` as stored on disk; arrays are int32, little-endian, in base64."""

    format: int
    messages: int
    words: str | list[str]
    starts: bytes
    places: bytes
    counts: bytes
    stated: bytes


def encode_words(messages: Iterable[Message]) -> bytes:
    """Return the part for `messages`: JSON, the same bytes for the same messages."""
    counted = count_words([message.content for message in messages])
    arrays = (counted.starts, counted.places, counted.counts, counted.stated)
    file = _WordsFile(
        FORMAT, counted.texts, " ".join(counted.numbers), *(array.astype("<i4").tobytes() for array in arrays)
    )
    return msgspec.json.format(msgspec.json.encode(file), indent=2) + b"\n"


def decode_words(data: bytes, where: str) -> WordCounts:
    """Read the counts that `encode_words` wrote.

    Args:
        data: bytes of the part.
        where: the part, for errors.

    Raises:
        FixtureError: newer format, not such a part, or one that contradicts itself.
    """
    file = decode_versioned(data, _WordsFile, where)
    starts, places, counts, stated = map(_integers, (file.starts, file.places, file.counts, file.stated))
    numbers: Mapping[str, int]
    if isinstance(file.words, str):
        numbers, distinct = SortedWords(file.words), True
    else:
        numbers = {word: number for number, word in enumerate(file.words)}
        distinct = len(numbers) == len(file.words)
    fits = (
        distinct
        and len(numbers) == len(starts) - 1
        and len(stated) == file.messages
        and len(places) == len(counts)
        and starts[0] == 0
        and starts[-1] == len(places)
        and (np.diff(starts) >= 0).all()
        and (not len(places) or 0 <= places.min() <= places.max() < file.messages)
    )
    if not fits:
        raise FixtureError("Words, places and counts do not fit together", where=where, fix=REMAKE)
    return WordCounts(file.messages, numbers, starts, places, counts, stated)


def _integers(data: bytes) -> Integers:
    # If the length is not a multiple of 4, the array will not fit the others.
    return np.frombuffer(data[: len(data) // 4 * 4], dtype="<i4").astype(np.int32, copy=False)


class WordsPart(Part[WordCounts]):
    """The words of all messages, counted when read if the part is missing or was made by other rules."""

    name = "words"
    derived = True

    def info(self, meta: FixtureMeta) -> PartInfo | None:
        """Return its entry in a fixture; None if its rules are not supported."""
        info = super().info(meta)
        return info if info and info.recipe in _READ else None

    def recipe(self, tools: PartTools) -> dict[str, Any]:
        """Return the version of the rules."""
        return WORDS_RECIPE

    def make(self, source: PartInput, tools: PartTools) -> PartOutput:
        """Count the words of the messages."""
        return PartOutput(encode_words(source.messages))

    def open(self, stored: Stored) -> WordCounts:
        """Return the counts.

        Raises:
            FixtureError: the part is damaged, or counts other messages than the fixture has.
        """
        messages = stored.part(MESSAGES).messages
        if stored.info is None:
            return count_words([message.content for message in messages])
        counted = decode_words(stored.data(), stored.where)
        if stored.info.recipe != WORDS_RECIPE and any(map(is_unspaced, counted.numbers)):
            return count_words([message.content for message in messages])
        if counted.texts != len(messages):
            what = f"The part counts {counted.texts} messages, db.json has {len(messages)}"
            raise FixtureError(what, where=stored.where, fix=REMAKE)
        return counted


WORDS = WordsPart()
