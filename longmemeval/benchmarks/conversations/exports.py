"""Read exports of chat programs: ChatGPT, Claude, message lists in the OpenAI form, CSV of date, speaker and text."""

import csv
import io
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from longmemeval.benchmarks.conversations.loader import converted, moment
from longmemeval.core.text.figures import shown_bytes
from longmemeval.core.text_files import UnreadableError, decode_json, decode_text
from longmemeval.errors import DataError
from longmemeval.records import Role

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
    parts: list[Any] = []


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
    text: str = ""
    content: list[dict[str, Any]] = []
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
                "The conversation has no known form", where=f"{path}, conversation {number}", fix=f"Give {_KNOWN}"
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
    return "\n".join(part for part in parts if isinstance(part, str)).strip()


def _claude(record: object, path: Path, place: str, left_out: Counter[str]) -> Iterator[ExportedMessage]:
    for number, message in enumerate(converted(record, _ClaudeConversation, path, place).chat_messages):
        text = message.text or _joined(message.content)
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
                    f"There is no '{column}'", where=f"{path}, line {number}", fix="Use columns date, speaker and text"
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
    return "\n".join(str(part["text"]) for part in parts if part.get("type") == "text" and "text" in part)
