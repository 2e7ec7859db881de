"""Read the exports of chat services, make a dataset of them, check it, and count the properties that can mislead."""

import csv
import io
import shutil
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import groupby
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from longmemeval.benchmarks.conversations.benchmark import SESSIONS
from longmemeval.benchmarks.conversations.loader import (
    EVIDENCE,
    FORMAT,
    QUESTIONS,
    AskedQuestion,
    StoredMessage,
    StoredSession,
    StoredSessions,
    converted,
    load,
    moment,
    read_evidence,
    read_questions,
)
from longmemeval.benchmarks.conversations.loader import QUESTIONS as FILE
from longmemeval.core.files import write_atomic
from longmemeval.core.text.figures import shown_bytes
from longmemeval.core.text.words import content_words
from longmemeval.core.text_files import UnreadableError, decode_json, decode_text
from longmemeval.errors import DataError
from longmemeval.records import Message, Role
from longmemeval.storage.messages import haystack_messages

_INSIDE = "conversations.json"
"""The file in the archives of ChatGPT and Claude."""
_ASSISTANTS = ("assistant", "ai", "bot", "chatgpt", "claude", "gemini", "model")
_KNOWN = "ChatGPT's or Claude's conversations.json (or the .zip), {role, content} messages as JSON or JSONL, or a CSV"


class ExportedMessage(Struct, frozen=True):
    """One message of an export."""

    role: Role
    text: str
    when: datetime | None
    speaker: str = ""


class Export(Struct):
    """The conversations of one file, and the numbers of items left out, by reason."""

    conversations: list[list[ExportedMessage]] = []
    left_out: Counter[str] = msgspec.field(default_factory=Counter)


class _Author(Struct):
    role: str


class _Content(Struct):
    content_type: str = "text"
    parts: list[Any] | None = None


class _GptMessage(Struct):
    author: _Author
    content: _Content | None = None
    create_time: float | None = None


class _Node(Struct):
    message: _GptMessage | None = None
    parent: str | None = None


class _GptConversation(Struct):
    mapping: dict[str, _Node]
    current_node: str | None = None
    create_time: float | None = None


class _ClaudeMessage(Struct):
    sender: str
    text: str | None = None
    content: list[dict[str, Any]] | None = None
    created_at: str | float | None = None


class _ClaudeConversation(Struct):
    chat_messages: list[_ClaudeMessage]


class _Sent(Struct):
    role: str
    content: str | list[dict[str, Any]] | None = None
    date: str | float | None = None
    created_at: str | float | None = None


def read_export(path: Path) -> Export:
    """Return the conversations of an export.

    Raises:
        DataError: it cannot be read or has no known form; names file, record and field.
    """
    try:
        data = _bytes(path)
        if path.suffix == ".csv":
            return _csv(path, decode_text(data))
        lines = [line for line in data.splitlines() if line.strip()] if path.suffix == ".jsonl" else []
        content: object = [decode_json(line, object) for line in lines] if lines else decode_json(data, object)
    except (OSError, KeyError, zipfile.BadZipFile, UnreadableError) as error:
        raise DataError(f"The export cannot be read: {error}", where=str(path), fix=f"Give {_KNOWN}") from error
    records: list[object] = content if isinstance(content, list) else [content]
    if records and all(isinstance(record, Mapping) and "role" in record for record in records):
        records = [{"messages": records}]
    export, readers = Export(), {"mapping": _chatgpt, "chat_messages": _claude, "messages": _openai}
    for number, record in enumerate(records, start=1):
        key = next((key for key in readers if isinstance(record, Mapping) and key in record), None)
        if key is None:
            raise DataError(
                "Unrecognised conversation format", where=f"{path}, conversation {number}", fix=f"Give {_KNOWN}"
            )
        messages = list(readers[key](record, path, f"conversation {number}", export.left_out))
        if messages:
            export.conversations.append(messages)
        else:
            export.left_out["conversations without text"] += 1
    return export


def _bytes(path: Path) -> bytes:
    if path.suffix == ".zip":
        with zipfile.ZipFile(path) as archive:
            return _unpacked(archive, path)
    return path.read_bytes()


_MOST_TIMES, _ALWAYS = 50, 64_000_000
"""Maximum size of an export in its archive's (text shrinks to a tenth at best), and bytes that are always allowed."""


def _unpacked(archive: zipfile.ZipFile, path: Path) -> bytes:
    """Return the conversations inside of an archive.

    Raises:
        DataError: they would be far larger than text that was packed ever is; nothing more than that is read.
    """
    packed = path.stat().st_size
    most = max(_MOST_TIMES * packed, _ALWAYS)
    with archive.open(_INSIDE) as file:
        data = file.read(most + 1)
    if len(data) > most:
        stated = max(archive.getinfo(_INSIDE).file_size, len(data))
        raise DataError(
            f"{_INSIDE} in the archive has {shown_bytes(stated)} in {shown_bytes(packed)}, more than text can shrink",
            where=str(path),
            fix=f"If that is right, unpack it and give {_INSIDE} itself",
        )
    return data


