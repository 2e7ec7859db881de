"""The extractor that asks a chat model: one call per node and session, one more if the reply is unreadable."""

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from string import Template
from typing import Any

from msgspec import structs

from longmemeval.core.text.dates_in_text.mentions import MentionedDate, resolved
from longmemeval.core.text.quantities import weekday_of
from longmemeval.llm.json_reply import mark_of, one_line, prompt_texts
from longmemeval.llm.protocol import ChatModel, LimitedChatModel
from longmemeval.memory.asking import MOST_CALLS, Asker, Drop, Extracted, gather_limited
from longmemeval.memory.evidence import Evidence
from longmemeval.memory.nodes.entries import Entry, Value, checked_values
from longmemeval.memory.nodes.library import NodeSet
from longmemeval.memory.nodes.schema import NodeType
from longmemeval.records import Message, Session

VERSION = 1
MAX_ENTRIES = 60
"""Maximum entries of one node in one session; further ones are dropped and counted."""

_SHAPES = {"list": '["…"]', "number": "0", "flag": "false"}


class NodeExtractor:
    """Asks `model` for the entries of every node.

    The model sees what was said and the date, never an id or a question. An entry that does not fit the node's schema,
    or whose evidence nobody said, is dropped.

    Args:
        model: answers the calls; its errors pass through.
        nodes: the nodes to extract entries of.
    """

    def __init__(self, model: ChatModel, nodes: NodeSet) -> None:
        self._nodes = nodes
        prompts = prompt_texts(__package__, "system", "user", "repair")
        self._asker = Asker(LimitedChatModel(model, MOST_CALLS), prompts, "entries", MAX_ENTRIES)

    @property
    def recipe(self) -> dict[str, Any]:
        """The recipe of the entries, without the nodes."""
        return {"extractor": "chat", "version": VERSION, **self._asker.recipe}

    async def extract(self, session: Session, messages: Sequence[Message]) -> Extracted[Entry]:
        """Return the entries of one session, node after node.

        Args:
            session: gives the date.
            messages: its stored messages, which include captions of pictures.
        """
        if not any(message.content.strip() for message in messages):
            return Extracted()
        evidence = Evidence((message.message_id, message.content) for message in messages)
        works = [partial(self._entries_of, node, session, messages, evidence) for node in self._nodes.nodes]
        found = await gather_limited(works)
        return Extracted(
            tuple(entry for result in found for entry in result.items),
            dict(sum((Counter(result.dropped) for result in found), Counter[str]())),
            tuple(note for result in found for note in result.notes),
        )

    async def _entries_of(
        self, node: NodeType, session: Session, messages: Sequence[Message], evidence: Evidence
    ) -> Extracted[Entry]:
        found = await self._asker.ask(
            *self._question(node, session, messages),
            lambda raw: _checked(raw, node, messages, evidence),
            f"{session.date:%Y-%m-%d} {node.name}",
        )
        return structs.replace(found, items=_each_once(found.items))

    def _question(self, node: NodeType, session: Session, messages: Sequence[Message]) -> tuple[str, str]:
        text = "\n\n".join(f"{message.speaker or message.role}: {message.content}" for message in messages)
        fields = "\n".join(_described(name, node) for name in node.fields)
        shape = ", ".join(
            [f'"{name}": {_SHAPES.get(field.type, chr(34) + "…" + chr(34))}' for name, field in node.fields.items()]
            + ['"evidence": "…"']
        )
        system = Template(self._asker.prompts["system"]).substitute(
            summary=node.summary, task=node.prompt.strip(), fields=fields, shape=f"{{{shape}}}", most=MAX_ENTRIES
        )
        user = Template(self._asker.prompts["user"]).substitute(
            date=f"{session.date:%Y-%m-%d} ({weekday_of(session.date)})",
            text=text,
            mark=mark_of(text),
        )
        return system, user


def _described(name: str, node: NodeType) -> str:
    field = node.fields[name]
    kind = (
        f"one of {', '.join(field.choices)}" if field.choices else {"flag": "true or false"}.get(field.type, field.type)
    )
    must = "required" if field.required else "may be empty"
    return f'- "{name}" ({kind}, {must}): {" ".join(field.about.split()) or name}'


def _checked(raw: object, node: NodeType, messages: Sequence[Message], evidence: Evidence) -> Entry | Drop:
    """Return the entry that an item of a reply describes, or why it is dropped."""
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


def _dates(values: dict[str, Value], node: NodeType, quotation: str, message: Message) -> dict[str, MentionedDate]:
    """Resolve the fields of type date, in the context of the evidence, or of its turn if it lacks the words."""
    found: dict[str, MentionedDate] = {}
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
