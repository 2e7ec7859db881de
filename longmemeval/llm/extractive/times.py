"""Answers that come from dates: how long between two events, how long ago, what came first, when."""

import re
from collections.abc import Sequence
from datetime import date, datetime
from itertools import pairwise

from longmemeval.core.text.calendar_names import MONTHS
from longmemeval.core.text.dates_in_text.mentions import mentioned_dates
from longmemeval.core.text.words import content_words
from longmemeval.llm.extractive.asked import Asked
from longmemeval.llm.extractive.matching import Candidate, Matcher
from longmemeval.llm.extractive.values import found

_LEAST_COVERAGE = 0.3
"""An event was found where a session holds at least this share of its words."""
_LONGEST_BACK = 45
"""Days that a statement may look back to its event ("last Friday"); what lies further back is taken for an aside."""
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


def compare(asked: Asked, matcher: Matcher, question_date: datetime | None) -> str | None:
    """The answer to a question that compares dates: empty where they are not found, None where it compares none."""
    text = asked.text
    if listed := _ORDER.search(text):
        return _in_order(asked, matcher, re.split(r",? and |, ", listed["events"]))
    if either := _FIRST.search(text):
        return _in_order(asked, matcher, [either["one"], either["other"]]).partition(", then ")[0]
    span = _SPAN.search(text)
    if not span or _RATE.search(text) or not any(passage.date for passage in matcher.passages):
        return None
    if ago := _AGO.search(text) or _SINCE.search(text):
        days = _days_of(asked, matcher, [ago["event"]])
        if not days or not question_date:
            return ""
        return _spoken((question_date.date() - days[0]).days, span["unit"]) + " ago" * bool(_AGO.search(text))
    if two := next(filter(None, (pattern.search(text) for pattern in _TWO_EVENTS)), None):
        days = _days_of(asked, matcher, [two["one"], two["other"]])
        return _spoken(abs((days[1] - days[0]).days), span["unit"]) if days else ""
    if asked.kind != "duration" and _LASTED.search(text) and (lasted := _lasted(asked, matcher)):
        return _spoken(lasted, span["unit"])
    return None


def _in_order(asked: Asked, matcher: Matcher, events: Sequence[str]) -> str:
    """The events from the first to the last; empty where one is not found."""
    days = _days_of(asked, matcher, events)
    paired = sorted(zip(days, range(len(events)), strict=True)) if days else []
    return ", then ".join(events[place] for _, place in paired)


def _lasted(asked: Asked, matcher: Matcher) -> int | None:
    """Days between the two sessions that match best: the beginning and the end of what took so long."""
    best: dict[int, Candidate] = {}
    for one in _statements(asked, matcher, asked.text):
        if one.session not in best or one.score > best[one.session].score:
            best[one.session] = one
    ends = sorted(best.values(), key=lambda one: -one.score)[:2]
    return next((abs((_day_of(two) - _day_of(one)).days) for one, two in pairwise(ends)), None)


def _days_of(asked: Asked, matcher: Matcher, events: Sequence[str]) -> list[date]:
    """The day of each event, by the best statements that are not of one session; empty where one is not found.

    The event with the surest statement chooses first.
    """
    able = [_statements(asked, matcher, event) for event in events]
    days: dict[int, date] = {}
    taken: set[int] = set()
    while len(days) < len(events):
        free = [
            (one.score, -place, one)
            for place, statements in enumerate(able)
            for one in statements
            if place not in days and one.session not in taken
        ]
        if {-place for _, place, _ in free} | days.keys() != set(range(len(events))):
            return []
        _, place, one = max(free, key=lambda choice: choice[:2])
        days[-place] = _day_of(one)
        taken.add(one.session)
    return [days[place] for place in range(len(events))]


def _statements(asked: Asked, matcher: Matcher, event: str) -> list[Candidate]:
    """What may tell of an event; nothing where no session holds enough of its words."""
    candidates = matcher.candidates(asked, content_words(event))
    stated = [
        one for one in candidates if one.date and not one.sentence.question and one.speaker.lower() != "assistant"
    ]
    return stated if max((one.coverage for one in stated), default=0.0) >= _LEAST_COVERAGE else []


def _day_of(one: Candidate) -> date:
    """The day of what a statement tells: the past one it names, or the day it was said."""
    if one.date is None:
        raise ValueError("a statement without a date")
    said = one.date.date()
    for mention in mentioned_dates(one.sentence.text, one.date):
        if mention.start == mention.end <= said and (said - mention.start).days <= _LONGEST_BACK:
            return mention.start
    return said


def _spoken(days: int, unit: str | None) -> str:
    """Such as `12 days`, `7 weeks`, `3 months`."""
    length = {"week": 7.0, "month": 365.25 / 12, "year": 365.25}.get((unit or "day").lower(), 1.0)
    count = days / length if unit == "week" else round(days / length)
    return f"{count:.2g} {unit or 'day'}s" if unit == "week" else f"{count} {unit or 'day'}s"


def day_named(one: Candidate) -> str | None:
    """The day or month that a statement names by its distance ("last Friday"); None where it writes a date itself."""
    if one.date is None or found("date", one.sentence.text):
        return None
    mentions = mentioned_dates(one.sentence.text, one.date)
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
