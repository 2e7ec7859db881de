"""The stored history as retrieval sees it: units of one granularity, and their neighbourhoods."""

import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Literal

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from longmemeval.ranking.word_counts import WordCounts, count_words
from longmemeval.records import Message
from longmemeval.storage.memory_store import MemoryStore

# Finding which of many names a text may contain.

_WORD = re.compile(r"\w+")


class Names:
    """Names indexed by their first words: of thousands, only the few possible ones are searched for in a text.

    Args:
        names: names in the order in which results list them.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._names = list(names)
        self._by_word: dict[str, list[int]] = {}
        for number, name in enumerate(self._names):
            first = _WORD.search(name)
            self._by_word.setdefault(first[0].lower() if first else "", []).append(number)

    def likely(self, text: str) -> list[str]:
        """Return the names whose first word is in `text`, ignoring case, and those without a word."""
        words = {"", *(word.lower() for word in _WORD.findall(text))}
        return [
            self._names[number] for number in sorted(place for word in words for place in self._by_word.get(word, ()))
        ]


Granularity = Literal["turn", "round", "session"]
Side = Literal["user", "both"]
Scores = NDArray[np.float64]
"""One score per unit, shape (units,)."""


class Unit(Struct, frozen=True, gc=False):
    """A ranked object: a turn, a round (a user turn with the turns after it) or a session."""

    unit_id: str
    """Message id of the first turn; for a session its thread id."""
    thread_id: str
    message_ids: tuple[str, ...]
    """Messages of the chosen side only."""


class RankedUnit(Unit, frozen=True, gc=False):
    """A unit in a ranking."""

    score: float


def speaker_names(speakers: Iterable[str]) -> list[str]:
    """Return the names among the speakers of messages or turns, sorted; none if the data has roles only."""
    return sorted({*speakers} - {"", "user", "assistant"})


class HistoryView:
    """The units of one resource, in the history's order.

    Args:
        store: the messages.
        granularity: kind of unit.
        side: `user` leaves out the assistant's messages.
        words: words of its messages; None: counted on first use.
    """

    def __init__(
        self,
        store: MemoryStore,
        granularity: Granularity = "turn",
        side: Side = "both",
        words: WordCounts | None = None,
    ) -> None:
        self.store = store
        self._words = words
        self.granularity = granularity
        self.side = side
        self.places = _places(store.messages, granularity, side)
        """Positions of each unit's messages in the resource's history."""
        numbers = {thread.id: number for number, thread in enumerate(store.threads)}
        firsts = [store.messages[places[0]].thread_id for places in self.places]
        self.threads = np.array([numbers[thread_id] for thread_id in firsts], dtype=np.int64)
        """Number of each unit's thread, shape (units,)."""
        self.thread_count = len(numbers)

    def __len__(self) -> int:
        return len(self.places)

    def unit(self, place: int) -> Unit:
        """Return the unit at a position; created on demand, since a question needs few of them."""
        return _unit([self.store.messages[position] for position in self.places[place]], self.granularity)

    @cached_property
    def units(self) -> list[Unit]:
        """All units."""
        return [self.unit(place) for place in range(len(self))]

    def session(self, number: int) -> Unit:
        """Return the session with that number as a unit, with the messages of the chosen side."""
        messages = self.store.messages_of(self.store.threads[number].id)
        return _unit([one for one in messages if self.side == "both" or one.role == "user"], "session")

    def messages(self, unit: Unit) -> list[Message]:
        """Return the messages of a unit."""
        return [self.store.message(message_id) for message_id in unit.message_ids]

    @cached_property
    def unit_of(self) -> NDArray[np.int64]:
        """Position of each message's unit, shape (messages,); -1 for messages of the other side."""
        units = np.full(len(self.store.messages), -1)
        units[[place for places in self.places for place in places]] = np.repeat(
            np.arange(len(self)), list(map(len, self.places))
        )
        return units

    @cached_property
    def words(self) -> WordCounts:
        """Words of all messages, those of the other side included."""
        return self._words or count_words([message.content for message in self.store.messages])

    @cached_property
    def texts(self) -> list[str]:
        """Text of each unit, without speakers."""
        return ["\n".join([message.content for message in self.messages(unit)]) for unit in self.units]

    @cached_property
    def speakers(self) -> dict[str, NDArray[np.int64]]:
        """Positions of the units each speaker speaks in, by name, or by role if the data has no names."""
        places: dict[str, list[int]] = {}
        for place, message in enumerate(self.store.messages):
            places.setdefault(message.speaker or message.role, []).append(place)
        units = {speaker: self.unit_of[spoken] for speaker, spoken in places.items()}
        return {speaker: spoken[spoken >= 0] for speaker, spoken in units.items()}

    @cached_property
    def names(self) -> list[str]:
        """Names of the speakers, sorted; none if the data has roles only."""
        return speaker_names(message.speaker for message in self.store.messages)

    @cached_property
    def _names(self) -> Names:
        return Names(self.names)

    def names_in(self, text: str) -> list[str]:
        """Return the names of speakers that `text` may contain, sorted."""
        return self._names.likely(text)

    def is_near(self, distance: int) -> NDArray[np.bool_]:
        """Return, for each unit, whether the unit `distance` positions later is in the same thread.

        Shape (units - distance,), or empty.
        """
        near: NDArray[np.bool_] = self.threads[distance:] == self.threads[: max(0, len(self) - distance)]
        return near


def _places(messages: Sequence[Message], granularity: Granularity, side: Side) -> list[list[int]]:
    spoken = [place for place, message in enumerate(messages) if side == "both" or message.role == "user"]
    if granularity == "turn":
        return [[place] for place in spoken]
    threads: dict[str, list[int]] = {}
    for place in spoken:
        threads.setdefault(messages[place].thread_id, []).append(place)
    if granularity == "session":
        return list(threads.values())
    return [places for thread in threads.values() for places in _rounds(thread, messages)]


def _unit(messages: Sequence[Message], granularity: Granularity) -> Unit:
    first = messages[0]
    unit_id = first.thread_id if granularity == "session" else first.message_id
    return Unit(unit_id, first.thread_id, tuple([message.message_id for message in messages]))


def _rounds(places: Sequence[int], messages: Sequence[Message]) -> list[list[int]]:
    """Split the turns of one thread before each user turn."""
    rounds: list[list[int]] = []
    for place in places:
        if not rounds or messages[place].role == "user":
            rounds.append([])
        rounds[-1].append(place)
    return rounds
