"""How much disk a preparation takes: fixtures by the form of their parts, the caches by what is not in them yet."""

import shutil
from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from longmemeval.errors import HarnessError
from longmemeval.pipeline.embedded_parts import VECTOR_PART, TextsToEmbed
from longmemeval.pipeline.recipes import HNSW_M
from longmemeval.records import Haystack, Message
from longmemeval.retrieval.dates import DATES_PART, encode_dates
from longmemeval.retrieval.expansion import is_expansion_part, is_vectors_part
from longmemeval.retrieval.word_counts import WORDS_PART, encode_words
from longmemeval.storage.fixture import part_file
from longmemeval.storage.messages import haystack_messages

_BLOCK = 4096
"""Bytes in which file systems give out room."""
_SAMPLED = 8
"""Haystacks of which the parts are made whose size depends on what is said."""

# Indented JSON: what a message, a thread and an item of an index take beside their compact JSON.
_MESSAGE_INDENT, _THREAD_BYTES, _ITEM_BYTES = 65, 175, 58
_WORKING_MEMORY_SHARE, _TEMPLATE_BYTES = 0.03, 800
_META_BYTES, _RECIPE_BYTES = 450, 200
# A key expansion with its id, and what a model says of a session.
_KEY_BYTES, _REPLY_BYTES = 250, 2500

_PAGE, _ROW_OVERHEAD, _INDEX_ROW = 16384, 56, 50
"""Of the caches: bytes of a page, of a row beside its value, and of its entry in the index."""


class DiskNeed(Struct, frozen=True):
    """Bytes that will be written."""

    fixtures: float
    cache: float

    @property
    def total(self) -> float:
        """All of them."""
        return self.fixtures + self.cache


class DiskEstimate:
    """Adds up what haystack after haystack takes.

    Args:
        haystacks: how many there are; the words of a few, evenly spread, are counted.
        dimension: numbers in a vector; 0 where nothing is embedded.
        exact: whether the index is without a graph.
    """

    def __init__(self, haystacks: int, dimension: int, *, exact: bool) -> None:
        self._every = max(1, haystacks // _SAMPLED)
        self._dimension = dimension
        self._exact = exact
        self._seen = 0
        self._bytes = 0.0
        self._said: dict[str, int] = {WORDS_PART: 0, DATES_PART: 0}
        """Characters of all haystacks that lack the part."""
        self._sampled: dict[str, tuple[int, float]] = {WORDS_PART: (0, 0), DATES_PART: (0, 0)}
        """By part: characters of the haystacks it was made of, and its bytes."""

    def add(
        self, haystack: Haystack, missing: Sequence[str], folder: Path, texts: dict[str, TextsToEmbed], questions: int
    ) -> None:
        """Take in one fixture.

        Args:
            haystack: what it is made of.
            missing: the parts to make.
            folder: where it is, if it is there: what is replaced makes room.
            texts: what is embedded, by part.
            questions: how many are asked about it.
        """
        messages = haystack_messages(haystack)
        threads = sum(len(session.session_id) for session in haystack.sessions)
        names = threads + 10 * len(haystack.sessions) + 30 * questions
        self._bytes += _on_disk(_META_BYTES + _RECIPE_BYTES * len(missing) + names)
        for part in missing:
            old = folder / part_file(part)
            self._bytes -= _on_disk(old.stat().st_size) if old.exists() else 0
            self._bytes += _on_disk(self._size(part, messages, haystack, texts))
        for part in self._said.keys() & set(missing):
            self._said[part] += _characters(messages)
            if self._seen % self._every == 0:
                said, made = self._sampled[part]
                encoded = encode_words(messages) if part == WORDS_PART else encode_dates(messages)
                self._sampled[part] = said + _characters(messages), made + _on_disk(len(encoded))
        self._seen += 1

    def need(self, new_texts: int, replies: int) -> DiskNeed:
        """What all haystacks together take.

        Args:
            new_texts: texts that are not in the cache yet.
            replies: calls of a chat model that are to be made.
        """
        scaled = sum(self._said[part] * made / said for part, (said, made) in self._sampled.items() if said)
        cache = new_texts * _row_on_disk(4 * self._dimension) + replies * _row_on_disk(_REPLY_BYTES)
        return DiskNeed(self._bytes + scaled, cache)

    def _size(
        self, part: str, messages: Sequence[Message], haystack: Haystack, texts: dict[str, TextsToEmbed]
    ) -> float:
        """Bytes of a part; 0 for those that are sampled."""
        if part == "db":
            text = len(msgspec.json.encode(messages)) + _WORKING_MEMORY_SHARE * _characters(messages)
            return text + _MESSAGE_INDENT * len(messages) + _THREAD_BYTES * len(haystack.sessions) + _TEMPLATE_BYTES
        if part == VECTOR_PART or is_vectors_part(part):
            # Keys that are not made yet: about one for each message.
            items = texts[part].items if part in texts else messages
            names = sum(2 * len(item.thread_id) + 2 for item in items)
            graph = 0 if self._exact or is_vectors_part(part) else 4 * (2 * HNSW_M + 1) + 4 + 4 * (HNSW_M + 1) / HNSW_M
            return len(items) * ((4 * self._dimension + graph) * 4 / 3 + _ITEM_BYTES - 15) + names
        return _KEY_BYTES * len(messages) if is_expansion_part(part) else 0.0


def _characters(messages: Sequence[Message]) -> int:
    return sum(len(message.content) for message in messages)


def _on_disk(size: float) -> float:
    return -(-size // _BLOCK) * _BLOCK


def _row_on_disk(size: int) -> float:
    """Bytes that a cache takes for a value: pages hold whole rows."""
    row = size + _ROW_OVERHEAD
    return (_PAGE / (_PAGE // row) if row <= _PAGE else _on_disk(row)) + _INDEX_ROW


def free_bytes(folder: Path) -> int:
    """What this user may still write where `folder` is, or will be."""
    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    return shutil.disk_usage(there).free


def shown_bytes(size: float) -> str:
    """`3.2 GB`, `45 MB`, `120 kB`."""
    for unit, name in ((1e9, "GB"), (1e6, "MB")):
        if size >= unit:
            return f"{size / unit:.1f} {name}" if size < 10 * unit else f"{size / unit:,.0f} {name}"
    return f"{size / 1e3:,.0f} kB"


def no_room(need: DiskNeed, root: Path) -> HarnessError | None:
    """What to say where there is not enough room; None where there is."""
    free = free_bytes(root)
    if need.total <= free:
        return None
    parts = f"{shown_bytes(need.fixtures)} for fixtures, {shown_bytes(need.cache)} for cached vectors and replies"
    return HarnessError(
        f"There is not enough room on the disk: this takes about {shown_bytes(need.total)} ({parts}), and "
        f"{shown_bytes(free)} are free",
        where=str(root),
        fix="Make room, name a folder on another disk with --prepared-dir, or prepare fewer questions (--limit)",
    )
