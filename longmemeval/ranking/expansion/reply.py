"""Parsing the items of a model's reply."""

from datetime import date
from typing import Any

import msgspec
from msgspec import Struct

from longmemeval.ranking.expansion.keys import ExpansionKind


class ReplyItem(Struct, frozen=True):
    """One item: a key, and the day of an event."""

    text: str
    day: date | None = None


def checked_items(raw: list[Any], kind: ExpansionKind) -> tuple[list[ReplyItem], list[str]]:
    """Return the valid items of a reply, each once, and the reason for each invalid one.

    Every text is put on one line; blank ones are left out. An event whose date is not a day keeps its text.
    """
    items: dict[ReplyItem, None] = {}
    problems = []
    for number, entry in enumerate(raw, start=1):
        try:
            item = _event(entry) if kind == "event" else ReplyItem(_one_line(msgspec.convert(entry, str)))
        except msgspec.ValidationError as error:
            problems.append(f"item {number} left out: {error}")
            continue
        if item.text:
            items[item] = None
    return list(items), problems


def _event(raw: object) -> ReplyItem:
    if not isinstance(raw, dict):
        raise msgspec.ValidationError("Expected an object with `date` and `text`")
    return ReplyItem(_one_line(msgspec.convert(raw.get("text"), str)), _day(raw.get("date")))


def _day(raw: object) -> date | None:
    try:
        return date.fromisoformat(raw.strip().replace("/", "-")[:10]) if isinstance(raw, str) else None
    except ValueError:
        return None


def _one_line(text: str) -> str:
    return " ".join("".join(sign if sign.isprintable() else " " for sign in text).split())
