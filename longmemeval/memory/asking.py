"""Ask a chat model for items in a session: one call, one more if the reply is unreadable; every item is checked.

Items of a reply that fail their check are dropped and counted by reason; the first few are also noted one by one.
"""

import asyncio
import re
import traceback
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Generic, TypeVar

from msgspec import Struct

from longmemeval.core.interruption import is_interrupt
from longmemeval.errors import HarnessError, RecallError
from longmemeval.llm.json_reply import ask_for_list, one_line, recipe_of
from longmemeval.llm.protocol import ChatMessage, ChatModel
from longmemeval.memory.protocol import MemorySystem
from longmemeval.records import Question, Recall
from longmemeval.storage.fixture import Fixture

T = TypeVar("T")

MAX_TOKENS = 4000
MOST_CALLS = 8
"""Maximum concurrent calls per haystack."""
UNREADABLE = "reply"
"""The reason under which calls with unreadable replies are counted."""
_MOST_NOTES = 5
"""Dropped items of one reply that are noted one by one."""


class Drop(Struct, frozen=True):
    """The reason why an item of a reply was dropped."""

    reason: str
    """A word to count by: `evidence`, `type`, …"""
    detail: str


class Extracted(Struct, Generic[T], frozen=True):
    """The result of one question to the model."""

    items: tuple[T, ...] = ()
    dropped: dict[str, int] = {}
    """Dropped items by reason; under `reply` the calls with unreadable replies."""
    notes: tuple[str, ...] = ()


class Asker:
    """Asks for a list of items of one kind.

    Args:
        model: answers the calls; its errors pass through.
        prompts: prompt texts by name; `repair` answers an unreadable reply.
        key: key of the list in a reply.
        most: maximum number of items read from one reply.
    """

    def __init__(self, model: ChatModel, prompts: Mapping[str, str], key: str, most: int) -> None:
        self._model, self.prompts, self._key, self._most = model, prompts, key, most

    @property
    def recipe(self) -> dict[str, Any]:
        """The recipe of the replies, without the texts they are about."""
        return recipe_of(self._model, self.prompts, MAX_TOKENS)

    async def ask(self, system: str, user: str, check: Callable[[object], T | Drop], where: str) -> Extracted[T]:
        """Return the items of the reply that pass `check`, in its order.

        Args:
            check: returns the item, or why it is dropped; called with any JSON value.
            where: the session the question is about, for notes.
        """
        messages = (ChatMessage("system", system), ChatMessage("user", user))
        reply = await ask_for_list(self._model, messages, self._key, self.prompts["repair"], max_tokens=MAX_TOKENS)
        if reply.items is None:
            note = f"{where}: no {self._key}, two replies unreadable: {reply.problem}"
            return Extracted((), {UNREADABLE: 1}, (note,))
        outcomes = [check(raw) for raw in reply.items[: self._most]]
        surplus = len(reply.items) - len(outcomes)
        drops = [outcome for outcome in outcomes if isinstance(outcome, Drop)]
        dropped = Counter(drop.reason for drop in drops) + Counter(surplus=surplus)
        items = tuple(outcome for outcome in outcomes if not isinstance(outcome, Drop))
        return Extracted(items, dict(dropped), self._notes(where, drops, surplus))

    def _notes(self, where: str, drops: Sequence[Drop], surplus: int) -> tuple[str, ...]:
        notes = [
            f"{where}: one of the {self._key} left out ({drop.reason}): {drop.detail}" for drop in drops[:_MOST_NOTES]
        ]
        if len(drops) > _MOST_NOTES:
            notes.append(f"{where}: {len(drops) - _MOST_NOTES} more of the {self._key} left out")
        if surplus:
            notes.append(f"{where}: {surplus} {self._key} beyond the first {self._most} left out")
        return tuple(notes)


async def gather_limited(works: Sequence[Callable[[], Coroutine[Any, Any, T]]]) -> list[T]:
    """Return the results of `works`, in their order, with at most `MOST_CALLS` running at a time.

    After a failure nothing more is started; what is running is awaited, so that its cost is not lost.

    Raises:
        Exception: the error of the first one that failed, in the order of `works`.
    """
    results: dict[int, T] = {}
    failures: dict[int, Exception] = {}
    numbers = iter(range(len(works)))

    async def work() -> None:
        for number in numbers:
            try:
                results[number] = await works[number]()
            except Exception as error:
                failures[number] = error
            if failures:
                return

    await asyncio.gather(*(work() for _ in range(MOST_CALLS)))
    if failures:
        raise failures[min(failures)]
    return [results[number] for number in range(len(works))]


