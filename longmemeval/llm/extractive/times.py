"""Answers derived from dates: time between two events, time since an event, order, date of an event."""

import re
from collections.abc import Sequence
from datetime import date, datetime
from itertools import pairwise

from longmemeval.core.text.dates_in_text.mentions import mentioned_dates
from longmemeval.core.text.quantities import MONTHS
from longmemeval.core.text.words import content_words
from longmemeval.llm.extractive.matching import Candidate, Matcher
from longmemeval.llm.extractive.parsed_question import ParsedQuestion
from longmemeval.llm.extractive.values import values_of

_LEAST_COVERAGE = 0.3
"""An event counts as found if a session contains at least this share of its words."""
_LONGEST_BACK = 45
"""Days that a statement may look back to its event ("last Friday"); older mentions count as asides."""
_SPAN = re.compile(r"\bhow (?:many (?:full |whole )?(?P<unit>day|week|month|year)s?|long)\b", re.IGNORECASE)
_RATE = re.compile(r"\b(?:days?|weeks?|months?) (?:a|per|each|of the) (?:week|month|year)\b", re.IGNORECASE)
_TWO_EVENTS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"\bbetween (?P<one>.+?) and (?P<other>.+)\?",
        r"\bfrom (?P<one>.+?) (?:to|until|till) (?P<other>.+)\?",
        r"\bafter (?P<one>.+?) (?=did|was|were|had)(?P<other>.+)\?",
        r"\bbefore (?P<other>.+?) (?=did|was|were|had)(?P<one>.+)\?",
        r"\bhad (?:i|we) (?P<one>.+?) (?:when|before|by the time) (?P<other>.+)\?",
    )
)
_AGO = re.compile(r"\bago (?:did|was|were|had) (?P<event>.+)\?", re.IGNORECASE)
_SINCE = re.compile(r"\bsince (?P<event>.+)\?", re.IGNORECASE)
_LASTED = re.compile(r"\bdid it take\b|\bfor how (?:many|long)\b|\bwas\b", re.IGNORECASE)
_FIRST = re.compile(r"\b(?:first|earlier)\b[^:,?]*[:,] (?P<one>.+?),? or (?P<other>.+)\?", re.IGNORECASE)
_ORDER = re.compile(r"\border\b.*?: (?P<events>.+?)[.?]", re.IGNORECASE)


def compare(question: ParsedQuestion, matcher: Matcher, question_date: datetime | None) -> str | None:
    """Return the answer to a question that compares dates.

    Empty if the dates are not found, None if the question compares none.
    """
    text = question.text
    if listed := _ORDER.search(text):
        return _in_order(question, matcher, re.split(r",? and |, ", listed["events"]))
    if either := _FIRST.search(text):
        return _in_order(question, matcher, [either["one"], either["other"]]).partition(", then ")[0]
    span = _SPAN.search(text)
    if not span or _RATE.search(text) or not any(passage.date for passage in matcher.passages):
        return None
    if ago := _AGO.search(text) or _SINCE.search(text):
        days = _days_of(question, matcher, [ago["event"]])
        if not days or not question_date:
            return ""
        return _format_span((question_date.date() - days[0]).days, span["unit"]) + " ago" * bool(_AGO.search(text))
    if two := next(filter(None, (pattern.search(text) for pattern in _TWO_EVENTS)), None):
        days = _days_of(question, matcher, [two["one"], two["other"]])
        return _format_span(abs((days[1] - days[0]).days), span["unit"]) if days else ""
    if question.kind != "duration" and _LASTED.search(text) and (lasted := _duration(question, matcher)):
        return _format_span(lasted, span["unit"])
    return None


def _in_order(question: ParsedQuestion, matcher: Matcher, events: Sequence[str]) -> str:
    """Return the events from the first to the last; empty if one is not found."""
    days = _days_of(question, matcher, events)
    paired = sorted(zip(days, range(len(events)), strict=True)) if days else []
    return ", then ".join(events[place] for _, place in paired)


def _duration(question: ParsedQuestion, matcher: Matcher) -> int | None:
    """Return the days between the two best-matching sessions: the start and the end of the matter."""
    best: dict[int, Candidate] = {}
    for statement in _statements(question, matcher, question.text):
        if statement.session not in best or statement.score > best[statement.session].score:
            best[statement.session] = statement
    ends = sorted(best.values(), key=lambda statement: -statement.score)[:2]
    return next((abs((_day_of(second) - _day_of(first)).days) for first, second in pairwise(ends)), None)


def _days_of(question: ParsedQuestion, matcher: Matcher, events: Sequence[str]) -> list[date]:
    """Return the day of each event, by the best statements of different sessions; empty if one is not found.

    The event with the best-matching statement chooses first.
    """
    found_statements = [_statements(question, matcher, event) for event in events]
    days: dict[int, date] = {}
    taken: set[int] = set()
    while len(days) < len(events):
        free = [
            (statement.score, -place, statement)
            for place, statements in enumerate(found_statements)
            for statement in statements
            if place not in days and statement.session not in taken
        ]
        if {-place for _, place, _ in free} | days.keys() != set(range(len(events))):
            return []
        _, place, statement = max(free, key=lambda choice: choice[:2])
        days[-place] = _day_of(statement)
        taken.add(statement.session)
    return [days[place] for place in range(len(events))]


def _statements(question: ParsedQuestion, matcher: Matcher, event: str) -> list[Candidate]:
    """Return statements that may mention an event; none if no session contains enough of its words."""
    candidates = matcher.candidates(question, content_words(event))
    stated = [
        statement
        for statement in candidates
        if statement.date and not statement.sentence.question and statement.speaker.lower() != "assistant"
    ]
    return stated if max((statement.coverage for statement in stated), default=0.0) >= _LEAST_COVERAGE else []


def _day_of(statement: Candidate) -> date:
    """Return the day of a statement's event: the past day it names, or the day it was made."""
    if statement.date is None:
        raise ValueError("a statement without a date")
    said_on = statement.date.date()
    for mention in mentioned_dates(statement.sentence.text, statement.date):
        if mention.start == mention.end <= said_on and (said_on - mention.start).days <= _LONGEST_BACK:
            return mention.start
    return said_on


def _format_span(days: int, unit: str | None) -> str:
    """Format a time span as `12 days`, `7 weeks`, `3 months`."""
    length = {"week": 7.0, "month": 365.25 / 12, "year": 365.25}.get((unit or "day").lower(), 1.0)
    count = days / length if unit == "week" else round(days / length)
    return f"{count:.2g} {unit or 'day'}s" if unit == "week" else f"{count} {unit or 'day'}s"


def day_named(statement: Candidate) -> str | None:
    """Return the day or month that a statement names relatively ("last Friday").

    None if it contains a date itself.
    """
    if statement.date is None or values_of("date", statement.sentence.text):
        return None
    mentions = mentioned_dates(statement.sentence.text, statement.date)
    if not mentions:
        return None
    start, end = mentions[0].start, mentions[0].end
    if start == end:
        return f"{start.day} {MONTHS[start.month - 1]} {start.year}"
    if (end - start).days > 300:
        return str(start.year)
    if (end - start).days > 20:
        return f"{MONTHS[start.month - 1]} {start.year}"
    return f"{start.day} to {end.day} {MONTHS[end.month - 1]} {end.year}"
