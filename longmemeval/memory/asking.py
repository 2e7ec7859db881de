"""Ask a chat model for items in a session: one call, one more if the reply is unreadable; every item is checked.

Items of a reply that fail their check are dropped and counted by reason; the first few are also noted one by one.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Generic, TypeVar

from msgspec import Struct

from longmemeval.llm.json_reply import ask_for_list, one_line, recipe_of
from longmemeval.llm.protocol import ChatMessage, ChatModel

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
