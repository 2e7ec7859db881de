"""An expansion maker using a chat model: one call per unit, and one more if the reply is unreadable."""

import asyncio
from dataclasses import dataclass
from datetime import date
from string import Template
from typing import Any

import msgspec
from msgspec import Struct

from longmemeval.core.event_loop import complete
from longmemeval.core.text.quantities import weekday_of
from longmemeval.llm.json_reply import ask_for_list, mark_of, one_line, prompt_texts, recipe_of
from longmemeval.llm.protocol import ChatMessage, ChatModel, LimitedChatModel
from longmemeval.ranking.expansion.keys import (
    Expansion,
    ExpansionKind,
    ExpansionLevel,
    ExpansionMaker,
    ExpansionUnit,
    MadeExpansions,
    expansion_units,
    speaker_name,
)
from longmemeval.records import Message, usage_of
from longmemeval.storage.memory_store import MemoryStore

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
