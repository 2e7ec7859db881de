"""The LoCoMo file: ten conversations, each with its questions, decoded and checked as a whole.

Field names and their meaning are those of `data/locomo10.json` in the official repository (snap-research/locomo). The
fields that the authors generated in addition to the conversation (observations, summaries, events, image queries) are
not read: some of them give answers away.
"""

import re
from datetime import datetime
from operator import attrgetter
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta, Raw, Struct

from longmemeval.benchmarks.data_files import Answered, Place, is_blank, malformed, problem_of_id
from longmemeval.core.text.quantities import MONTHS
from longmemeval.errors import DataError, nearest
from longmemeval.records import RightAnswer

CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}
"""Names of the category numbers: only with these do the counts of the paper's Table 5 match the file."""
ADVERSARIAL = 5
NOT_MENTIONED = "Not mentioned in the conversation"
"""The right option of an adversarial question, as worded in the official prompt (`task_eval/gpt_utils.py`)."""
ABSTENTION_PHRASES = ("no information available", "not mentioned")
"""Phrases that the official score counts as abstaining, in any case (`task_eval/evaluation.py`)."""

_DATE = re.compile(rf"(\d\d?):(\d\d) (am|pm) on (\d\d?) ({'|'.join(MONTHS)}), (\d{{4}})", re.ASCII)
_SESSION = re.compile(r"session_([1-9]\d{0,8})", re.ASCII)
_DIA_ID = re.compile(r"D:?(\d{1,9}):(\d{1,9})", re.ASCII)
_Text = Annotated[str, Meta(pattern=r"\S")]


class TurnRecord(Struct, frozen=True, omit_defaults=True):
    """One turn; its `dia_id` is `D<session>:<turn>`, with both numbers counted from 1."""

    speaker: str
    dia_id: str
    text: str
    blip_caption: str | None = None


class SessionRecord(Struct, frozen=True):
    """The list `session_<number>` with its date."""

    number: int
    date_text: str
    turns: tuple[TurnRecord, ...]

    @property
    def session_id(self) -> str:
        """The key of the session in the file."""
        return f"session_{self.number}"

    @property
    def date(self) -> datetime:
        """The date, naive."""
        return parse_date(self.date_text)


class QuestionRecord(Struct, frozen=True, omit_defaults=True):
    """One entry of `qa`. Adversarial questions have the trap, except in some copies; two have a stray `answer`."""

    question: _Text
    category: int
    evidence: tuple[str, ...]
    answer: Answered | None = None
    adversarial_answer: _Text | None = None

    @property
    def gold_answer(self) -> RightAnswer:
        """The right answer; only adversarial questions may lack one."""
        return NOT_MENTIONED if self.category == ADVERSARIAL or self.answer is None else self.answer


class Conversation(Struct, frozen=True):
    """The used fields of one record; sessions are in order of date, ties in order of number."""

    sample_id: str
    speaker_a: str
    speaker_b: str
    sessions: tuple[SessionRecord, ...]
    qa: tuple[QuestionRecord, ...]

    def references(self, evidence: str) -> list[str]:
        """Return the message ids of the existing turns that an evidence string names, with repeats.

        Nine strings of the official file do not name a turn in the plain form: they have several ids, or the form
        `D:11:26` or `D30:05`, or name turns that do not exist.
        """
        lengths = {session.number: len(session.turns) for session in self.sessions}
        named = [(int(number), int(turn)) for number, turn in _DIA_ID.findall(evidence)]
        return [f"session_{number}:{turn - 1}" for number, turn in named if 1 <= turn <= lengths.get(number, 0)]


class _Record(Struct, frozen=True):
    sample_id: _Text
    conversation: Raw
    qa: tuple[QuestionRecord, ...]


class _Speakers(Struct, frozen=True):
    speaker_a: _Text
    speaker_b: _Text


class _Id(Struct, frozen=True):
    sample_id: str


_RAWS = msgspec.json.Decoder(list[Raw])
_RECORD = msgspec.json.Decoder(_Record)
_ID = msgspec.json.Decoder(_Id)
_SPEAKERS = msgspec.json.Decoder(_Speakers)
_PARTS = msgspec.json.Decoder(dict[str, Raw])
_STRING = msgspec.json.Decoder(str)
_TURNS = msgspec.json.Decoder(tuple[TurnRecord, ...])


def read_conversations(path: Path, data: memoryview) -> list[Conversation]:
    """Decode and validate a whole file.

    Args:
        path: the file, for the errors.
        data: its JSON.

    Raises:
        DataError: it is not a JSON array of records, or a record is invalid.
    """
    try:
        raws = _RAWS.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise malformed(path, len(data), error) from None
    if not raws:
        raise DataError(
            "The dataset file is an empty array", where=str(path), fix="It must contain at least one record"
        )
    numbers: dict[str, int] = {}
    conversations = []
    for number, raw in enumerate(raws, start=1):
        place = Place(path, number, _label(raw))
        conversation = _conversation(place, raw)
        if (earlier := numbers.setdefault(conversation.sample_id, number)) != number:
            raise place.fault("sample_id", f"The same sample id is in record {earlier}", "Make the ids unique")
        conversations.append(conversation)
    if not any(conversation.qa for conversation in conversations):
        raise DataError("The dataset file has no question: every list `qa` is empty", where=str(path))
    return conversations