def text_value(raw: object, most: int) -> str:
    """Return a text of a reply on one line; a number is accepted as text.

    Raises:
        ValueError: it is not a text, or longer than `most` characters.
    """
    if isinstance(raw, bool) or not isinstance(raw, (str, int, float)):
        raise ValueError("it is no text")
    text = one_line(str(raw))
    if len(text) > most:
        raise ValueError(f"{len(text)} characters, at most {most}")
    return text


def number_value(raw: object) -> float:
    """Return a number of a reply; it may be written as text.

    Raises:
        ValueError: it is not a number, or not finite.
    """
    try:
        number = float(raw) if isinstance(raw, (int, float, str)) and not isinstance(raw, bool) else float("nan")
    except (ValueError, OverflowError):
        number = float("nan")
    if number != number or abs(number) == float("inf"):
        raise ValueError("it is no number")
    return number


# Find the messages of a session that contain the quotations given as evidence.

_MARKS = str.maketrans(
    {
        "\N{RIGHT SINGLE QUOTATION MARK}": "'",
        "\N{LEFT SINGLE QUOTATION MARK}": "'",
        "\N{LEFT DOUBLE QUOTATION MARK}": '"',
        "\N{RIGHT DOUBLE QUOTATION MARK}": '"',
        "\N{EN DASH}": "-",
        "\N{EM DASH}": "-",
        "\N{NO-BREAK SPACE}": " ",
    }
)
MIN_CHARACTERS = 3
"""Minimum characters of a quotation that counts as evidence."""


def plain(text: str) -> str:
    """Return `text` normalised for comparing quotations: single spaces, straight quotes, lower case."""
    return " ".join(text.translate(_MARKS).casefold().split())


class Evidence:
    """The turns of one session, in which quotations are looked up.

    Args:
        messages: pairs of id and text.
    """

    def __init__(self, messages: Iterable[tuple[str, str]]) -> None:
        self._messages = [(message_id, plain(text)) for message_id, text in messages]

    def message_ids(self, quotation: str) -> tuple[str, ...]:
        """Return the ids of the messages that contain `quotation`; empty if nobody said it.

        A quotation may join pieces of several turns only by an ellipsis ("…" or "..."); each must occur in a turn.
        """
        pieces = [plain(piece).strip("\"' ") for piece in re.split(r"\.\.\.|…", quotation)]
        pieces = [piece for piece in pieces if len(piece) >= MIN_CHARACTERS]
        found = [[message_id for message_id, text in self._messages if piece in text] for piece in pieces]
        if not found or not all(found):
            return ()
        return tuple(dict.fromkeys(ids[0] for ids in found))


# Attribute errors raised by other people's memory systems to them, whatever the exception.

_PACKAGE = __name__.partition(".")[0]


@contextmanager
def errors_of(memory: object, failure: type[HarnessError] = RecallError) -> Iterator[None]:
    """Turn what a memory's code raises into a `failure`, usually a `RecallError` that fails one question.

    Errors of memories of this package pass unchanged, as bugs of ours; so do a `HarnessError` and an interrupt.

    Args:
        memory: the object whose methods are called, or the callable that builds it.
        failure: the class of error to raise.
    """
    try:
        yield
    except HarnessError:
        raise
    except BaseException as error:
        if is_interrupt(error) or (memory.__module__.partition(".")[0] == _PACKAGE and isinstance(error, Exception)):
            raise
        raise failure(f"The memory failed: {described(error)}", where=memory.__module__) from error


async def recall_of(memory: MemorySystem, question: Question, fixture: Fixture) -> Recall:
    """Return what `memory` recalls.

    Raises:
        RecallError: it failed at this question.
    """
    with errors_of(memory):
        return await memory.recall(question, fixture)


def described(error: BaseException) -> str:
    """Describe an error: the line of code that raised it, its type and its text."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f"{Path(frames[-1].filename).name}, line {frames[-1].lineno}: " if frames else ""
    return f"{where}{type(error).__name__}" + (f": {error}" if str(error) else "")