def _chatgpt(record: object, path: Path, place: str, left_out: Counter[str]) -> Iterator[ExportedMessage]:
    """Yield the branch that was shown last: editing a message starts another branch."""
    conversation = converted(record, _GptConversation, path, place)
    name = conversation.current_node or next(reversed(conversation.mapping), None)
    branch: list[_GptMessage] = []
    seen = set[str]()
    while name in conversation.mapping and name not in seen:
        seen.add(name)
        node = conversation.mapping[name]
        branch += [node.message] if node.message else []
        name = node.parent or ""
    others = [node.message for key, node in conversation.mapping.items() if key not in seen and node.message]
    left_out["messages of earlier versions of a conversation"] += sum(map(bool, map(_text_of, others)))
    for message in reversed(branch):
        when = moment(message.create_time or conversation.create_time, f"{path}, {place}")
        yield from _with_text(message.author.role, _text_of(message), when, left_out)


def _text_of(message: _GptMessage) -> str:
    parts = (
        message.content.parts if message.content and message.content.content_type in ("text", "multimodal_text") else []
    )
    return "\n".join(part for part in parts or [] if isinstance(part, str)).strip()


def _claude(record: object, path: Path, place: str, left_out: Counter[str]) -> Iterator[ExportedMessage]:
    for number, message in enumerate(converted(record, _ClaudeConversation, path, place).chat_messages):
        text = message.text or _joined(message.content or [])
        role = "user" if message.sender == "human" else message.sender
        when = moment(message.created_at, f"{path}, {place}, chat_messages[{number}].created_at")
        yield from _with_text(role, text, when, left_out)


def _openai(record: object, path: Path, place: str, left_out: Counter[str]) -> Iterator[ExportedMessage]:
    whole = converted(record, dict[str, Any], path, place)
    start = whole.get("date") or whole.get("created_at")
    for number, item in enumerate(converted(whole["messages"], list[Any], path, f"{place}, messages"), start=1):
        sent = converted(
            {"date": start, **item} if isinstance(item, dict) else item, _Sent, path, f"{place}, message {number}"
        )
        text = sent.content if isinstance(sent.content, str) else _joined(sent.content or [])
        when = moment(sent.created_at or sent.date, f"{path}, {place}, message {number}, date")
        yield from _with_text(sent.role, text, when, left_out)


def _csv(path: Path, text: str) -> Export:
    rows = list(csv.DictReader(io.StringIO(text)))
    export = Export()
    messages: list[ExportedMessage] = []
    for number, row in enumerate(rows, start=2):
        for column in ("date", "speaker", "text"):
            if row.get(column) is None:
                raise DataError(
                    f"The column '{column}' is missing",
                    where=f"{path}, line {number}",
                    fix="Use columns date, speaker and text",
                )
        when = moment(row["date"], f"{path}, line {number}, date")
        speaker = row["speaker"].strip()
        role = "assistant" if speaker.lower() in _ASSISTANTS else "user"
        named = "" if speaker.lower() in (*_ASSISTANTS, "user") else speaker
        messages += _with_text(role, row["text"], when, export.left_out, named)
    export.conversations = [messages] if messages else []
    return export


def _with_text(
    role: str, text: str, when: datetime | None, left_out: Counter[str], speaker: str = ""
) -> Iterator[ExportedMessage]:
    """Yield a message of a user or an assistant that has text."""
    if role not in ("user", "assistant"):
        left_out[f"messages of {role}"] += bool(text.strip())
    elif not text.strip():
        left_out["messages without text, such as pictures and calls of tools"] += 1
    else:
        yield ExportedMessage("user" if role == "user" else "assistant", text.strip(), when, speaker)


def _joined(parts: list[dict[str, Any]]) -> str:
    return "\n".join(str(part["text"]) for part in parts if part.get("type") == "text" and part.get("text") is not None)


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
    """Numbers of items that are not in the dataset, by reason."""
    misleading: dict[str, int]
    """Numbers of items that are in the dataset and can mislead, by reason."""


def import_chats(
    exports: Sequence[Path], folder: Path, *, questions: Path | None = None, date: datetime | None = None
) -> ImportedChats:
    """Write the sessions of exports into a folder; the messages of one day in one conversation are a session.

    Args:
        exports: files for `read_export`, all of one person: together they are one history.
        folder: folder of the dataset; if it exists, its questions and evidence are kept.
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
        raise DataError("The exports hold no message with text", where=", ".join(map(str, exports)))
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


# Propose evidence for questions by recall, and store the accepted evidence.


class Proposal(Struct, frozen=True):
    """Messages that may be the evidence of one question, best first."""

    asked: AskedQuestion
    messages: tuple[Message, ...]


def proposals(folder: Path, top: int) -> Iterator[Proposal]:
    """Yield proposals for the questions that have an answer and no evidence.

    Messages are ranked by BM25 over the words of question and answer.
    """
    from rank_bm25 import BM25Okapi

    messages = haystack_messages(next(load(folder, "").haystacks()))
    index = BM25Okapi([content_words(message.content) or [""] for message in messages])
    labelled = read_evidence(folder)
    for question in read_questions(folder / FILE):
        if question.answer is None or question.evidence or question.id in labelled:
            continue
        scores = index.get_scores(content_words(f"{question.question} {question.answer}"))
        best = sorted(range(len(messages)), key=lambda place: -scores[place])[:top]
        yield Proposal(question, tuple(messages[place] for place in best))


def accept(folder: Path, question_id: str, message_ids: list[str]) -> None:
    """Store the evidence of a question in `evidence.json`; an empty list records that there is none."""
    evidence = {**read_evidence(folder), question_id: tuple(message_ids)}
    write_atomic(folder / EVIDENCE, msgspec.json.format(msgspec.json.encode(evidence, order="sorted")))
