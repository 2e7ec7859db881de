"""The fixture part `dates.json`: the days each message mentions, made absolute during prepare."""

from collections.abc import Iterable
from datetime import date
from typing import Any

import msgspec
from msgspec import Struct

from longmemeval.core.text.dates_in_text.mentions import MentionedDate, mentioned_dates
from longmemeval.records import Message
from longmemeval.storage.part_files import FORMAT, decode_versioned
from longmemeval.storage.parts import Part, PartInput, PartOutput, PartTools, Stored

_RECIPE = {"version": 2}
"""Increase the version when the rules of `mentioned_dates` change."""

Interval = tuple[date, date]
"""First and last day, both included."""


class DatedMessage(Struct, frozen=True, rename={"message_id": "id"}):
    """A message that mentions days."""

    message_id: str
    dates: tuple[MentionedDate, ...]


class DatesPart(Struct, frozen=True):
    """Content of the file; messages without a mention are left out."""

    format: int
    items: tuple[DatedMessage, ...]

    @property
    def intervals(self) -> dict[str, list[Interval]]:
        """Days mentioned, by message id."""
        return {item.message_id: [(mentioned.start, mentioned.end) for mentioned in item.dates] for item in self.items}


def encode_dates(messages: Iterable[Message]) -> bytes:
    """Return the part for `messages`: indented JSON, the same for the same messages."""
    found = ((message, mentioned_dates(message.content, message.created_at)) for message in messages)
    items = tuple(DatedMessage(message.message_id, tuple(dates)) for message, dates in found if dates)
    return msgspec.json.format(msgspec.json.encode(DatesPart(FORMAT, items)), indent=2) + b"\n"


def decode_dates(data: bytes, where: str) -> DatesPart:
    """Read the part that `encode_dates` wrote.

    Raises:
        FixtureError: newer format, or not such a part.
    """
    return decode_versioned(data, DatesPart, where)


class MentionedDates(Part[DatesPart]):
    """The days mentioned by messages."""

    name = "dates"

    def recipe(self, tools: PartTools) -> dict[str, Any]:
        """Return the version of the rules."""
        return _RECIPE

    def make(self, source: PartInput, tools: PartTools) -> PartOutput:
        """Find the days mentioned by all messages."""
        return PartOutput(encode_dates(source.messages))

    def open(self, stored: Stored) -> DatesPart:
        """Return the days.

        Raises:
            FixtureError: the part is damaged.
        """
        return decode_dates(stored.data(), stored.where)


DATES = MentionedDates()
