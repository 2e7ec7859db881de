"""Make a data set from exports, check it, and count the properties that can mislead."""

import shutil
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from itertools import groupby
from pathlib import Path

import msgspec
from msgspec import Struct

from longmemeval.benchmarks.conversations.benchmark import SESSIONS
from longmemeval.benchmarks.conversations.exports import ExportedMessage, read_export
from longmemeval.benchmarks.conversations.loader import (
    FORMAT,
    QUESTIONS,
    StoredMessage,
    StoredSession,
    StoredSessions,
    load,
    read_questions,
)
from longmemeval.core.files import write_atomic
from longmemeval.errors import DataError

_LONG = 20_000
"""Number of characters above which a message is usually a pasted document."""


class ImportedChats(Struct, frozen=True):
    """The result of an import, with the properties that can mislead."""

    folder: str
    sessions: int
    messages: int
    questions: int
    first: datetime
    last: datetime
    left_out: dict[str, int]
    """Numbers of items that are not in the data set, by reason."""
    misleading: dict[str, int]
    """Numbers of items that are in the data set and can mislead, by reason."""


def import_chats(
    exports: Sequence[Path], folder: Path, *, questions: Path | None = None, date: datetime | None = None
) -> ImportedChats:
    """Write the sessions of exports into a folder; the messages of one day in one conversation are a session.

    Args:
        exports: files for `read_export`, all of one person: together they are one history.
        folder: folder of the data set; if it exists, its questions and evidence are kept.
        questions: a YAML or JSON file with the questions; copied into the folder.
        date: the time of messages without a date; None: such messages are an error.

    Raises:
        DataError: an export or a question cannot be read, or a message has no date; names file, record and field.
    """
    if questions:
        read_questions(questions)
    left_out, misleading = Counter[str](), Counter[str]()
    dated: list[tuple[datetime, list[ExportedMessage]]] = []
    for path in exports:
        export = read_export(path)
        left_out += export.left_out
        for number, conversation in enumerate(export.conversations, start=1):
            dated += _days(conversation, f"{path}, conversation {number}", date, misleading)
    if not dated:
        raise DataError("There is no message with text", where=", ".join(map(str, exports)))
    dated.sort(key=lambda session: session[0])
    sessions = [
        StoredSession(
            f"s{number:04}",
            day,
            tuple(StoredMessage(message.role, message.text, message.speaker) for message in exported),
        )
        for number, (day, exported) in enumerate(_once(dated, left_out), start=1)
    ]
    folder.mkdir(parents=True, exist_ok=True)
    write_atomic(folder / SESSIONS, msgspec.json.format(msgspec.json.encode(StoredSessions(FORMAT, tuple(sessions)))))
    if questions and questions.resolve() != (folder / QUESTIONS).resolve():
        shutil.copyfile(questions, folder / QUESTIONS)
    messages = [message for session in sessions for message in session.messages]
    misleading[f"messages of more than {_LONG:,} characters, often pasted documents"] = sum(
        len(message.text) > _LONG for message in messages
    )
    misleading["sessions in which the user says nothing"] = sum(
        all(message.role != "user" for message in session.messages) for session in sessions
    )
    question_count = _check_questions(folder, sessions, misleading)
    return ImportedChats(
        str(folder),
        len(sessions),
        len(messages),
        question_count,
        sessions[0].date,
        sessions[-1].date,
        {what: count for what, count in left_out.items() if count},
        {what: count for what, count in misleading.items() if count},
    )


def _days(
    conversation: Sequence[ExportedMessage], place: str, date: datetime | None, misleading: Counter[str]
) -> list[tuple[datetime, list[ExportedMessage]]]:
    """Return the messages of each day, with the time of the first message."""
    latest = date
    moments: list[tuple[datetime, ExportedMessage]] = []
    for number, message in enumerate(conversation, start=1):
        if message.when is None and latest is None:
            raise DataError(
                "The message has no date",
                where=f"{place}, message {number}",
                fix="Add `date` to the conversation or its messages, or use --date for all messages without one",
            )
        misleading["messages without a date of their own"] += message.when is None
        latest = message.when or latest or datetime.min
        moments.append((latest, message))
    grouped = groupby(moments, key=lambda pair: pair[0].date())
    days = [list(group) for _, group in grouped]
    return [(day[0][0], [message for _, message in day]) for day in days]


def _once(
    dated: Sequence[tuple[datetime, list[ExportedMessage]]], left_out: Counter[str]
) -> list[tuple[datetime, list[ExportedMessage]]]:
    """Return each session once: two exports of one account contain the same conversations."""
    sessions: dict[tuple[datetime, tuple[str, ...]], list[ExportedMessage]] = {}
    for day, messages in dated:
        key = (day, tuple(message.text for message in messages))
        left_out["sessions that come twice"] += key in sessions
        sessions.setdefault(key, messages)
    return [(day, messages) for (day, _), messages in sessions.items()]


def _check_questions(folder: Path, sessions: Sequence[StoredSession], misleading: Counter[str]) -> int:
    if not (folder / QUESTIONS).exists():
        return 0
    data = load(folder, "")
    for question in data.questions():
        gold = data.gold(question.question_id)
        misleading["questions with an answer and no evidence: `longmemeval datasets label` proposes some"] += (
            not gold.abstention and not gold.evidence_turns
        )
        misleading["questions asked before the last session: what comes later is not hidden from a memory"] += (
            question.date < sessions[-1].date
        )
    return len(data)
