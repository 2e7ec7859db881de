"""Files of LongMemEval's format: S, M and oracle, original and cleaned, and a user's own files in this format.

The file is mapped into memory and split record by record: the fields of a question are decoded, while the three long
lists of its haystack stay undecoded views of the mapping until they are needed. So a file of any size needs memory for
only one haystack. Field names and their meaning are those of the official repository's README and `run_retrieval.py`.
"""

import hashlib
import re
from collections.abc import Collection, Iterator
from datetime import datetime
from functools import cached_property, lru_cache
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any, Generic, NamedTuple, TypeVar

import msgspec
from msgspec import Meta, Raw, Struct
from msgspec.structs import force_setattr

from longmemeval.benchmarks.data_files import (
    Answered,
    MappedFile,
    Place,
    is_blank,
    malformed,
    note_read,
    problem_of_id,
    unknown_id,
)
from longmemeval.core.text.quantities import WEEKDAYS
from longmemeval.errors import DataError, nearest
from longmemeval.records import Gold, Haystack, Question, Role, Session, Turn

QUESTION_TYPES = (
    "single-session-user",
    "single-session-assistant",
    "single-session-preference",
    "multi-session",
    "knowledge-update",
    "temporal-reasoning",
)

_WEEKDAY = "|".join(name[:3] for name in WEEKDAYS)
_DATE = re.compile(rf"(\d{{4}})/(\d\d)/(\d\d) \((?:{_WEEKDAY})\) (\d\d):(\d\d)", re.ASCII)
_Text = Annotated[str, Meta(pattern=r"\S")]
_SessionId = Annotated[str, Meta(min_length=1)]
_T = TypeVar("_T")


class LabelledTurn(Turn, frozen=True, gc=False, omit_defaults=True):
    """A turn with its evidence label; a missing one, and `null`, as files padded by hubs have it, are `false`."""

    has_answer: bool | None = False

    def __post_init__(self) -> None:
        if self.has_answer is None:
            force_setattr(self, "has_answer", False)


class _UserTurn(LabelledTurn, frozen=True, gc=False, kw_only=True, tag_field="role", tag="user", rename={"role": "."}):
    """A turn of the user; its role is not a data field here, since it is the tag that distinguishes the turn types."""

    role: Role = "user"


class _SilentTurn(
    LabelledTurn,
    frozen=True,
    gc=False,
    kw_only=True,
    tag_field="role",
    tag="assistant",
    rename={"role": ".", "content": "-"},
):
    """A turn of the assistant without its text, which is most of a file."""

    role: Role = "assistant"
    content: str = ""


class _Head(Struct, frozen=True):
    """The question of a record."""

    question_id: _Text
    question_type: str
    question: _Text
    question_date: str
    answer: Answered
    answer_session_ids: tuple[_SessionId, ...]


class _Entry(_Head, frozen=True):
    """A record in memory: the long lists are views of the mapped file."""

    haystack_dates: Raw
    haystack_session_ids: Raw
    haystack_sessions: Raw

    def __post_init__(self) -> None:
        note_read(memoryview(self.haystack_sessions).nbytes)


class Record(_Head, frozen=True):
    """A whole record in file order, with every known field; the content hash is over these."""

    haystack_dates: tuple[str, ...]
    haystack_session_ids: tuple[str, ...]
    haystack_sessions: tuple[tuple[LabelledTurn, ...], ...]


class _Id(Struct, frozen=True):
    question_id: str


class _Label(Struct, frozen=True):
    has_answer: bool | None = False


class _LabelKey(Struct, frozen=True):
    has_answer: bool | None = None
    """The label; None if the turn does not have the key, or only null there."""


class _History(NamedTuple, Generic[_T]):
    """The three parallel lists of a haystack, checked, in file order."""

    dates: tuple[datetime, ...]
    date_texts: tuple[str, ...]
    session_ids: tuple[str, ...]
    sessions: tuple[_T, ...]


_ENTRY = msgspec.json.Decoder(_Entry)
_ENTRIES = msgspec.json.Decoder(list[_Entry])
_STRINGS = msgspec.json.Decoder(tuple[str, ...])
_SESSION_IDS = msgspec.json.Decoder(tuple[_SessionId, ...])
_TURNS = msgspec.json.Decoder(tuple[tuple[Turn, ...], ...])
_LABELS = msgspec.json.Decoder(tuple[tuple[_Label, ...], ...])
_LABEL_KEYS = msgspec.json.Decoder(tuple[tuple[_LabelKey, ...], ...])
_USER_SIDE = msgspec.json.Decoder(tuple[tuple[_UserTurn | _SilentTurn, ...], ...])
_LABELLED_TURNS = msgspec.json.Decoder(tuple[tuple[LabelledTurn, ...], ...])


