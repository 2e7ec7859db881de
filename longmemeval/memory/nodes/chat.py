"""The extractor that asks a chat model: one call for each node and session, one more for an unreadable reply."""

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from importlib import resources
from string import Template
from typing import Any

from msgspec import Struct

from longmemeval.files import sha256_text
from longmemeval.llm.json_reply import ask_for_list
from longmemeval.llm.limit import LimitedChatModel
from longmemeval.llm.protocol import ChatMessage, ChatModel
from longmemeval.memory.nodes.dating import resolved
from longmemeval.memory.nodes.entries import Drop, Entry, EntryDate, Value, checked_values, one_line
from longmemeval.memory.nodes.evidence import Evidence
from longmemeval.memory.nodes.library import NodeSet
from longmemeval.memory.nodes.schema import NodeType
from longmemeval.records import Message, Session
from longmemeval.text.calendar_names import weekday_of

VERSION = 1
TEMPERATURE = 0.0
MAX_TOKENS = 4000
MAX_ENTRIES = 60
"""Of one node in one session; what a reply has beyond is dropped and counted."""

_MOST_CALLS = 8
"""Calls under way at one time, for each haystack."""
_MOST_NOTES = 5
"""Dropped entries of one reply that are told one by one."""
_SHAPES = {"list": '["…"]', "number": "0", "flag": "false"}


class Extracted(Struct, frozen=True):
    """What came of one session."""

    entries: tuple[Entry, ...] = ()
    dropped: dict[str, int] = {}
    """How many entries were not kept, by reason; under `reply` the calls whose replies nobody could read."""
    notes: tuple[str, ...] = ()


class NodeExtractor:
    """Asks `model` for the entries of every node.

    The model sees what was said and the date, never an id or a question. What it replies is believed only as far as the
    node's schema and the evidence allow: an entry whose evidence nobody said is dropped.

    Args:
        model: answers the calls; its errors pass through.
        nodes: what is asked for.
    """

    def __init__(self, model: ChatModel, nodes: NodeSet) -> None:
        self._model, self._nodes = LimitedChatModel(model, _MOST_CALLS), nodes
        self._prompts = {name: _prompt(name) for name in ("system", "user", "repair")}

    @property
    def recipe(self) -> dict[str, Any]:
        """What decides the entries, but for the nodes."""
        return {
            "extractor": "chat",
            "version": VERSION,
            "prompts_sha256": {name: sha256_text(text) for name, text in self._prompts.items()},
            "model": self._model.spec,
            "temperature": TEMPERATURE,
            "max_tokens": MAX_TOKENS,
        }

    async def extract(self, session: Session, messages: Sequence[Message]) -> Extracted:
        """The entries of one session, node after node.

        Args:
            session: for its date.
            messages: its stored messages, captions of pictures among them.
        """
        if not any(message.content.strip() for message in messages):
            return Extracted()
        evidence = Evidence(messages)
        asked = (self._of_node(node, session, messages, evidence) for node in self._nodes.nodes)
        found = await asyncio.gather(*asked)
        return Extracted(
            tuple(entry for one in found for entry in one.entries),
            dict(sum((Counter(one.dropped) for one in found), Counter[str]())),
            tuple(note for one in found for note in one.notes),
        )

    async def _of_node(
        self, node: NodeType, session: Session, messages: Sequence[Message], evidence: Evidence
    ) -> Extracted:
        where = f"{session.date:%Y-%m-%d} {node.name}"
        reply = await ask_for_list(
            self._model,
            self._question(node, session, messages),
            "entries",
            self._prompts["repair"],
            max_tokens=MAX_TOKENS,
            temperature=TEMPERATURE,
        )
        if reply.items is None:
            return Extracted((), {"reply": 1}, (f"{where}: no entries, two replies unreadable: {reply.problem}",))
        outcomes = [_checked(raw, node, messages, evidence) for raw in reply.items[:MAX_ENTRIES]]
        surplus = len(reply.items) - len(outcomes)
        drops = [one for one in outcomes if isinstance(one, Drop)] + [Drop("surplus", "")] * surplus
        entries = _each_once(one for one in outcomes if isinstance(one, Entry))
        return Extracted(entries, dict(Counter(drop.reason for drop in drops)), _notes(where, drops, surplus))

    def _question(self, node: NodeType, session: Session, messages: Sequence[Message]) -> tuple[ChatMessage, ...]:
        text = "\n\n".join(f"{message.speaker or message.role}: {message.content}" for message in messages)
        fields = "\n".join(_described(name, node) for name in node.fields)
        shape = ", ".join(
            [f'"{name}": {_SHAPES.get(field.type, chr(34) + "…" + chr(34))}' for name, field in node.fields.items()]
            + ['"evidence": "…"']
        )
        system = Template(self._prompts["system"]).substitute(
            summary=node.summary, task=node.prompt.strip(), fields=fields, shape=f"{{{shape}}}", most=MAX_ENTRIES
        )
        user = Template(self._prompts["user"]).substitute(
            date=f"{session.date:%Y-%m-%d} ({weekday_of(session.date)})",
            text=text,
            # No text can hold the hash of itself, so none can forge the end of its own block.
            mark=sha256_text(text)[:16],
        )
        return ChatMessage("system", system), ChatMessage("user", user)


