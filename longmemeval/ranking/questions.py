"""Analysis of a question for the search: its parts, and the time it is about."""

import json
import re
from collections.abc import Iterable, Sequence
from datetime import date, datetime
from importlib import resources
from string import Template
from typing import Literal

import msgspec
import numpy as np
from msgspec import Struct, structs

from longmemeval.core.files import sha256_text
from longmemeval.core.text.dates_in_text.meanings import Days
from longmemeval.core.text.dates_in_text.phrases import Resolution, TimeRange, resolve_range
from longmemeval.core.text.quantities import weekday_of
from longmemeval.core.text.words import content_words
from longmemeval.errors import ModelError
from longmemeval.llm.protocol import ChatMessage, ChatModel, ChatRequest
from longmemeval.ranking.fusion import min_max
from longmemeval.ranking.history import Scores
from longmemeval.records import Question, Usage

__path__: list[str] = []
"""Names of version 0.2 below this one are found (`core/moved.py`)."""


# Splitting a question about several things into several queries, by one call of a chat model.
#
# Rules that did the same offline were removed: they lowered recall (docs/results.md).

MAX_QUERIES = 6
"""Maximum number of queries, the question included."""
DECOMPOSE_TOKENS = 300
"""Maximum tokens of a model's reply."""


class Decomposition(Struct, frozen=True):
    """A model's decomposition of a question."""

    queries: list[str]
    """The question, then its parts."""
    usage: Usage
    problem: str = ""
    """Error in an unreadable reply; there are no parts then."""


async def decompose_by_model(model: ChatModel, question: str, prompt: str | None = None) -> Decomposition:
    """Split the question into queries if it asks about several things, by one call of `model`.

    The model sees nothing but the question.

    Args:
        model: answers the call; its errors pass through.
        prompt: text with `$question` and `$limit`; None for the shipped one.

    Returns:
        The question and the parts the model names; the question alone, with the problem, if the reply contains no JSON
        list of texts.
    """
    filled = Template(prompt or decompose_prompt()).safe_substitute(question=question, limit=MAX_QUERIES - 1)
    reply = await model.complete(ChatRequest((ChatMessage("user", filled),), max_tokens=DECOMPOSE_TOKENS))
    parts = _texts_in(reply.text)
    if parts is None:
        return Decomposition([question], reply.usage, "the model's reply holds no JSON list of texts")
    return Decomposition(_queries(question, parts), reply.usage)


def decompose_prompt() -> str:
    """Return the prompt of `decompose_by_model`."""
    return resources.files("longmemeval.ranking").joinpath("prompts", "decompose.txt").read_text(encoding="utf-8")


def fuse_parts(scores: Sequence[Scores], weight: float = 0.5) -> Scores:
    """Combine the scores of a question's queries: m(question) + weight * max over the parts of m(part).

    m is `min_max`: each query's scores scaled to [0, 1].

    Args:
        scores: scores of every unit by query, the whole question first; all of one shape, (units,).
        weight: weight of a part; that of the question is 1.
    """
    whole, *parts = (min_max(query_scores) for query_scores in scores)
    if not parts:
        return whole
    best: Scores = np.max(parts, axis=0)
    return whole + weight * best


def _queries(question: str, parts: Iterable[str]) -> list[str]:
    """Return the question, then its distinct parts; only the question if there are fewer than two parts."""
    distinct = {" ".join(part.casefold().split()): " ".join(part.split()) for part in parts if content_words(part)}
    distinct.pop(" ".join(question.casefold().split()), None)
    return [question, *distinct.values()][:MAX_QUERIES] if len(distinct) > 1 else [question]


def _texts_in(reply: str) -> list[str] | None:
    """Return the first JSON list of texts in `reply`, ignoring its surroundings."""
    decoder = json.JSONDecoder()
    for found in re.finditer(r"\[", reply):
        try:
            value, _ = decoder.raw_decode(reply, found.start())
        except RecursionError:
            return None
        except ValueError:
            continue
        if all(isinstance(text, str) for text in value):
            return [str(text) for text in value]
    return None


# The time a question is about, and its effect on a ranked list.
#
# A range is found by rules (offline) or by a chat model. Documents with a date inside it move up, or all others are
# dropped. The official `temp_query_search_pruning.py` moves them up, with a margin of 2 days.

