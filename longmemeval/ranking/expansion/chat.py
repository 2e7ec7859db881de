"""An expansion maker using a chat model: one call per unit, and one more if the reply is unreadable."""

import asyncio
from dataclasses import dataclass
from datetime import date, datetime
from string import Template
from typing import Any, Literal, Protocol

import msgspec
from msgspec import Struct

from longmemeval.core.event_loop import complete
from longmemeval.core.text.quantities import weekday_of
from longmemeval.llm.json_reply import ask_for_list, mark_of, one_line, prompt_texts, recipe_of
from longmemeval.llm.protocol import ChatMessage, ChatModel, LimitedChatModel
from longmemeval.records import Message, Usage, usage_of
from longmemeval.storage.memory_store import MemoryStore

# Expansions, their makers, and the units they are made for.

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


VERSION = 1
MAX_TOKENS = 2000

_MOST_CALLS = 8
"""Maximum number of concurrent calls."""


def chat_maker(model: ChatModel, kind: ExpansionKind, level: ExpansionLevel) -> ExpansionMaker:
    """Return a maker that asks `model` for the keys of each unit.

    The model sees the people's messages in the unit and the date, never an id, a question or the assistant's words.
    Units without a turn need no call. If a reply is unreadable, the model is asked once more; if that fails too, the
    unit has no keys and the notes say so. `make` runs its own event loop, so it must not be called inside a running
    one.

    Args:
        model: answers the calls; its errors pass through `make`.
    """
    return _ChatMaker(model, kind, level, prompt_texts(__package__, "system", kind, "user", "repair"))


@dataclass(frozen=True)
class _ChatMaker:
    model: ChatModel
    kind: ExpansionKind
    level: ExpansionLevel
    prompts: dict[str, str]

    @property
    def recipe(self) -> dict[str, Any]:
        return {
            "maker": "chat",
            "version": VERSION,
            "kind": self.kind,
            "level": self.level,
            **recipe_of(self.model, self.prompts, MAX_TOKENS),
        }

    def make(self, store: MemoryStore) -> MadeExpansions:
        return complete(self._make(expansion_units(store, self.level)))

    async def _make(self, units: list[ExpansionUnit]) -> MadeExpansions:
        model = LimitedChatModel(self.model, _MOST_CALLS)
        expansions = await asyncio.gather(*(self._expand(model, unit) for unit in units))
        return MadeExpansions(
            tuple(item for expanded in expansions for item in expanded.items),
            usage_of(expansions),
            tuple(note for expanded in expansions for note in expanded.notes),
        )

    async def _expand(self, model: ChatModel, unit: ExpansionUnit) -> MadeExpansions:
        if not unit.messages:
            return MadeExpansions((Expansion(unit.unit_id, ()),))
        reply = await ask_for_list(model, self._question(unit), "items", self.prompts["repair"], max_tokens=MAX_TOKENS)
        if reply.items is None:
            note = f"{unit.unit_id}: no {self.kind} expansion, two replies unreadable: {reply.problem}"
            return MadeExpansions((Expansion(unit.unit_id, ()),), reply.usage, (note,))
        items, problems = checked_items(reply.items, self.kind)
        dates = tuple(item.day for item in items) if self.kind == "event" else ()
        expansion = Expansion(unit.unit_id, tuple(item.text for item in items), dates)
        notes = tuple(f"{unit.unit_id}: {self.kind} {problem}" for problem in problems)
        return MadeExpansions((expansion,), reply.usage, notes)

    def _question(self, unit: ExpansionUnit) -> tuple[ChatMessage, ...]:
        text = "\n\n".join(map(_shown, unit.messages))
        # The last line of a task describes the form of the reply.
        task, _, shape = self.prompts[self.kind].rpartition("\n")
        day = unit.said_on
        return (
            ChatMessage("system", Template(self.prompts["system"]).substitute(task=task, shape=shape)),
            ChatMessage(
                "user",
                Template(self.prompts["user"]).substitute(
                    date=f"{day.date().isoformat()} ({weekday_of(day)})",
                    text=text,
                    mark=mark_of(text),
                ),
            ),
        )


def _shown(message: Message) -> str:
    name = speaker_name(message)
    return f"{name}: {message.content}" if name else message.content


class _ReplyItem(Struct, frozen=True):
    """One item: a key, and the day of an event."""

    text: str
    day: date | None = None


def checked_items(raw: list[Any], kind: ExpansionKind) -> tuple[list[_ReplyItem], list[str]]:
    """Return the valid items of a reply, each once, and the reason for each invalid one.

    Every text is put on one line; blank ones are left out. An event whose date is not a valid day keeps its text.
    """
    items: dict[_ReplyItem, None] = {}
    problems = []
    for number, entry in enumerate(raw, start=1):
        try:
            item = _event(entry) if kind == "event" else _ReplyItem(one_line(msgspec.convert(entry, str)))
        except msgspec.ValidationError as error:
            problems.append(f"item {number} left out: {error}")
            continue
        if item.text:
            items[item] = None
    return list(items), problems


def _event(raw: object) -> _ReplyItem:
    if not isinstance(raw, dict):
        raise msgspec.ValidationError("Expected an object with `date` and `text`")
    return _ReplyItem(one_line(msgspec.convert(raw.get("text"), str)), _day(raw.get("date")))


def _day(raw: object) -> date | None:
    try:
        return date.fromisoformat(raw.strip().replace("/", "-")[:10]) if isinstance(raw, str) else None
    except ValueError:
        return None
