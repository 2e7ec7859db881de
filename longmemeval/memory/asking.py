"""Asking a chat model what a session says: one call, one more for an unreadable reply, every item checked and counted.

What a model replies is believed only as far as the check of each item allows. What is not kept is counted by reason,
and the first of it told one by one.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping, Sequence
from importlib import resources
from typing import Any, Generic, TypeVar

from msgspec import Struct

from longmemeval.core.files import sha256_text
from longmemeval.llm.json_reply import ask_for_list
from longmemeval.llm.protocol import ChatMessage, ChatModel

T = TypeVar("T")

TEMPERATURE = 0.0
MAX_TOKENS = 4000
MOST_CALLS = 8
"""Calls under way at one time, for each haystack."""
UNREADABLE = "reply"
"""The reason under which calls are counted whose replies nobody could read."""
_MOST_NOTES = 5
"""Items left out of one reply that are told one by one."""


class Drop(Struct, frozen=True):
    """Why something in a reply was not kept."""

    reason: str
    """A word to count by: `evidence`, `type`, …"""
    detail: str


class Extracted(Struct, Generic[T], frozen=True):
    """What came of one question."""

    items: tuple[T, ...] = ()
    dropped: dict[str, int] = {}
    """How many items were not kept, by reason; under `reply` the calls whose replies nobody could read."""
    notes: tuple[str, ...] = ()


class Asker:
    """Asks for a list of things of one kind.

    Args:
        model: answers the calls; its errors pass through.
        prompts: the texts that are sent, by name; `repair` is said of a reply that cannot be read.
        key: under which a reply has the list.
        most: items of one reply that are looked at.
    """

    def __init__(self, model: ChatModel, prompts: Mapping[str, str], key: str, most: int) -> None:
        self._model, self.prompts, self._key, self._most = model, prompts, key, most

    @property
    def recipe(self) -> dict[str, Any]:
        """What decides the replies, but for what is asked."""
        return {
            "prompts_sha256": {name: sha256_text(text) for name, text in self.prompts.items()},
            "model": self._model.spec,
            "temperature": TEMPERATURE,
            "max_tokens": MAX_TOKENS,
        }

    async def ask(self, system: str, user: str, check: Callable[[object], T | Drop], where: str) -> Extracted[T]:
        """The items of the reply that `check` lets through, in its order.

        Args:
            system: the first message.
            user: the second.
            check: what an item is, or why it is none; called with any JSON there is.
            where: what was asked about, for notes.
        """
        asked = (ChatMessage("system", system), ChatMessage("user", user))
        reply = await ask_for_list(
            self._model, asked, self._key, self.prompts["repair"], max_tokens=MAX_TOKENS, temperature=TEMPERATURE
        )
        if reply.items is None:
            told = f"{where}: no {self._key}, two replies unreadable: {reply.problem}"
            return Extracted((), {UNREADABLE: 1}, (told,))
        outcomes = [check(raw) for raw in reply.items[: self._most]]
        surplus = len(reply.items) - len(outcomes)
        drops = [one for one in outcomes if isinstance(one, Drop)]
        dropped = Counter(drop.reason for drop in drops) + Counter(surplus=surplus)
        kept = tuple(one for one in outcomes if not isinstance(one, Drop))
        return Extracted(kept, dict(dropped), self._notes(where, drops, surplus))

    def _notes(self, where: str, drops: Sequence[Drop], surplus: int) -> tuple[str, ...]:
        notes = [
            f"{where}: one of the {self._key} left out ({drop.reason}): {drop.detail}" for drop in drops[:_MOST_NOTES]
        ]
        if len(drops) > _MOST_NOTES:
            notes.append(f"{where}: {len(drops) - _MOST_NOTES} more of the {self._key} left out")
        if surplus:
            notes.append(f"{where}: {surplus} {self._key} beyond the first {self._most} left out")
        return tuple(notes)


def prompt_texts(package: str, *names: str) -> dict[str, str]:
    """The shipped prompts of a package, by name."""
    folder = resources.files(package).joinpath("prompts")
    return {name: folder.joinpath(f"{name}.txt").read_text(encoding="utf-8").strip() for name in names}


def mark_of(text: str) -> str:
    """What stands at both ends of a block of text in a prompt.

    No text can hold the hash of itself, so none can forge the end of its own block.
    """
    return sha256_text(text)[:16]


async def gather_limited(works: Sequence[Callable[[], Coroutine[Any, Any, T]]]) -> list[T]:
    """The results of `works`, in their order, `MOST_CALLS` under way at one time.

    Once one has failed no other is begun, and those under way come to their end: what they cost is not lost.

    Raises:
        Exception: what the first of those that failed raised.
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


def one_line(text: str) -> str:
    """`text` with single spaces and without signs that cannot be shown."""
    return " ".join("".join(sign if sign.isprintable() else " " for sign in text).split())


def text_value(raw: object, most: int) -> str:
    """A text in a reply, on one line; a number is taken for one.

    Raises:
        ValueError: it is none, or longer than `most` characters.
    """
    if isinstance(raw, bool) or not isinstance(raw, (str, int, float)):
        raise ValueError("it is no text")
    text = one_line(str(raw))
    if len(text) > most:
        raise ValueError(f"{len(text)} characters, at most {most}")
    return text


def number_value(raw: object) -> float:
    """A number in a reply; it may be written as text.

    Raises:
        ValueError: it is none, or not finite.
    """
    try:
        number = float(raw) if isinstance(raw, (int, float, str)) and not isinstance(raw, bool) else float("nan")
    except (ValueError, OverflowError):
        number = float("nan")
    if number != number or abs(number) == float("inf"):
        raise ValueError("it is no number")
    return number
