"""LoCoMo-Plus: conversations of LoCoMo, each used many times, with an inserted exchange that a memory must notice.

The published file has cues and triggers, to be inserted into the conversations of LoCoMo. The parsing of lines, the
conversation of each item, and the lengths of gaps follow `data/unified_input.py` and `data/build_conv.py` in the
official repository (xjtuleeyf/Locomo-Plus at 059f4e3).
"""

import hashlib
import re
from datetime import datetime, timedelta
from functools import cached_property
from operator import attrgetter
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta, Raw, Struct

from longmemeval.benchmarks.data_files import Place, json_in, malformed
from longmemeval.benchmarks.in_memory import InMemoryDataset
from longmemeval.benchmarks.locomo.format import Conversation
from longmemeval.benchmarks.locomo.loader import LocomoDataset
from longmemeval.benchmarks.locomo_plus.benchmark import COGNITIVE
from longmemeval.core.files import sha256_file
from longmemeval.core.text.quantities import MONTHS
from longmemeval.core.text_files import reading
from longmemeval.errors import DataError
from longmemeval.records import Gold, Haystack, Question, Session, Turn

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
    with reading("The dataset file", path, kind=DataError):
        data = path.read_bytes()
    try:
        raws = _RAWS.decode(json_in(path, data))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise malformed(path, len(data), error) from None
    if not raws:
        raise DataError("The dataset file is an empty array", where=str(path), fix="It must contain at least one item")
    return [_checked(Place(path, number, ""), raw) for number, raw in enumerate(raws, start=1)]


def _checked(place: Place, raw: Raw) -> CueRecord:
    record = place.decode("", _RECORD, raw)
    for field, text in (("cue_dialogue", record.cue_dialogue), ("trigger_query", record.trigger_query)):
        lines = lines_of(text)
        if not lines or not all(words for _, words in lines):
            raise place.fault(field, "The text has no line of a speaker", 'Begin its lines with "A: " or "B: "')
    return record


CUE_SESSION = "session_cue"
ASKED_AFTER = timedelta(days=7)
"""Time from the last session of the conversation to the trigger."""


class LocomoPlusDataset(InMemoryDataset):
    """A `Dataset` over a file of cues and triggers, and LoCoMo's conversations in the same folder.

    Item i, counted from 0, belongs to conversation i modulo their number. Its haystack, `<sample_id>_plus_<i>`, is that
    conversation plus the session `session_cue`, dated by the item's gap before the trigger. The question is the
    trigger, which the first speaker says 7 days after the last session. A gap without a number is 0 days, as in the
    official code: the cue then comes after all sessions.

    Args:
        path: the file of items; LoCoMo's `locomo10.json` is in the same folder.
        name: the catalogue name; empty: the stem of the file.
        captions: False removes the captions of shared pictures. The name then ends in `-without-captions`.

    Raises:
        DataError: a file is missing or invalid.
    """

    def __init__(self, path: Path, name: str = "", captions: bool = True) -> None:
        self.items = read_cues(path)
        self._locomo_file = path.with_name(LOCOMO_FILE)
        if not self._locomo_file.is_file():
            raise DataError(
                "The conversations into which the cues are inserted are not in their folder",
                where=str(self._locomo_file),
                fix="Run `longmemeval datasets download locomo-plus`, or put LoCoMo's locomo10.json there",
            )
        locomo = LocomoDataset(self._locomo_file, captions=captions)
        conversations = [(c, locomo.haystack(c.sample_id)) for c in locomo.conversations()]
        spliced = [
            _spliced(number, item, *conversations[number % len(conversations)])
            for number, item in enumerate(self.items)
        ]
        super().__init__(
            "locomo-plus",
            path,
            (name or path.stem) + ("" if captions else "-without-captions"),
            [haystack for haystack, _, _ in spliced],
            [(question, gold) for _, question, gold in spliced],
        )
        speakers = [conversation.speaker_a for conversation, _ in conversations]
        self.asked_by = {
            question.question_id: speakers[number % len(speakers)] for number, (_, question, _) in enumerate(spliced)
        }
        """Speaker of the trigger by question id."""

    @property
    def files(self) -> tuple[Path, ...]:
        """The items and the conversations."""
        return (self.path, self._locomo_file)

    @cached_property
    def sha256(self) -> str:
        """Hash of the hashes of both files."""
        return hashlib.sha256("".join(map(sha256_file, self.files)).encode()).hexdigest()