TIME_RANGE_TOKENS = 60


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
    prompt = Template(time_range_prompt()).substitute(
        asked=asked_on.date().isoformat(), weekday=weekday_of(asked_on), question=question
    )
    reply = await model.complete(ChatRequest((ChatMessage("user", prompt),), max_tokens=TIME_RANGE_TOKENS))
    return msgspec.structs.replace(_read_reply(reply.text), usage=reply.usage)


def time_range_prompt() -> str:
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


# Parts of a question, named by a chat model, and its time, found by rules or by a model.

Analyst = Literal["rules", "model"]


class AnalysisMethod(Struct, frozen=True):
    """Method for each aspect of a question; None: it is not analysed."""

    parts: Literal["model"] | None = None
    time: Analyst | None = None

    @property
    def asks_model(self) -> bool:
        """True if a chat model is called."""
        return "model" in (self.parts, self.time)

    @property
    def templates(self) -> dict[str, str]:
        """Hashes of the prompts for the chat model, by aspect."""
        prompts = {}
        if self.parts == "model":
            prompts["decompose"] = decompose_prompt()
        if self.time == "model":
            prompts["time_range"] = time_range_prompt()
        return {name: sha256_text(prompt) for name, prompt in prompts.items()}


class QuestionAnalysis(Struct, frozen=True):
    """A question as prepared for the search."""

    queries: tuple[str, ...]
    """The question, then its parts."""
    range: TimeRange | None = None
    """Days it is about; None: no time is named, or times are not analysed."""
    notes: tuple[str, ...] = ()
    """Results that could not be used, with the reason."""
    usage: Usage = Usage()
    """Cost of calling a chat model."""
    fell_back: bool = False
    """True if a chat model failed: the rules are used for the time, the whole question for its parts."""


def analyse_by_rules(question: Question, method: AnalysisMethod) -> QuestionAnalysis:
    """Find the time by rules if `method` analyses it at all; no parts."""
    found = resolve_range(question.text, question.date) if method.time else Resolution(None)
    return QuestionAnalysis((question.text,), found.range, (found.note,) if found.note else ())


async def analyse_by_model(model: ChatModel, question: Question, method: AnalysisMethod) -> QuestionAnalysis:
    """Analyse with `model` the aspects that `method` assigns to it, one call each; other times by rules.

    If a call fails or its reply is unreadable, the rules find the time, or only the whole question is searched; a note
    says so.

    Args:
        model: sees the question and, for the time, its date; nothing else.

    Raises:
        FatalModelError: no call can succeed.
    """
    analysis = analyse_by_rules(question, method)
    # The time first: at this point the only notes are those of the rules about it.
    if method.time == "model":
        analysis = await _with_range(model, question, analysis)
    if method.parts == "model":
        analysis = await _with_parts(model, question, analysis)
    return analysis


async def _with_range(model: ChatModel, question: Question, analysis: QuestionAnalysis) -> QuestionAnalysis:
    try:
        found = await range_by_model(model, question.text, question.date)
    except ModelError as error:
        return _fallen_back(analysis, f"the time by rules: the model's call failed: {error.what}", Usage())
    if found.note:
        return _fallen_back(analysis, f"the time by rules: {found.note}", found.usage)
    return structs.replace(analysis, range=found.range, notes=(), usage=found.usage)


async def _with_parts(model: ChatModel, question: Question, analysis: QuestionAnalysis) -> QuestionAnalysis:
    try:
        found = await decompose_by_model(model, question.text)
    except ModelError as error:
        return _fallen_back(analysis, f"the whole question is searched: the model's call failed: {error.what}", Usage())
    if found.problem:
        return _fallen_back(analysis, f"the whole question is searched: {found.problem}", found.usage)
    return structs.replace(analysis, queries=tuple(found.queries), usage=analysis.usage + found.usage)


def _fallen_back(analysis: QuestionAnalysis, note: str, usage: Usage) -> QuestionAnalysis:
    """Return `analysis` with a note that says why the model's result is not used."""
    return structs.replace(analysis, notes=(*analysis.notes, note), usage=analysis.usage + usage, fell_back=True)
