"""The messages of a recall as dated text files, and the three tools over them: list, search and read.

A file is a session, named by a running number and its day, never by the session's id, which may reveal its purpose.
"""

from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from itertools import groupby
from math import log
from typing import TypeVar

from msgspec import Struct

from longmemeval.core.text.figures import count_of
from longmemeval.core.text.words import content_words
from longmemeval.errors import nearest
from longmemeval.reading.history import Chunk, render_chunk
from longmemeval.reading.options import HistoryFormat
from longmemeval.records import RecalledItem

T = TypeVar("T")
_LISTED = 100
_HITS = 10
_BEGINNING = 300
"""Characters of a message that a search shows."""
_PART = 12_000
"""Characters of a file that one call reads; a single longer message is shown in full."""


class ToolResult(Struct, frozen=True):
    """The result of a tool call."""

    text: str
    items: tuple[RecalledItem, ...] = ()
    """Messages that the text shows in full."""
    outcome: str = ""
    """The outcome in a few words, for the record."""


class TextFile(Struct, frozen=True):
    """One session."""

    name: str
    items: tuple[RecalledItem, ...]


class Files:
    """The files of one recall.

    Args:
        items: oldest first. Items that are not messages (facts, summaries) are in files of their own.
        history_format: the layout of a file's text.
    """

    def __init__(self, items: Sequence[RecalledItem], history_format: HistoryFormat) -> None:
        self._format = history_format
        groups = [tuple(group) for _, group in groupby(items, key=_session)]
        self._files = {
            name: TextFile(name, group)
            for number, group in enumerate(groups, start=1)
            for name in [f"{number:03}_{_day(group[0])}.txt"]
        }

    def __str__(self) -> str:
        names = list(self._files)
        return f"{count_of(len(names), 'file')}, {names[0]} to {names[-1]}." if names else "there are none."

    def list_files(self, page: int = 1) -> ToolResult:
        """Return one page of names and sizes."""
        files = list(self._files.values())
        lines = [f"{file.name}: {count_of(len(file.items), 'message')}" for file in _page(files, page, _LISTED)]
        shown = "\n".join([*lines, *_more(len(files), page, _LISTED)]) or "There are no files."
        return ToolResult(shown, outcome=count_of(len(lines), "file"))

    def search_files(self, query: str, page: int = 1) -> ToolResult:
        """Return the messages that share the most words with a query; rare words count more."""
        wanted = set(content_words(query))
        scored = [
            (sum(self._rarity[word] for word in wanted & words), -place)
            for place, (_, _, _, words) in enumerate(self._messages)
            if wanted & words
        ]
        places = [-place for _, place in sorted(scored, reverse=True)]
        hits = [self._messages[place] for place in _page(places, page, _HITS)]
        lines = [f"{name}, message {number}: {_beginning(item)}" for name, number, item, _ in hits]
        text = "\n".join([*lines, *_more(len(places), page, _HITS)]) or "No message has any of these words."
        whole = tuple(item for _, _, item, _ in hits if len(_line(item)) <= _BEGINNING)
        return ToolResult(text, whole, count_of(len(hits), "hit"))

    def read_file(self, name: str, from_message: int = 1) -> ToolResult:
        """Return messages of a file from a given one on, as many as fit one reply."""
        file = self._files.get(name)
        if file is None:
            return ToolResult(f"There is no file '{name}'. {nearest(name, self._files)}", outcome="no such file")
        first = max(from_message, 1)
        shown = list(file.items[first - 1 : first])
        for item in file.items[first:]:
            if sum(len(_line(message)) for message in (*shown, item)) > _PART:
                break
            shown.append(item)
        if not shown:
            return ToolResult(f"{name} has {count_of(len(file.items), 'message')}.", outcome="no such message")
        last = first + len(shown) - 1
        text = render_chunk(Chunk(shown[0].date, tuple(shown)), self._format)
        if last < len(file.items):
            text += f"\n\n(messages {first} to {last} of {len(file.items)}; read on with from_message {last + 1})"
        return ToolResult(text, tuple(shown), f"messages {first} to {last} of {len(file.items)}")

    @cached_property
    def _messages(self) -> list[tuple[str, int, RecalledItem, set[str]]]:
        """Each message with its file, its number there and its words."""
        return [
            (file.name, number, item, set(content_words(item.text)))
            for file in self._files.values()
            for number, item in enumerate(file.items, start=1)
        ]

    @cached_property
    def _rarity(self) -> dict[str, float]:
        """The weight of each word: ln(1 + messages / messages with it)."""
        counts = Counter(word for _, _, _, words in self._messages for word in words)
        return {word: log(1 + len(self._messages) / count) for word, count in counts.items()}


def _session(item: RecalledItem) -> tuple[object, ...]:
    return item.kind == "message", item.thread_ids, item.date and item.date.date()


def _day(item: RecalledItem) -> str:
    return f"{item.date:%Y-%m-%d}" if item.date else "undated"


def _line(item: RecalledItem) -> str:
    text = item.text.strip()
    return f"{item.speaker}: {text}" if item.speaker else text


def _beginning(item: RecalledItem) -> str:
    line = " ".join(_line(item).split())
    return line if len(_line(item)) <= _BEGINNING else f"{line[:_BEGINNING]} …"


def _page(items: Sequence[T], page: int, size: int) -> Sequence[T]:
    return items[(max(page, 1) - 1) * size : max(page, 1) * size]


def _more(count: int, page: int, size: int) -> list[str]:
    left = count - max(page, 1) * size
    return [f"({left:,} more: page {max(page, 1) + 1})"] if left > 0 else []