def _spliced(
    number: int, item: CueRecord, conversation: Conversation, haystack: Haystack
) -> tuple[Haystack, Question, Gold]:
    """Return the haystack of one item, its question and its gold."""
    haystack_id, trigger_date = f"{conversation.sample_id}_plus_{number}", haystack.sessions[-1].date + ASKED_AFTER
    cue_date = trigger_date - timedelta(days=item.gap_days or 0)
    names = {"A": conversation.speaker_a, "B": conversation.speaker_b}
    turns = tuple(Turn("user" if speaker == "A" else "assistant", words, names[speaker]) for speaker, words in item.cue)
    cue = Session(CUE_SESSION, cue_date, date_text(cue_date), turns)
    # Sorting is stable: a cue at the time of a session comes after it, as in the official code.
    sessions = tuple(sorted((*haystack.sessions, cue), key=attrgetter("date")))
    # The colon is that of the official code, U+FF1A, so that its judge reads the same bytes.
    texts = tuple(f"{turn.speaker}\N{FULLWIDTH COLON}{turn.content}" for turn in turns)
    question_id = f"{haystack_id}/q"
    return (
        Haystack(haystack_id, sessions),
        Question(question_id, item.trigger, trigger_date, date_text(trigger_date), haystack_id),
        Gold(
            question_id,
            COGNITIVE,
            "\n".join(texts),
            (CUE_SESSION,),
            tuple(f"{CUE_SESSION}:{index}" for index in range(len(turns))),
            abstention=False,
            evidence_raw=(item.cue_dialogue,),
            evidence_texts=texts,
            facets={"gap_days": item.gap_days or 0},
        ),
    )


class LocomoPlusQuirks(Struct):
    """Counts of each oddity."""

    cues_of_one_line: int = 0
    """Cues without a reply."""
    repeated_cues: int = 0
    """Cues with the text of an earlier one; the triggers differ."""
    repeated_triggers: int = 0
    gaps_without_number: int = 0
    """Gaps such as "several months later", read as 0 days as in the official code."""
    cues_before_the_first_session: int = 0
    cues_after_the_last_session: int = 0
    """Cues between the last session and the trigger."""
    cues_at_the_time_of_a_session: int = 0
    """Cues in the same minute as a session, which they follow."""
    lines_without_speaker: int = 0
    """Lines of cues and triggers that begin with neither `A:` nor `B:`, left out as in the official code."""
    items_beyond_ascii: int = 0
    gap_texts: int = 0
    """Number of different texts for the gap before the trigger."""


def locomo_plus_quirks(dataset: LocomoPlusDataset) -> LocomoPlusQuirks:
    """Count the oddities of a file."""
    items = dataset.items
    quirks = LocomoPlusQuirks(
        cues_of_one_line=sum(len(item.cue) == 1 for item in items),
        repeated_cues=len(items) - len({item.cue_dialogue for item in items}),
        repeated_triggers=len(items) - len({item.trigger_query for item in items}),
        gaps_without_number=sum(item.gap_days is None for item in items),
        lines_without_speaker=sum(
            len(item.cue_dialogue.split("\n")) - len(item.cue) + item.trigger_query.count("\n") for item in items
        ),
        items_beyond_ascii=sum(
            not (item.cue_dialogue + item.trigger_query + item.time_gap).isascii() for item in items
        ),
        gap_texts=len({item.time_gap for item in items}),
    )
    for haystack in dataset.haystacks():
        ids = [session.session_id for session in haystack.sessions]
        place = ids.index(CUE_SESSION)
        dates = [session.date for session in haystack.sessions]
        quirks.cues_before_the_first_session += place == 0
        others = dates[:place] + dates[place + 1 :]
        quirks.cues_after_the_last_session += dates[place] > others[-1]
        quirks.cues_at_the_time_of_a_session += dates[place] in others
    return quirks
