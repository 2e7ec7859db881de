"""History formats: from recalled items to the text a model reads, which never contains a session id."""

import json
from collections.abc import Callable, Sequence
from datetime import datetime
from itertools import groupby

from msgspec import Struct

from longmemeval.core.text.quantities import official_date, weekday_of
from longmemeval.reading.options import HistoryFormat
from longmemeval.records import ItemKind, Recall, RecalledItem


class Chunk(Struct, frozen=True):
    """Messages of one session that the prompt shows together, or the note that replaces them."""

    date: datetime | None
    items: tuple[RecalledItem, ...]
    note: str | None = None


def message_chunks(recall: Recall) -> list[Chunk]:
    """Return the recalled messages, one chunk per session, in the order of the recall (time order)."""
    messages = [item for item in recall.items if item.kind == "message"]
    grouped = (tuple(group) for _, group in groupby(messages, key=lambda item: (item.thread_ids, item.date)))
    return [Chunk(items[0].date, items) for items in grouped]


def note_chunks(recall: Recall) -> list[Chunk]:
    """Return a chunk per note, for a recall whose messages are notes, each on one session."""
    notes = [item for item in recall.items if item.kind == "message"]
    return [Chunk(item.date, (item,), item.text) for item in notes]


def render_history(recall: Recall, chunks: Sequence[Chunk], layout: HistoryFormat) -> str:
    """Render the history as text.

    Args:
        recall: items that are not messages (working memory, facts) are shown first, under a heading each.
        chunks: from `message_chunks` or `note_chunks`.
        layout: `nl` and `json` are this project's; `official-nl` and `official-json` are the session layout of
            the benchmark's own reader (`src/generation/run_generation.py`, `prepare_prompt`).
    """
    documents = "".join(
        f"# {title}\n\n{body}\n\n" for kind, title in _DOCUMENT_TITLES.items() if (body := _document(recall, kind))
    )
    if not documents:
        return _LAYOUTS[layout](chunks)
    return f"{documents}# Earlier messages\n\n{_LAYOUTS[layout](chunks)}" if chunks else documents.rstrip()


_DOCUMENT_TITLES: dict[ItemKind, str] = {
    "working-memory": "What is known about the user",
    "fact": "Facts",
    "summary": "Summaries",
}


def _document(recall: Recall, kind: ItemKind) -> str:
    """Render all items of one kind; facts and summaries as a list, each with its day if it has one."""
    items = [item for item in recall.items if item.kind == kind]
    if kind == "working-memory":
        return "\n\n".join(item.text.strip() for item in items)
    return "\n".join(f"- {f'{item.date:%Y-%m-%d}: ' if item.date else ''}{item.text.strip()}" for item in items)


def render_chunk(chunk: Chunk, layout: HistoryFormat) -> str:
    """Render one session for a note-taking call of `con-separate`; the official reader shows it as JSON."""
    if layout in ("official-json", "official-nl"):
        return _official_json(chunk)
    return _LAYOUTS[layout]([chunk])


def _day(chunk: Chunk) -> str:
    if chunk.date is None:
        return "Date unknown"
    return f"{weekday_of(chunk.date)}, {chunk.date:%Y-%m-%d}"


def _time(chunk: Chunk, *, line: bool = False) -> str:
    """Return the time of day; empty if the date is not known."""
    shown = f"{chunk.date:%H:%M}" if chunk.date else ""
    return f"{shown}\n" if line and shown else shown


def _nl(chunks: Sequence[Chunk]) -> str:
    if not chunks:
        return "(no earlier messages)"
    days = []
    for day, group in groupby(chunks, key=_day):
        sessions = "\n\n".join(f"{_time(chunk, line=True)}{_nl_body(chunk)}" for chunk in group)
        days.append(f"## {day}\n\n{sessions}")
    return "\n\n".join(days)


def _nl_body(chunk: Chunk) -> str:
    if chunk.note is not None:
        return f"notes: {chunk.note}"
    return "\n".join(
        f"{item.speaker}: {item.text.strip()}" if item.speaker else item.text.strip() for item in chunk.items
    )


def _json(chunks: Sequence[Chunk]) -> str:
    days = [
        {"day": day, "sessions": [{"time": _time(chunk), **_json_body(chunk)} for chunk in group]}
        for day, group in groupby(chunks, key=_day)
    ]
    return json.dumps(days, ensure_ascii=False)


def _json_body(chunk: Chunk) -> dict[str, object]:
    if chunk.note is not None:
        return {"notes": chunk.note}
    return {"messages": [{"speaker": item.speaker, "text": item.text} for item in chunk.items]}


def _official(chunks: Sequence[Chunk], content: Callable[[Chunk], str]) -> str:
    return "".join(
        f"\n### Session {number}:\nSession Date: {_official_day(chunk)}\nSession Content:\n{content(chunk)}\n"
        for number, chunk in enumerate(chunks, start=1)
    )


def _official_day(chunk: Chunk) -> str:
    return official_date(chunk.date) if chunk.date else "unknown"


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
