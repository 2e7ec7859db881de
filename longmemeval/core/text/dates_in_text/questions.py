"""The range of days that a question names, by rules."""

import re
from datetime import date, datetime

from msgspec import Struct

from longmemeval.core.text.dates_in_text.phrases import Phrase, find_phrases
from longmemeval.records import Usage


class TimeRange(Struct, frozen=True):
    """Days from `start` to `end`, both included; None means open.

    `phrase` contains the words that name the range.
    """

    start: date | None
    end: date | None
    phrase: str


class Resolution(Struct, frozen=True):
    """A question's range, or None and, if the question seemed to name one, a `note` that says why there is none."""

    range: TimeRange | None
    note: str = ""
    usage: Usage = Usage()
    """Cost of the model call; zero when rules resolved the range."""


# "How long between A and B" names days to count from, not days to look in.
_ASKS_LENGTH = re.compile(
    r"\bhow\s+(?:long\b.*\b(?:since|until)\b|(?:many\s+(?:hours|days|weeks|weekends|months|years)|long|much\s+time)\b"
    r"(?:\s+(?:before|after|between|prior)\b|.*\b(?:passed|elapsed|lapsed|apart|been\s+since)\b|"
    r".*\b(?:is|are|was|were|there|it)\s+between\b))",
    re.IGNORECASE | re.DOTALL,
)


def resolve_range(question: str, asked_on: datetime) -> Resolution:
    """Return the range that a question names, by rules: offline, deterministic, independent of locale and time zone.

    "two weeks ago" leaves 3 days to either side, "two months ago" 10; "last week" is Monday to Sunday, "the past week"
    the seven days up to the question; "in June" and "on Friday" are the latest past ones; "since", "before" and "after"
    leave one side open. Two phrases make one range if they are joined ("between … and"), if they close it from both
    sides, or if one is within the other.

    Args:
        asked_on: date of the question, naive.
    """
    phrases = find_phrases(question, asked_on)
    if not phrases:
        return Resolution(None)
    named = ", ".join(f'"{question[phrase.begin : phrase.end]}"' for phrase in phrases)
    if _ASKS_LENGTH.search(question):
        return Resolution(None, f"the question asks for a length of time; {named} bounds it and is not a range")
    ranges = [_opened(phrase, question) for phrase in phrases]
    if None in ranges:
        return Resolution(None, f"there are no such days: {named}")
    combined = _combined([found for found in ranges if found])
    if combined is None:
        return Resolution(None, f"the question names more than one time: {named}")
    if combined.start and combined.end and combined.start > combined.end:
        return Resolution(None, f"the range ends before it begins: {named}")
    return Resolution(combined)


def _opened(phrase: Phrase, question: str) -> TimeRange | None:
    """Return the days of a phrase, open on the side that the word before it opens."""
    if phrase.days is None:
        return None
    text = question[phrase.begin : phrase.end]
    first, last = phrase.days
    match phrase.word:
        case "since":
            return TimeRange(first, None, text)
        case "after":
            return TimeRange(_day_from(last, 1), None, text)
        case "before" | "prior to":
            return TimeRange(None, _day_from(first, -1), text)
        case "until" | "till" | "up to" | "by" | "as of":
            return TimeRange(None, last, text)
    return TimeRange(first, last, text)


def _day_from(day: date, step: int) -> date:
    return date.fromordinal(min(max(day.toordinal() + step, date.min.toordinal()), date.max.toordinal()))


def _combined(ranges: list[TimeRange]) -> TimeRange | None:
    """Return the one range that all `ranges` name together; None if they name several."""
    for candidate in ranges:
        if all(_within(candidate, other) for other in ranges):
            return candidate
    starts = [candidate for candidate in ranges if candidate.end is None]
    ends = [candidate for candidate in ranges if candidate.start is None]
    if len(ranges) == 2 and starts and ends:
        return TimeRange(starts[0].start, ends[0].end, f"{ranges[0].phrase} … {ranges[1].phrase}")
    return None


def _within(inner: TimeRange, outer: TimeRange) -> bool:
    starts_later = outer.start is None or (inner.start is not None and inner.start >= outer.start)
    ends_earlier = outer.end is None or (inner.end is not None and inner.end <= outer.end)
    return starts_later and ends_earlier