def _turns_sha256(entry: _Entry) -> bytes:
    """Return a hash of the turns of a history, without labels and ids; of its bytes if they cannot be decoded."""
    try:
        turns = msgspec.json.encode(_TURNS.decode(entry.haystack_sessions))
    except (msgspec.DecodeError, UnicodeDecodeError):
        turns = bytes(entry.haystack_sessions)
    return hashlib.sha256(turns).digest()


class LongMemEvalDataset:
    """A `Dataset` over one file of LongMemEval's format.

    Opening decodes and validates the questions; haystacks are decoded and validated one by one, on demand. Unknown keys
    are allowed; a turn may also have `speaker` and `caption`. The mapping is released with the object.

    Args:
        path: the file.
        name: the catalogue name; empty: the stem of the file.

    Raises:
        DataError: the file cannot be read, is not a JSON array of records, or a question is invalid.
    """

    benchmark = "longmemeval"

    def __init__(self, path: Path, name: str = "") -> None:
        self.path = path
        self.name = name or path.stem
        self._file = MappedFile(path)
        self._entries = _split(path, self._file)
        self._numbers: dict[str, int] = {}
        for number, entry in enumerate(self._entries, start=1):
            self._check_question(_Place(path, number, f"question {entry.question_id!r}"), entry)
            self._numbers[entry.question_id] = number

    def _check_question(self, place: "_Place", entry: _Entry) -> None:
        """Check what the decoder cannot: a valid and new id, the type and the date."""
        if problem := problem_of_id(entry.question_id):
            raise place.fault("question_id", f"The question id {problem}", "Rename the question: ids become file names")
        if (earlier := self._numbers.get(entry.question_id)) is not None:
            raise place.fault("question_id", f"The same question id is in record {earlier}", "Make the ids unique")
        if entry.question_type not in QUESTION_TYPES:
            what = f"{entry.question_type!r} is not a question type"
            raise place.fault("question_type", what, nearest(entry.question_type, QUESTION_TYPES))
        if is_blank(entry.answer):
            raise place.fault("answer", "The text is empty or blank")
        place.date("question_date", entry.question_date)

    @property
    def sha256(self) -> str:
        """Hash of the file's bytes, 64 hexadecimal digits."""
        return self._file.sha256

    @cached_property
    def content_sha256(self) -> str:
        """Hash of every record's known fields as canonical JSON, one a line; validates the whole file."""
        from concurrent.futures import Future, ThreadPoolExecutor

        digest = hashlib.sha256()
        # One record is hashed while the next is read.
        with ThreadPoolExecutor(1) as hasher:
            hashed: Future[None] | None = None
            for record in self.records():
                line = msgspec.json.encode(record) + b"\n"
                if hashed:
                    hashed.result()
                hashed = hasher.submit(digest.update, line)
        return digest.hexdigest()

    @property
    def files(self) -> tuple[Path, ...]:
        """The file as the only element."""
        return (self.path,)

    def __len__(self) -> int:
        return len(self._entries)

    @cached_property
    def units(self) -> dict[str, str]:
        """Question id -> the first question with the same history: equal turns on equal dates, whatever their ids.

        Questions on copies of one history are not independent. Only histories that share all their dates are decoded.
        """
        by_dates: dict[bytes, list[_Entry]] = {}
        for entry in self._entries:
            by_dates.setdefault(bytes(entry.haystack_dates), []).append(entry)
        units: dict[str, str] = {}
        for alike in by_dates.values():
            firsts: dict[bytes, str] = {}
            for entry in alike:
                turns = _turns_sha256(entry) if len(alike) > 1 else b""
                units[entry.question_id] = firsts.setdefault(turns, entry.question_id)
        return units

    def questions(self) -> Iterator[Question]:
        """Yield all questions in file order."""
        for entry in self._entries:
            date = parse_date(entry.question_date)
            yield Question(entry.question_id, entry.question, date, entry.question_date, entry.question_id)

    def haystacks(self) -> Iterator[Haystack]:
        """Yield all haystacks in file order, one in memory at a time; raises `DataError` at an invalid record."""
        for entry in self._entries:
            yield self.haystack(entry.question_id)

    def haystack(self, haystack_id: str) -> Haystack:
        """Return the haystack of the question `haystack_id`, sessions by date, ties in file order.

        Labels are checked, so that `prepare` refuses what grading would, and dropped.
        """
        number = self._number(haystack_id, "haystack")
        self._place(number).decode("haystack_sessions", _LABELS, self._entries[number - 1].haystack_sessions)
        history = self._history(number, _TURNS)
        sessions = map(Session, history.session_ids, history.dates, history.date_texts, history.sessions)
        return Haystack(haystack_id, tuple(sorted(sessions, key=attrgetter("date"))))

    def question_type(self, question_id: str) -> str:
        """Return one of `QUESTION_TYPES`."""
        return self._entries[self._number(question_id, "question") - 1].question_type

    def gold(self, question_id: str) -> Gold:
        """Return the right answer to `question_id`, its evidence sessions and the message ids of its labelled turns."""
        number = self._number(question_id, "question")
        entry = self._entries[number - 1]
        history = self._history(number, _LABELS)
        labelled = [
            f"{session_id}:{index}"
            for session_id, turns in zip(history.session_ids, history.sessions, strict=True)
            for index, turn in enumerate(turns)
            if turn.has_answer
        ]
        return Gold(
            question_id=question_id,
            question_type=entry.question_type,
            answer=entry.answer,
            evidence_sessions=entry.answer_session_ids,
            evidence_turns=tuple(dict.fromkeys(labelled)),
            abstention="_abs" in question_id,
        )

    def carries_labels(self, question_id: str) -> bool:
        """Return whether evidence turns are labelled: a turn has the key `has_answer`, whether true or false.

        Only the question's evidence sessions are inspected: those in the record's list, or with "answer" in the id. If
        the haystack has none of them, all sessions are.
        """
        number = self._number(question_id, "question")
        listed = self._entries[number - 1].answer_session_ids
        _, session_ids, sessions = self._lists(number, _LABEL_KEYS)
        columns = list(zip(session_ids, sessions, strict=True))
        evidence = [turns for name, turns in columns if name in listed or "answer" in name]
        return any(turn.has_answer is not None for turns in evidence or sessions for turn in turns)

    def records(self) -> Iterator[Record]:
        """Yield all records as in the file, with labels, fully validated, one in memory at a time."""
        for number in range(1, len(self) + 1):
            history = self._history(number, _LABELLED_TURNS)
            yield self._record(number, history.date_texts, history.session_ids, history.sessions)

    def user_side_records(self, question_ids: Collection[str]) -> Iterator[Record]:
        """Yield the records of these questions in file order, without texts of assistant turns or parsed dates.

        This is half the work of `records`, for code that needs only users' turns and labels.
        """
        for number, entry in enumerate(self._entries, start=1):
            if entry.question_id in question_ids:
                yield self._record(number, *self._lists(number, _USER_SIDE))

    def _record(
        self,
        number: int,
        date_texts: tuple[str, ...],
        session_ids: tuple[str, ...],
        sessions: tuple[tuple[LabelledTurn, ...], ...],
    ) -> Record:
        entry = self._entries[number - 1]
        return Record(
            question_id=entry.question_id,
            question_type=entry.question_type,
            question=entry.question,
            question_date=entry.question_date,
            answer=entry.answer,
            answer_session_ids=entry.answer_session_ids,
            haystack_dates=date_texts,
            haystack_session_ids=session_ids,
            haystack_sessions=sessions,
        )

    def plain_records(self) -> Iterator[dict[str, Any]]:
        """Yield all records as plain dictionaries, unknown keys included, one in memory at a time."""
        yield from map(msgspec.json.Decoder(dict[str, Any]).decode, self._file.records())

    def plain_record(self, question_id: str) -> dict[str, Any]:
        """Return the known fields of one record as plain values; turns keep unknown keys."""
        entry = self._entries[self._number(question_id, "question") - 1]
        decoder = msgspec.json.Decoder(Any)
        values = ((name, getattr(entry, name)) for name in _Entry.__struct_fields__)
        return {name: decoder.decode(value) if isinstance(value, Raw) else value for name, value in values}

    def _number(self, identifier: str, kind: str) -> int:
        """Return the record number, counted from 1, of a question or haystack id."""
        number = self._numbers.get(identifier)
        if number is None:
            raise unknown_id(self.path, kind, identifier, self._numbers)
        return number

    def _history(self, number: int, sessions_decoder: "msgspec.json.Decoder[tuple[_T, ...]]") -> _History[_T]:
        """Decode and validate one record's haystack; the decoder selects the fields of a turn."""
        date_texts, session_ids, sessions = self._lists(number, sessions_decoder)
        entry, place = self._entries[number - 1], self._place(number)
        known = set(session_ids)
        for index, session_id in enumerate(entry.answer_session_ids):
            # A reference file made only for grading has no haystack in which to look up the evidence.
            if known and session_id not in known:
                what = f"The evidence session {session_id!r} is not in the haystack"
                raise place.fault(f"answer_session_ids[{index}]", what, nearest(session_id, known))
        return _History(place.dates("haystack_dates", date_texts), date_texts, session_ids, sessions)

    def _lists(
        self, number: int, sessions_decoder: "msgspec.json.Decoder[tuple[_T, ...]]"
    ) -> tuple[tuple[str, ...], tuple[str, ...], tuple[_T, ...]]:
        """Decode the three equally long lists of one record's haystack: dates, session ids and sessions."""
        entry, place = self._entries[number - 1], self._place(number)
        date_texts = place.decode("haystack_dates", _STRINGS, entry.haystack_dates)
        session_ids = place.decode("haystack_session_ids", _SESSION_IDS, entry.haystack_session_ids)
        sessions = place.decode("haystack_sessions", sessions_decoder, entry.haystack_sessions)
        self._file.count_read(memoryview(entry.haystack_sessions).nbytes)
        if not len(date_texts) == len(session_ids) == len(sessions):
            lengths = f"{len(date_texts)} dates, {len(session_ids)} session ids and {len(sessions)} sessions"
            field = "haystack_dates, haystack_session_ids, haystack_sessions"
            raise place.fault(field, f"The haystack has {lengths}", "The three lists must be equally long")
        return date_texts, session_ids, sessions

    def _place(self, number: int) -> "_Place":
        return _Place(self.path, number, f"question {self._entries[number - 1].question_id!r}")