def _prompt(name: str) -> str:
    return resources.files(__package__).joinpath("prompts", f"{name}.txt").read_text(encoding="utf-8").strip()


def _described(name: str, node: NodeType) -> str:
    field = node.fields[name]
    kind = (
        f"one of {', '.join(field.choices)}" if field.choices else {"flag": "true or false"}.get(field.type, field.type)
    )
    must = "required" if field.required else "may be empty"
    return f'- "{name}" ({kind}, {must}): {" ".join(field.about.split()) or name}'


def _checked(raw: object, node: NodeType, messages: Sequence[Message], evidence: Evidence) -> Entry | Drop:
    """The entry that an item of a reply is, or why it is none."""
    if not isinstance(raw, dict):
        return Drop("type", "an entry that is no object")
    quotation = raw.get("evidence")
    if not isinstance(quotation, str) or not (ids := evidence.message_ids(quotation)):
        return Drop("evidence", f"nobody said {str(quotation)[:60]!r}")
    values = checked_values(raw, node)
    if isinstance(values, Drop):
        return values
    first = next(message for message in messages if message.message_id == ids[0])
    return Entry(
        node=node.name,
        values=values,
        evidence=one_line(quotation),
        message_ids=ids,
        thread_id=first.thread_id,
        said_at=first.created_at,
        dates=_dates(values, node, quotation, first),
    )


def _dates(values: dict[str, Value], node: NodeType, quotation: str, message: Message) -> dict[str, EntryDate]:
    """The days of the fields of type date: by the words in what proves the entry, else in its turn."""
    found: dict[str, EntryDate] = {}
    for name, value in values.items():
        if node.fields[name].type == "date":
            phrase = str(value)
            context = quotation if phrase.casefold() in quotation.casefold() else message.content
            day = resolved(phrase, context, message.created_at)
            if day:
                found[name] = day
    return found


def _each_once(entries: Iterable[Entry]) -> tuple[Entry, ...]:
    seen: dict[str, Entry] = {}
    for entry in entries:
        seen.setdefault(repr((entry.values, entry.message_ids)), entry)
    return tuple(seen.values())


def _notes(where: str, drops: Sequence[Drop], surplus: int) -> tuple[str, ...]:
    told = [drop for drop in drops if drop.detail]
    notes = [f"{where}: an entry left out ({drop.reason}): {drop.detail}" for drop in told[:_MOST_NOTES]]
    if len(told) > _MOST_NOTES:
        notes.append(f"{where}: {len(told) - _MOST_NOTES} more entries left out")
    if surplus:
        notes.append(f"{where}: {surplus} entries beyond the first {MAX_ENTRIES} left out")
    return tuple(notes)
