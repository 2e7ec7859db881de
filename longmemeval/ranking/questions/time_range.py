"""The time a question is about, and its effect on a ranked list.

A range is found by rules (offline) or by a chat model. Documents with a date inside it move up, or all others are
dropped. The official `temp_query_search_pruning.py` moves them up, with a margin of 2 days.
"""

import re
from collections.abc import Sequence
from datetime import date, datetime
from importlib import resources
from string import Template
from typing import Literal

import msgspec
from msgspec import Struct

from longmemeval.core.text.dates_in_text.meanings import Days
from longmemeval.core.text.dates_in_text.phrases import Resolution, TimeRange
from longmemeval.core.text.quantities import weekday_of
from longmemeval.llm.protocol import ChatMessage, ChatModel, ChatRequest

MAX_TOKENS = 60


class _Reply(Struct, forbid_unknown_fields=True):
    start: date | None
    end: date | None


async def range_by_model(model: ChatModel, question: str, asked_on: datetime) -> Resolution:
    """Return the range a question names, by one call of `model`.

    A reply that is not a range or ends before it begins gives no range and a note. The model's errors pass through.

    Args:
        model: answers the call; sees the question and its date, nothing else.
        question: text of the question.
        asked_on: date of the question, naive.
    """
    prompt = Template(shipped_prompt()).substitute(
        asked=asked_on.date().isoformat(), weekday=weekday_of(asked_on), question=question
    )
    reply = await model.complete(ChatRequest((ChatMessage("user", prompt),), max_tokens=MAX_TOKENS))
    return msgspec.structs.replace(_read_reply(reply.text), usage=reply.usage)


def shipped_prompt() -> str:
    """Return the prompt of `range_by_model`."""
    return (resources.files("longmemeval.ranking") / "prompts" / "time_range.txt").read_text(encoding="utf-8").strip()


def _read_reply(text: str) -> Resolution:
    found = re.search(r"\{[^{}]*\}|\bnull\b", text)
    try:
        reply = msgspec.json.decode(found[0] if found else "", type=_Reply | None)
    except msgspec.DecodeError:
        return Resolution(None, f"the model's time range cannot be read: {text[:200]!r}")
    if reply is None or (reply.start is None and reply.end is None):
        return Resolution(None)
    if reply.start and reply.end and reply.start > reply.end:
        return Resolution(None, f"the model's time range ends before it begins: {reply.start} to {reply.end}")
    return Resolution(TimeRange(reply.start, reply.end, f"{reply.start or '…'} to {reply.end or '…'}"))


def in_range(dates: Sequence[Days], range: TimeRange, margin_days: int) -> bool:
    """Return whether any interval of `dates` (first and last day, included) touches `range` with the margin."""
    first = range.start.toordinal() - margin_days if range.start else None
    last = range.end.toordinal() + margin_days if range.end else None
    return any(
        (first is None or end.toordinal() >= first) and (last is None or start.toordinal() <= last)
        for start, end in dates
    )


def apply_range(order: Sequence[int], inside: Sequence[bool], mode: Literal["boost", "filter"]) -> list[int]:
    """Return a ranked list with the documents inside the range first, or only those.

    Args:
        order: document numbers, best first.
        inside: True for each document in the range, by its number.
        mode: "boost" moves those inside up and keeps the rest behind them, both in their order (the official stable
            partition); "filter" drops the rest, unless nothing would be left: then the order stays as it is.
    """
    chosen = [number for number in order if inside[number]]
    if mode == "filter":
        return chosen or list(order)
    return chosen + [number for number in order if not inside[number]]
