"""Read a folder of sessions, questions and evidence."""

from datetime import UTC, date, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from longmemeval.benchmarks.conversations.benchmark import SESSIONS
from longmemeval.benchmarks.in_memory import InMemoryDataset
from longmemeval.core.files import sha256_file, sha256_text
from longmemeval.core.text_files import UnreadableError, decode_format, decode_json, load_yaml, read_text
from longmemeval.errors import DataError
from longmemeval.records import Gold, Haystack, Question, Role, Session, Turn

QUESTIONS, EVIDENCE = "questions.yaml", "evidence.json"
FORMAT = 1
UNANSWERABLE = "unanswerable"
T = TypeVar("T")


class StoredMessage(Struct, frozen=True, omit_defaults=True):
    """A message of `sessions.json`."""

    role: Role
    text: str
    speaker: str = ""


class StoredSession(Struct, frozen=True):
    """A session of `sessions.json`."""

    id: str
    date: datetime
    messages: tuple[StoredMessage, ...]


class StoredSessions(Struct, frozen=True):
    """The file `sessions.json`."""

    format: int
    sessions: tuple[StoredSession, ...]


class AskedQuestion(Struct, frozen=True, forbid_unknown_fields=True):
    """A question of `questions.yaml`."""

    question: str
    answer: str | int | None = None
    """The right answer; None: nothing in the sessions answers the question."""
    id: str = ""
    type: str = ""
    date: Any = None
    """A date, or a date and a time; None: that of the last session."""
    evidence: tuple[str, ...] = ()
    """Message ids such as `s001:3`; those of `evidence.json` count too."""


class OwnConversations(InMemoryDataset):
    """A `Dataset` over the files of one folder."""

    @property
    def files(self) -> tuple[Path, ...]:
        """Sessions, questions and evidence."""
        return tuple(path for name in (SESSIONS, QUESTIONS, EVIDENCE) if (path := self.path / name).exists())

    @cached_property
    def sha256(self) -> str:
        """Hash of the files' bytes."""
        return sha256_text("".join(f"{path.name}:{sha256_file(path)}\n" for path in self.files))


def load(path: Path, name: str) -> OwnConversations:
    """Return the dataset in a folder; all its sessions are one history."""
    sessions = read_sessions(path)
    if not sessions:
        raise DataError("The file holds no session", where=str(path / SESSIONS))
    questions, labelled = read_questions(path / QUESTIONS), read_evidence(path)
    history = Haystack(path.name, tuple(_session(session) for session in sessions))
    last = sessions[-1].date
    pairs = [_pair(question, path.name, last, labelled.get(question.id, ())) for question in questions]
    return OwnConversations("conversations", path, name, [history], pairs)


def read_sessions(folder: Path) -> tuple[StoredSession, ...]:
    """Return the sessions of a folder, in time order.

    Raises:
        DataError: the file is missing or damaged.
    """
    path = folder / SESSIONS
    try:
        return decode_format(path.read_bytes(), StoredSessions, FORMAT, "The sessions", str(path)).sessions
    except (OSError, UnreadableError) as error:
        fix = "Write it with `longmemeval datasets import`"
        raise DataError(f"The sessions cannot be read: {error}", where=str(path), fix=fix) from error


def read_questions(path: Path) -> list[AskedQuestion]:
    """Return the questions of a YAML or JSON file, each with an id.

    Raises:
        DataError: it cannot be read; names record and field.
    """
    try:
        records = load_yaml(read_text(path))
    except (OSError, UnreadableError) as error:
        fix = "Write a list of entries with `question:` and `answer:` there"
        place = error.place(path) if isinstance(error, UnreadableError) else str(path)
        raise DataError(f"The questions cannot be read: {error}", where=place, fix=fix) from error
    if not isinstance(records, list) or not records:
        raise DataError(
            "The file is not a list of questions", where=str(path), fix="Begin each entry with `- question:`"
        )
    questions = [
        converted(record, AskedQuestion, path, f"question {number}") for number, record in enumerate(records, start=1)
    ]
    return [
        msgspec.structs.replace(
            question,
            id=question.id or f"q{number:02}",
            date=moment(question.date, f"{path}, question {number}, date"),
        )
        for number, question in enumerate(questions, start=1)
    ]


def read_evidence(folder: Path) -> dict[str, tuple[str, ...]]:
    """Return the labelled message ids by question id."""
    path = folder / EVIDENCE
    return decode_json(path.read_bytes(), dict[str, tuple[str, ...]]) if path.exists() else {}


def converted(record: object, kind: type[T], path: Path, place: str) -> T:
    """Return a record of a file as a `kind`.

    Raises:
        DataError: the record does not fit; names file, record and field.
    """
    try:
        return msgspec.convert(record, kind, strict=False)
    except msgspec.ValidationError as error:
        what, _, field = str(error).partition(" - at `$.")
        where = f"{path}, {place}{', ' if field else ''}{field.rstrip('`')}"
        raise DataError(what, where=where, fix="Put the value in quotes" if "str" in what else "") from error


def moment(value: object, where: str) -> datetime | None:
    """Return a time without zone and seconds: as written, or in UTC for seconds since 1970; None for None.

    Raises:
        DataError: it is not a date.
    """
    try:
        if isinstance(value, int | float):
            value = datetime.fromtimestamp(value, UTC)
        elif isinstance(value, str):
            value = datetime.fromisoformat(value)
        elif isinstance(value, date) and not isinstance(value, datetime):
            value = datetime(value.year, value.month, value.day)
    except (ValueError, OverflowError, OSError):
        pass
    if value is None or isinstance(value, datetime):
        return value and value.replace(tzinfo=None, second=0, microsecond=0)
    raise DataError(f"{value!r} is not a date", where=where, fix="Write dates as 2026-11-22 or 2026-11-22T09:30")


def _session(stored: StoredSession) -> Session:
    turns = tuple(Turn(message.role, message.text, message.speaker) for message in stored.messages)
    return Session(stored.id, stored.date, f"{stored.date:%Y-%m-%d %H:%M}", turns)


def _pair(stored: AskedQuestion, haystack: str, last: datetime, labelled: tuple[str, ...]) -> tuple[Question, Gold]:
    date: datetime = stored.date or last
    evidence = tuple(dict.fromkeys((*stored.evidence, *labelled)))
    sessions = tuple(dict.fromkeys(name.rpartition(":")[0] for name in evidence))
    abstention = stored.answer is None
    kind = stored.type or (UNANSWERABLE if abstention else "question")
    answer = "Nothing in the conversations answers this." if stored.answer is None else stored.answer
    gold = Gold(stored.id, kind, answer, sessions, evidence, abstention)
    return Question(stored.id, stored.question, date, f"{date:%Y-%m-%d %H:%M}", haystack), gold