@lru_cache(maxsize=1 << 15)
def parse_date(text: str) -> datetime:
    """Parse a date such as `2023/05/30 (Tue) 23:40`, naive; the weekday is not compared with the date.

    Raises:
        ValueError: the text has another form or is not a real minute.
    """
    match = _DATE.fullmatch(text)
    if match is None:
        raise ValueError(text)
    year, month, day, hour, minute = map(int, match.groups())
    return datetime(year, month, day, hour, minute)


class _Place(Place):
    """A record of a LongMemEval file."""

    def date(self, field: str, text: str) -> datetime:
        """Return the date in `field`; raise `DataError` if it is not a date."""
        try:
            return parse_date(text)
        except ValueError:
            raise self.fault(field, f"{text!r} is not a date", "Write it as YYYY/MM/DD (Ddd) HH:MM") from None

    def dates(self, field: str, texts: tuple[str, ...]) -> tuple[datetime, ...]:
        """Return the dates in the list `field`; raise `DataError` at the first that is not a date."""
        try:
            return tuple(map(parse_date, texts))
        except ValueError:
            return tuple(self.date(f"{field}[{index}]", text) for index, text in enumerate(texts))


def _split(path: Path, file: MappedFile) -> list[_Entry]:
    """Split the file into its records."""
    try:
        entries = file.decode(_ENTRIES)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _first_fault(path, file.json, error) from None
    if not entries:
        fix = "It must contain at least one record"
        raise DataError("The dataset file is an empty array", where=str(path), fix=fix)
    return entries


def _first_fault(path: Path, data: memoryview, error: Exception) -> DataError:
    """Return the error for a file that does not decode: it cannot be split, or the record it names is invalid."""
    try:
        raws = msgspec.json.decode(data, type=list[Raw])
    except (msgspec.DecodeError, RecursionError) as unsplit:
        return malformed(path, len(data), unsplit)
    for number, raw in enumerate(raws, start=1):
        try:
            _Place(path, number, _label(raw)).decode("", _ENTRY, raw)
        except DataError as fault:
            return fault
    return malformed(path, len(data), error)


def _label(raw: Raw) -> str:
    """Return the name of a record that may be invalid, for errors."""
    try:
        return f"question {msgspec.json.decode(raw, type=_Id).question_id!r}"
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ""
