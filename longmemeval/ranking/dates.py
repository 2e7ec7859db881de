"""The fixture part `dates.json`: the days each message mentions, made absolute at prepare."""

from collections.abc import Iterable
from datetime import date
from typing import Any

import msgspec
from msgspec import Struct

from longmemeval.core.text.dates_in_text.mentions import MentionedDate, mentioned_dates
from longmemeval.records import Message
from longmemeval.storage.format import FORMAT, decode_versioned
from longmemeval.storage.parts import Part, PartInput, PartOutput, PartTools, Stored

_RECIPE = {"version": 2}
"""To be raised when the rules of `mentioned_dates` change."""

Interval = tuple[date, date]
"""First and last day, both included."""


class DatedMessage(Struct, frozen=True, rename={"message_id": "id"}):
    """A message that mentions days."""

    message_id: str
    dates: tuple[MentionedDate, ...]


class DatesPart(Struct, frozen=True):
    """The file's content; messages without a mention are left out."""

    format: int
    items: tuple[DatedMessage, ...]

    @property
    def intervals(self) -> dict[str, list[Interval]]:
        """Message id to the days it mentions."""
        return {item.message_id: [(one.start, one.end) for one in item.dates] for item in self.items}


def encode_dates(messages: Iterable[Message]) -> bytes:
    """The part for `messages`: indented JSON, the same for the same messages."""
    found = ((message, mentioned_dates(message.content, message.created_at)) for message in messages)
    items = tuple(DatedMessage(message.message_id, tuple(dates)) for message, dates in found if dates)
    return msgspec.json.format(msgspec.json.encode(DatesPart(FORMAT, items)), indent=2) + b"\n"


def decode_dates(data: bytes, where: str) -> DatesPart:
    """The part that `encode_dates` wrote.

    Raises:
        FixtureError: newer format, or not such a part.
    """
    return decode_versioned(data, DatesPart, where)


class MentionedDates(Part[DatesPart]):
    """The days that messages mention."""

    name = "dates"

    def recipe(self, tools: PartTools) -> dict[str, Any]:
        """The version of the rules."""
        return _RECIPE

    def make(self, source: PartInput, tools: PartTools) -> PartOutput:
        """The days of all messages."""
        return PartOutput(encode_dates(source.messages))

    def open(self, stored: Stored) -> DatesPart:
        """The days.

        Raises:
            FixtureError: the part is damaged.
        """
        return decode_dates(stored.data(), stored.where)


DATES = MentionedDates()
