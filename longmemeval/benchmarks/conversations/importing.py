"""Make a data set of exports, check it, and count what can mislead."""

import shutil
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from itertools import groupby
from pathlib import Path

import msgspec
from msgspec import Struct

from longmemeval.benchmarks.conversations.benchmark import SESSIONS
from longmemeval.benchmarks.conversations.exports import Said, read_export
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
"""Characters: a longer message is mostly a pasted document."""


class ImportedChats(Struct, frozen=True):
    """What was imported, and what can mislead."""

    folder: str
    sessions: int
    messages: int
    questions: int
    first: datetime
    last: datetime
    left_out: dict[str, int]
    """Numbers of what is not in the data set, by reason."""
    misleading: dict[str, int]
    """Numbers of what is, and can mislead, by reason."""


def import_chats(
    exports: Sequence[Path], folder: Path, *, questions: Path | None = None, date: datetime | None = None
) -> ImportedChats:
    """Write the sessions of exports into a folder; what was said on one day in one conversation is a session.

    Args:
        exports: files as `read_export` takes them, of one person: together they are one history.
        folder: the data set; its questions and evidence are kept where it exists.
        questions: a YAML or JSON file with the questions; copied into the folder.
        date: the time of messages without one; None: these are an error.

    Raises:
        DataError: an export or a question cannot be read, or a message has no date; names file, record and field.
    """
    if questions:
        read_questions(questions)
    left_out, misleading = Counter[str](), Counter[str]()
    dated: list[tuple[datetime, list[Said]]] = []
    for path in exports:
        export = read_export(path)
        left_out += export.left_out
        for number, said in enumerate(export.conversations, start=1):
            dated += _days(said, f"{path}, conversation {number}", date, misleading)
    if not dated:
        raise DataError("There is no message with text", where=", ".join(map(str, exports)))
    dated.sort(key=lambda one: one[0])
    sessions = [
        StoredSession(f"s{number:04}", day, tuple(StoredMessage(one.role, one.text, one.speaker) for one in said))
        for number, (day, said) in enumerate(_once(dated, left_out), start=1)
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
    asked = _check_questions(folder, sessions, misleading)
    return ImportedChats(
        str(folder),
        len(sessions),
        len(messages),
        asked,
        sessions[0].date,
        sessions[-1].date,
        {what: count for what, count in left_out.items() if count},
        {what: count for what, count in misleading.items() if count},
    )


def _days(
    said: Sequence[Said], place: str, date: datetime | None, misleading: Counter[str]
) -> list[tuple[datetime, list[Said]]]:
    """Return what was said on each day, with the time of the first message."""
    latest = date
    moments: list[tuple[datetime, Said]] = []
    for number, one in enumerate(said, start=1):
        if one.when is None and latest is None:
            raise DataError(
                "The message has no date",
                where=f"{place}, message {number}",
                fix="Add `date` to the conversation or its messages, or give --date for all that have none",
            )
        misleading["messages without a date of their own"] += one.when is None
        latest = one.when or latest or datetime.min
        moments.append((latest, one))
    grouped = groupby(moments, key=lambda pair: pair[0].date())
    days = [list(of_day) for _, of_day in grouped]
    return [(of_day[0][0], [one for _, one in of_day]) for of_day in days]


def _once(dated: Sequence[tuple[datetime, list[Said]]], left_out: Counter[str]) -> list[tuple[datetime, list[Said]]]:
    """Return each session once: two exports of one account hold the same conversations."""
    found: dict[tuple[datetime, tuple[str, ...]], list[Said]] = {}
    for day, said in dated:
        key = (day, tuple(one.text for one in said))
        left_out["sessions that come twice"] += key in found
        found.setdefault(key, said)
    return [(day, said) for (day, _), said in found.items()]


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
