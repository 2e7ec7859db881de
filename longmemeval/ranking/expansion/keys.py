"""What an expansion is, what makes expansions, and the units they are made for."""

from datetime import date, datetime
from typing import Any, Literal, Protocol

from msgspec import Struct

from longmemeval.records import Message, Usage
from longmemeval.storage.memory_store import MemoryStore

ExpansionKind = Literal["summary", "keyphrase", "fact", "event"]
ExpansionLevel = Literal["session", "turn"]


class Expansion(Struct, frozen=True, rename={"unit_id": "id"}):
    """The keys made for one unit; none for a unit that told nothing."""

    unit_id: str
    """Message id of a turn, thread id of a session."""
    texts: tuple[str, ...]
    dates: tuple[date | None, ...] = ()
    """For events, the day of each text; None where the day is not known."""

    def __post_init__(self) -> None:
        if self.dates and len(self.dates) != len(self.texts):
            raise ValueError(f"unit '{self.unit_id}' has {len(self.texts)} texts and {len(self.dates)} dates")


class MadeExpansions(Struct, frozen=True):
    """The expansions of one history, one for every unit in the history's order, and what they took."""

    items: tuple[Expansion, ...]
    usage: Usage = Usage()
    notes: tuple[str, ...] = ()


class ExpansionMaker(Protocol):
    """Makes the expansions of one kind at one level."""

    @property
    def recipe(self) -> dict[str, Any]:
        """All that can change an expansion."""
        ...

    def make(self, store: MemoryStore) -> MadeExpansions:
        """The expansions of all units of `store`.

        Raises:
            ModelError: a model call failed for good.
            FatalModelError: no model call can succeed.
        """
        ...


class ExpansionUnit(Struct, frozen=True):
    """A turn or a session, with what people said in it: an assistant's words become no key."""

    unit_id: str
    said_on: datetime
    messages: tuple[Message, ...]


def expansion_units(store: MemoryStore, level: ExpansionLevel) -> list[ExpansionUnit]:
    """Every message or every thread of `store` as a unit, in order; those without turns have no messages."""
    if level == "turn":
        return [
            ExpansionUnit(message.message_id, message.created_at, _peoples([message])) for message in store.messages
        ]
    return [
        ExpansionUnit(thread.id, thread.created_at, _peoples(store.messages_of(thread.id))) for thread in store.threads
    ]


def speaker_name(message: Message) -> str:
    """The name of who speaks; empty where the data knows roles only."""
    return "" if message.speaker in ("user", "assistant") else message.speaker


def _peoples(messages: list[Message]) -> tuple[Message, ...]:
    # Where both sides have names (LoCoMo), both are people.
    people = (message for message in messages if message.role == "user" or speaker_name(message))
    return tuple(message for message in people if message.content.strip())
