"""History formats: from recalled items to the text a model reads. No session id is ever in it."""

import json
from collections.abc import Callable, Sequence
from datetime import datetime
from itertools import groupby
from typing import Literal, get_args

from msgspec import Struct

from longmemeval.calendar_names import official_date, weekday_of
from longmemeval.records import Recall, RecalledItem

HistoryFormat = Literal["nl", "json", "official-nl", "official-json"]
HISTORY_FORMATS: tuple[HistoryFormat, ...] = get_args(HistoryFormat)


class Chunk(Struct, frozen=True):
    """Messages of one session that are shown together, or the note that stands for them."""

    date: datetime
    items: tuple[RecalledItem, ...]
    note: str | None = None


def message_chunks(recall: Recall) -> list[Chunk]:
    """The recalled messages, one chunk per session, in the order of the recall (time order)."""
    messages = [item for item in recall.items if item.kind == "message"]
    grouped = (tuple(group) for _, group in groupby(messages, key=lambda item: item.thread_ids))
    return [Chunk(items[0].date or datetime.min, items) for items in grouped]


def note_chunks(recall: Recall) -> list[Chunk]:
    """For a recall whose messages are notes, each on one session: a chunk per note."""
    notes = [item for item in recall.items if item.kind == "message"]
    return [Chunk(item.date or datetime.min, (item,), item.text) for item in notes]


def render_history(recall: Recall, chunks: Sequence[Chunk], layout: HistoryFormat) -> str:
    """The history as text.

    Args:
        recall: items that are not messages (working memory, facts) are shown first, under a heading each.
        chunks: from `message_chunks` or `note_chunks`.
        layout: `nl` and `json` are this project's; `official-nl` and `official-json` are the session layout of
            the benchmark's own reader (`src/generation/run_generation.py`, `prepare_prompt`).
    """
    documents = "".join(
        f"# {_DOCUMENT_TITLES[item.kind]}\n\n{item.text.strip()}\n\n" for item in recall.items if item.kind != "message"
    )
    history = _LAYOUTS[layout](chunks)
    if not documents:
        return history
    return f"{documents}# Earlier messages\n\n{history}"


_DOCUMENT_TITLES = {"working-memory": "What is known about the user", "fact": "Fact", "summary": "Summary"}


def render_chunk(chunk: Chunk, layout: HistoryFormat) -> str:
    """One session for a note-taking call of `con-separate`; the official reader shows it as JSON."""
    if layout in ("official-json", "official-nl"):
        return _official_json(chunk)
    return _LAYOUTS[layout]([chunk])


def _day(chunk: Chunk) -> str:
    return f"{weekday_of(chunk.date)}, {chunk.date:%Y-%m-%d}"


def _nl(chunks: Sequence[Chunk]) -> str:
    if not chunks:
        return "(no earlier messages)"
    days = []
    for day, group in groupby(chunks, key=_day):
        sessions = "\n\n".join(f"{chunk.date:%H:%M}\n{_nl_body(chunk)}" for chunk in group)
        days.append(f"## {day}\n\n{sessions}")
    return "\n\n".join(days)


def _nl_body(chunk: Chunk) -> str:
    if chunk.note is not None:
        return f"notes: {chunk.note}"
    return "\n".join(f"{item.speaker}: {item.text.strip()}" for item in chunk.items)


def _json(chunks: Sequence[Chunk]) -> str:
    days = [
        {"day": day, "sessions": [{"time": f"{chunk.date:%H:%M}", **_json_body(chunk)} for chunk in group]}
        for day, group in groupby(chunks, key=_day)
    ]
    return json.dumps(days, ensure_ascii=False)


def _json_body(chunk: Chunk) -> dict[str, object]:
    if chunk.note is not None:
        return {"notes": chunk.note}
    return {"messages": [{"speaker": item.speaker, "text": item.text} for item in chunk.items]}


def _official(chunks: Sequence[Chunk], content: Callable[[Chunk], str]) -> str:
    return "".join(
        f"\n### Session {number}:\nSession Date: {official_date(chunk.date)}\nSession Content:\n{content(chunk)}\n"
        for number, chunk in enumerate(chunks, start=1)
    )


def _official_json(chunk: Chunk) -> str:
    if chunk.note is not None:
        return json.dumps({"session_summary": chunk.note})
    return json.dumps([{"role": item.speaker, "content": item.text} for item in chunk.items])


def _official_nl(chunk: Chunk) -> str:
    # The official reader cannot show notes in this layout (it raises); shown here as one more turn.
    if chunk.note is not None:
        return f"\n\nnotes: {chunk.note}"
    return "".join(f"\n\n{item.speaker}: {item.text.strip()}" for item in chunk.items)


_LAYOUTS: dict[HistoryFormat, Callable[[Sequence[Chunk]], str]] = {
    "nl": _nl,
    "json": _json,
    "official-nl": lambda chunks: _official(chunks, _official_nl),
    "official-json": lambda chunks: _official(chunks, lambda chunk: "\n" + _official_json(chunk)),
}