def parse_date(text: str) -> datetime:
    """Parse a date such as `1:56 pm on 8 May, 2023`, naive, whatever the locale.

    Raises:
        ValueError: the text has another form or is not a real minute.
    """
    match = _DATE.fullmatch(text)
    if match is None or not 1 <= int(match[1]) <= 12:
        raise ValueError(f"{text!r} is not a date")
    hour, minute, half, day, month, year = match.groups()
    hour_of_day = int(hour) % 12 + 12 * (half == "pm")
    return datetime(int(year), MONTHS.index(month) + 1, int(day), hour_of_day, int(minute))


def dia_id_of(message_id: str) -> str:
    """Return the dialogue id of a stored turn: `session_3:0` → `D3:1`; raises `ValueError` for another id."""
    match = re.fullmatch(r"session_([1-9]\d*):(0|[1-9]\d*)", message_id, re.ASCII)
    if match is None:
        raise ValueError(f"{message_id!r} is not the id of a LoCoMo message")
    return f"D{match[1]}:{int(match[2]) + 1}"


def _label(raw: Raw) -> str:
    """Return the name of a record that may be invalid, for errors."""
    try:
        return f"conversation {_ID.decode(raw).sample_id!r}"
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ""


def _conversation(place: Place, raw: Raw) -> Conversation:
    """Decode and validate one record."""
    record = place.decode("", _RECORD, raw)
    if problem := problem_of_id(record.sample_id):
        raise place.fault("sample_id", f"The sample id {problem}", "Rename the conversation: ids become file names")
    speakers = place.decode("conversation", _SPEAKERS, record.conversation)
    if speakers.speaker_a == speakers.speaker_b:
        raise place.fault("conversation.speaker_b", f"Both speakers are called {speakers.speaker_a!r}")
    parts = place.decode("conversation", _PARTS, record.conversation)
    # Sessions are not derived from the dates: the official conv-26 has 35 dates and 19 sessions. They are sorted as
    # numbers, since as texts 10 would come before 2.
    numbers = sorted(int(match[1]) for key in parts if (match := _SESSION.fullmatch(key)))
    if not numbers:
        raise place.fault("conversation", "The conversation has no session", "Sessions are lists called session_<n>")
    for index, question in enumerate(record.qa):
        _check_question(place, f"qa[{index}]", question)
    sessions = sorted((_session(place, number, parts, speakers) for number in numbers), key=attrgetter("date"))
    return Conversation(record.sample_id, speakers.speaker_a, speakers.speaker_b, tuple(sessions), record.qa)


def _session(place: Place, number: int, parts: dict[str, Raw], speakers: _Speakers) -> SessionRecord:
    """Decode and validate one session."""
    field = f"conversation.session_{number}"
    turns = place.decode(field, _TURNS, parts[f"session_{number}"])
    names = (speakers.speaker_a, speakers.speaker_b)
    for index, turn in enumerate(turns):
        if turn.speaker not in names:
            what = f"{turn.speaker!r} is neither of the two speakers"
            raise place.fault(f"{field}[{index}].speaker", what, nearest(turn.speaker, names))
        if turn.dia_id != f"D{number}:{index + 1}":
            what = f"The dialogue id {turn.dia_id!r} does not match the turn's position, 'D{number}:{index + 1}'"
            raise place.fault(f"{field}[{index}].dia_id", what, "Number the turns of each session from 1")
    return SessionRecord(number, _date_text(place, f"session_{number}_date_time", parts), turns)


def _date_text(place: Place, key: str, parts: dict[str, Raw]) -> str:
    """Return the text of a date, validated."""
    if key not in parts:
        raise place.fault(f"conversation.{key}", f"The field {key!r} is missing")
    text = place.decode(f"conversation.{key}", _STRING, parts[key])
    try:
        parse_date(text)
    except ValueError:
        what, fix = f"{text!r} is not a date", "Write it as 1:56 pm on 8 May, 2023"
        raise place.fault(f"conversation.{key}", what, fix) from None
    return text


def _check_question(place: Place, field: str, question: QuestionRecord) -> None:
    """Check what the decoder cannot: the category, and the presence of the fields that its grading needs."""
    if question.category not in CATEGORIES:
        known = ", ".join(f"{number} ({name})" for number, name in CATEGORIES.items())
        raise place.fault(f"{field}.category", f"{question.category} is not a category", f"Valid: {known}")
    if is_blank(question.answer):
        raise place.fault(f"{field}.answer", "The text is empty or blank")
    if question.category != ADVERSARIAL and question.answer is None:
        raise place.fault(f"{field}.answer", f"A question of category {question.category} needs the field 'answer'")
