"""A prompt to send: the call, and its line in `prompts.jsonl`."""

import json
from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from functools import partial
from itertools import groupby
from typing import Generic, Literal, TypeVar

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from longmemeval.core.files import sha256_bytes
from longmemeval.core.text.quantities import official_date, weekday_of
from longmemeval.errors import ContextOverflowError
from longmemeval.llm.protocol import ChatMessage, ChatRequest, Passage
from longmemeval.reading.options import HistoryFormat, OverflowPolicy
from longmemeval.records import ItemKind, Question, Recall, RecalledItem

# Handling of a prompt larger than the model's window: always explicit, never silent.

P = TypeVar("P")


class Fitted(Struct, Generic[P], frozen=True):
    """A prompt that fits, with the part of the recall it contains; a note of the recall records what was dropped."""

    prompt: P
    prompt_tokens: int
    recall: Recall


def fit(
    recall: Recall,
    render: Callable[[Recall], P],
    count: Callable[[P, Recall], int],
    limit: int | None,
    policy: OverflowPolicy,
) -> Fitted[P]:
    """Render the prompt and, if it exceeds `limit` tokens, follow `policy`.

    Args:
        recall: result of the memory system.
        render: renders a recall to the whole prompt as it will be sent.
        count: counts the tokens of a prompt rendered from a recall.
        limit: maximum tokens of a prompt; None when the model's window is not known.
        policy: `error` refuses; `drop-oldest` and `drop-newest` remove whole messages from that end of the
            history, no more than needed for the prompt to fit. Documents (working memory) are never dropped.

    Raises:
        ContextOverflowError: the prompt does not fit, and shortening it is not allowed or not possible.
    """

    def fitted(shown: Recall) -> Fitted[P]:
        prompt = render(shown)
        return Fitted(prompt, count(prompt, shown), shown)

    whole = fitted(recall)
    if limit is None or whole.prompt_tokens <= limit:
        return whole
    if policy == "error":
        raise ContextOverflowError(f"The prompt has {whole.prompt_tokens} tokens, {limit} fit the model's window")
    order = [place for place, item in enumerate(recall.items) if item.kind == "message"]
    if policy == "drop-newest":
        order.reverse()
    too_few, enough = 0, len(order)
    best = fitted(_without(recall, order))
    if best.prompt_tokens > limit:
        raise ContextOverflowError(
            f"The prompt has {best.prompt_tokens} tokens without any message, {limit} fit the model's window"
        )
    while enough - too_few > 1:
        middle = (too_few + enough) // 2
        shorter = fitted(_without(recall, order[:middle]))
        if shorter.prompt_tokens <= limit:
            best, enough = shorter, middle
        else:
            too_few = middle
    dropped = sum(len(recall.items[place].message_ids) for place in order[:enough])
    change = f"{whole.prompt_tokens} -> {best.prompt_tokens} prompt tokens, limit {limit}"
    note = f"{policy}: {dropped} messages left out, {change}"
    return replace(best, recall=replace(best.recall, notes=(*recall.notes, note), dropped=recall.dropped + dropped))


def _without(recall: Recall, places: Collection[int]) -> Recall:
    dropped = set(places)
    return replace(recall, items=tuple(item for place, item in enumerate(recall.items) if place not in dropped))


Purpose = Literal["note", "step", "answer"]
"""Purpose of a call; in a `step` the model may call tools."""
TOKENS_OF_A_MESSAGE = 4
"""Tokens that each further message adds to a call, besides its text."""
Messages = tuple[ChatMessage, ...]
Compose = Callable[[Question, Recall], Messages]
"""A function from a question and the shown part of its recall to all messages of the call."""


class SentPrompt(Struct, frozen=True):
    """One line of `prompts.jsonl`: a prompt exactly as sent."""

    question_id: str
    purpose: Purpose
    messages: tuple[ChatMessage, ...]
    sha256: str


class EncodedPrompt(Struct, frozen=True):
    """A `SentPrompt` whose messages are already JSON: they are encoded once, for their hash and for the file."""

    question_id: str
    purpose: Purpose
    messages: Raw
    sha256: str


class Prompt(Struct, frozen=True):
    """A prepared call."""

    request: ChatRequest
    sent: EncodedPrompt
    tokens: int
    recall: Recall
    """The part of the recall it contains."""


def prompt_of(
    question: Question, purpose: Purpose, fitted: Fitted[Messages], max_tokens: int, temperature: float = 0.0
) -> Prompt:
    """Return the call that sends a fitted prompt."""
    messages = fitted.prompt
    request = ChatRequest(
        messages=messages,
        max_tokens=max_tokens,
        temperature=temperature,
        question_id=question.question_id,
        question=question.text,
        question_date=question.date,
        options=question.options,
        passages=tuple(item.text for item in fitted.recall.items),
        dated_passages=partial(_passages, fitted.recall),
        last_session=partial(_last_session, fitted.recall),
        prompt_tokens=fitted.prompt_tokens,
    )
    encoded = msgspec.json.encode(messages)
    sent = EncodedPrompt(question.question_id, purpose, Raw(encoded), sha256_bytes(encoded))
    return Prompt(request, sent, fitted.prompt_tokens, fitted.recall)


def question_text(question: Question) -> str:
    """Return the question as prompts show it."""
    return f"{question.text} {question.appended}" if question.appended else question.text


def _passages(recall: Recall) -> tuple[Passage, ...]:
    return tuple(Passage(item.text, item.speaker, item.date) for item in recall.items)


def _last_session(recall: Recall) -> tuple[str, ...]:
    """Return the texts of the latest dated item's session, or of its day if the memory has no sessions."""
    dated = [(item.date, item) for item in recall.items if item.date]
    if not dated:
        return ()
    latest_date, latest = max(dated, key=lambda pair: pair[0])
    if latest.thread_ids:
        return tuple(item.text for item in recall.items if set(item.thread_ids) & set(latest.thread_ids))
    return tuple(item.text for date, item in dated if date.date() == latest_date.date())


# History formats: from recalled items to the text a model reads, which never contains a session id.


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
