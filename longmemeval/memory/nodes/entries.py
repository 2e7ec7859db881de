"""Entries of nodes, each with its evidence, the words of the text that prove it."""

from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec
from msgspec import Struct

from longmemeval.core.text.dates_in_text.mentions import MentionedDate
from longmemeval.memory.asking import Drop, number_value, text_value
from longmemeval.memory.nodes.schema import NodeType
from longmemeval.memory.nodes.templates import filled
from longmemeval.storage.part_files import FORMAT, decode_versioned

Value = str | list[str] | float | bool

MAX_TEXT = 400
"""Maximum characters of a value."""
MAX_ITEMS = 20
"""Maximum items of a list."""


class Entry(Struct, frozen=True, omit_defaults=True):
    """One memory, of the type of its node."""

    node: str
    values: dict[str, Value]
    """Values by field; empty ones are left out. The value of a date is the words of the text."""
    evidence: str
    """The words that prove it, verbatim."""
    message_ids: tuple[str, ...]
    """The messages that contain the evidence; several only if several turns contain the same words."""
    thread_id: str
    said_at: datetime
    dates: dict[str, MentionedDate] = {}
    """Days by field, for fields whose words name days."""


class NodesFile(Struct, frozen=True):
    """The contents of a part."""

    format: int
    entries: tuple[Entry, ...]
    dropped: dict[str, int] = {}
    """Entries that were dropped, by reason."""


def encode_entries(entries: Sequence[Entry], dropped: Mapping[str, int]) -> bytes:
    """Return the part's bytes: indented JSON, the same for the same entries."""
    file = NodesFile(FORMAT, tuple(entries), dict(sorted(dropped.items())))
    return msgspec.json.format(msgspec.json.encode(file, order="deterministic"), indent=2) + b"\n"


def decode_entries(data: bytes, where: str) -> NodesFile:
    """Return the entries that `encode_entries` wrote.

    Raises:
        FixtureError: newer format, or not such a part.
    """
    return decode_versioned(data, NodesFile, where)


def text_of(entry: Entry, template: str) -> str:
    """Render an entry by one of its node's templates; a date as days, or in its own words if it names none."""
    values = {name: _as_text(value) for name, value in entry.values.items()}
    values |= {name: day.shown for name, day in entry.dates.items()}
    return filled(template, values)


def _as_text(value: Value) -> str:
    if isinstance(value, list):
        return ", ".join(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else value


def checked_values(raw: Mapping[str, object], node: NodeType) -> dict[str, Value] | Drop:
    """Return the values of an entry converted to the node's types, or why the entry is dropped.

    Blank values are left out, and so are fields that the node does not have; a number may be written as text.
    """
    values: dict[str, Value] = {}
    for name, field in node.fields.items():
        try:
            value = _converted(raw.get(name), field.type, field.choices)
        except ValueError as error:
            return Drop("type", f"{name}: {error}")
        if value is None:
            if field.required:
                return Drop("required", f"{name} is missing")
            continue
        values[name] = value
    return values


def _converted(raw: object, kind: str, choices: Sequence[str]) -> Value | None:
    if raw is None or raw == "" or raw == []:
        return None
    if kind == "flag":
        if not isinstance(raw, bool):
            raise ValueError("it is neither true nor false")
        return raw
    if kind == "number":
        return number_value(raw)
    if kind == "list":
        items = raw if isinstance(raw, list) else [raw]
        if len(items) > MAX_ITEMS:
            raise ValueError(f"{len(items)} items, at most {MAX_ITEMS}")
        return [text for text in (text_value(item, MAX_TEXT) for item in items) if text] or None
    text = text_value(raw, MAX_TEXT)
    if kind == "choice" and text:
        chosen = {choice.casefold(): choice for choice in choices}.get(text.casefold())
        if chosen is None:
            raise ValueError(f"{text[:40]!r} is none of {', '.join(choices)}")
        return chosen
    return text or None
