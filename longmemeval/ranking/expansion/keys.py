"""Expansions, their makers, and the units they are made for."""

from datetime import date, datetime
from typing import Any, Literal, Protocol

from msgspec import Struct

from longmemeval.records import Message, Usage
from longmemeval.storage.memory_store import MemoryStore

ExpansionKind = Literal["summary", "keyphrase", "fact", "event"]
ExpansionLevel = Literal["session", "turn"]


class Expansion(Struct, frozen=True, rename={"unit_id": "id"}):
    """Keys made for one unit; none for a unit that states nothing."""

    unit_id: str
    """Message id of a turn, thread id of a session."""
    texts: tuple[str, ...]
    dates: tuple[date | None, ...] = ()
    """For events, the day of each text; None if the day is not known."""

    def __post_init__(self) -> None:
        if self.dates and len(self.dates) != len(self.texts):
            raise ValueError(f"unit '{self.unit_id}' has {len(self.texts)} texts and {len(self.dates)} dates")


class MadeExpansions(Struct, frozen=True):
    """The expansions of one history, one for every unit in the history's order, and their cost."""

    items: tuple[Expansion, ...]
    usage: Usage = Usage()
    notes: tuple[str, ...] = ()


class ExpansionMaker(Protocol):
    """Makes the expansions of one kind at one level."""

    @property
    def recipe(self) -> dict[str, Any]:
        """Everything that can change an expansion."""
        ...

    def make(self, store: MemoryStore) -> MadeExpansions:
        """Make the expansions of all units of `store`.

        Raises:
            ModelError: a model call failed for good.
            FatalModelError: no model call can succeed.
        """
        ...


class ExpansionUnit(Struct, frozen=True):
    """A turn or a session, with the messages of people: an assistant's words become no key."""

    unit_id: str
    said_on: datetime
    messages: tuple[Message, ...]


def expansion_units(store: MemoryStore, level: ExpansionLevel) -> list[ExpansionUnit]:
    """Return every message or every thread of `store` as a unit, in order; empty ones have no messages."""
    if level == "turn":
        return [
            ExpansionUnit(message.message_id, message.created_at, _peoples([message])) for message in store.messages
        ]
    return [
        ExpansionUnit(thread.id, thread.created_at, _peoples(store.messages_of(thread.id))) for thread in store.threads
    ]


def speaker_name(message: Message) -> str:
    """Return the name of the speaker; empty if the data has roles only."""
    return "" if message.speaker in ("user", "assistant") else message.speaker


def _peoples(messages: list[Message]) -> tuple[Message, ...]:
    # Where both sides have names (LoCoMo), both are people.
    people = (message for message in messages if message.role == "user" or speaker_name(message))
    return tuple(message for message in people if message.content.strip())
