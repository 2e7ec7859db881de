"""The published LoCoMo-Plus file: cues and triggers, to be inserted into the conversations of LoCoMo.

The parsing of lines, the conversation of each item, and the lengths of gaps follow `data/unified_input.py` and
`data/build_conv.py` in the official repository (xjtuleeyf/Locomo-Plus at 059f4e3).
"""

import re
from datetime import datetime
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta, Raw, Struct

from longmemeval.benchmarks.faults import Place, json_in, malformed
from longmemeval.core.text.calendar_names import MONTHS
from longmemeval.core.text_files import reading
from longmemeval.errors import DataError

LOCOMO_FILE = "locomo10.json"
"""File of the conversations, in the same folder."""

_COUNTS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_DAYS = {"week": 7, "month": 30, "year": 365}
_GAP = re.compile(rf"\b(\d+|{'|'.join(_COUNTS)}|an?)\b\s*(week|month|year)s?\b")
_LINE = re.compile(r"\s*([AB]):(.*)")
_Text = Annotated[str, Meta(pattern=r"\S")]


class CueRecord(Struct, frozen=True):
    """The used fields of one item."""

    relation_type: _Text
    cue_dialogue: _Text
    trigger_query: _Text
    time_gap: _Text

    @property
    def cue(self) -> list[tuple[str, str]]:
        """The dialogue weeks before the trigger: speakers `A` and `B`, and their words."""
        return lines_of(self.cue_dialogue)

    @property
    def trigger(self) -> str:
        """The text of `A` in the trigger."""
        return lines_of(self.trigger_query)[0][1]

    @property
    def gap_days(self) -> int | None:
        """Days between cue and trigger; None if the text gives no number."""
        return days_of(self.time_gap)


def lines_of(dialogue: str) -> list[tuple[str, str]]:
    """Return the speaker, `A` or `B`, and the text of each line that names its speaker."""
    return [(match[1], match[2].strip()) for line in dialogue.split("\n") if (match := _LINE.match(line))]


def days_of(gap: str) -> int | None:
    """Return the days that a text such as "around six weeks later" stands for; None if it gives no number.

    A week has 7 days, a month 30, a year 365. The official parser gives 0 if there is no number.
    """
    match = _GAP.search(gap.lower())
    if match is None:
        return None
    count, unit = match.groups()
    number = int(count) if count.isdecimal() else _COUNTS.index(count) + 1 if count in _COUNTS else 1
    return number * _DAYS[unit]


def date_text(date: datetime) -> str:
    """Return a date in LoCoMo's form: `1:56 pm on 8 May, 2023`."""
    half = "pm" if date.hour >= 12 else "am"
    return f"{(date.hour - 1) % 12 + 1}:{date:%M} {half} on {date.day} {MONTHS[date.month - 1]}, {date.year}"


_RAWS = msgspec.json.Decoder(list[Raw])
_RECORD = msgspec.json.Decoder(CueRecord)


def read_cues(path: Path) -> list[CueRecord]:
    """Decode and validate a whole file.

    Raises:
        DataError: it cannot be read, is not a JSON array of records, or a record is invalid.
    """
    with reading("The data set file", path, kind=DataError):
        data = path.read_bytes()
    try:
        raws = _RAWS.decode(json_in(path, data))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise malformed(path, len(data), error) from None
    if not raws:
        raise DataError("The data set file is an empty array", where=str(path), fix="It must contain at least one item")
    return [_checked(Place(path, number, ""), raw) for number, raw in enumerate(raws, start=1)]


def _checked(place: Place, raw: Raw) -> CueRecord:
    record = place.decode("", _RECORD, raw)
    for field, text in (("cue_dialogue", record.cue_dialogue), ("trigger_query", record.trigger_query)):
        lines = lines_of(text)
        if not lines or not all(words for _, words in lines):
            raise place.fault(field, "The text has no line of a speaker", 'Begin its lines with "A: " or "B: "')
    return record
