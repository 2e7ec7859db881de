"""Words before a phrase that names days, which change its meaning.

They narrow the phrase ("the first week of June"), move it ("two days before Christmas"), or make it a time at all ("in
June").
"""

import re
from datetime import date, timedelta

from msgspec import Struct

from longmemeval.core.text.dates_in_text.calendar_days import (
    WEEKDAYS,
    Days,
    following_weekday,
    half_of,
    moved,
    nth_of,
    part_of,
    previous_weekday,
    shifted,
)
from longmemeval.core.text.dates_in_text.meanings import Context, Point
from longmemeval.core.text.dates_in_text.rules import RULES, Match
from longmemeval.core.text.dates_in_text.vocabulary import COUNT, UNIT, WEEKDAY, count_of

_NTH = {"first": 1, "second": 2, "third": 3, "fourth": 4, "last": -1}
_BEFORE = 60
"""Number of characters to examine before a phrase."""
_PART = re.compile(
    r"\b(?:the\s+)?(?:(?P<when>earlier|later)|(?P<edge>early|mid|late)|"
    rf"(?:(?P<side>beginning|start|middle|end)|(?P<nth>first|second|third|fourth|last)\s+"
    rf"(?P<what>half|day|weekend|week|{WEEKDAY}))\s+(?:of|in))[\s-]+(?:the\s+)?$",
    re.IGNORECASE,
)
_ANCHOR = re.compile(
    rf"\b(?P<the>the\s+)?(?:(?P<count>{COUNT})\s+)?(?P<unit>{UNIT}|night|weekend|{WEEKDAY})\s+"
    r"(?P<side>before|after|prior\s+to)\s+(?:the\s+)?$",
    re.IGNORECASE,
)
_WORD = re.compile(
    r"\b(?P<word>since|after|before|prior\s+to|until|till|up\s+to|as\s+of|by|between|from|in|on|at|during|over|around|"
    r"throughout)\s+(?:the\s+)?(?:(?:year|months?)\s+(?:of\s+)?)?$",
    re.IGNORECASE,
)


class Found(Struct, frozen=True):
    """A rule's match together with the words before it.

    `part` narrows its days, `anchor` moves them, `word` is the preposition before both. `begin` is the position of the
    whole, `inner` its position without `word`.
    """

    match: Match
    part: re.Match[str] | None
    anchor: re.Match[str] | None
    word: str
    begin: int
    inner: int

    def stands(self) -> bool:
        """Return whether it names days by itself."""
        after = RULES[self.match.rule].after
        nearest = self.anchor["side"].lower() if self.anchor else self.word
        return not after or self.part is not None or re.fullmatch(after, nearest) is not None

    def read(self, context: Context) -> Point | None:
        """Return the days; None if there are no such days."""
        try:
            point = self.match.read(context)
            days = point.days
            if self.part:
                days = _narrowed(days, self.part, context.day)
            if self.anchor:
                days = _moved_from(days, self.anchor)
        except (ValueError, OverflowError):
            return None
        return Point(days, point.repeats)


def look_before(text: str, match: Match) -> Found:
    """Return `match` together with the words before it in `text`."""
    begin = match.begin

    def before(pattern: re.Pattern[str]) -> re.Match[str] | None:
        nonlocal begin
        seen = pattern.search(text[max(0, begin - _BEFORE) : begin])
        if seen:
            begin -= len(seen[0])
        return seen

    part = before(_PART)
    anchor = before(_ANCHOR)
    inner = begin
    word = before(_WORD)
    return Found(match, part, anchor, re.sub(r"\s+", " ", word["word"].lower()) if word else "", begin, inner)


def _narrowed(days: Days, part: re.Match[str], today: date) -> Days:
    """Return the part of `days` named by the words before them; all of them if that part would be empty."""
    if part["when"]:
        narrowed = (days[0], today) if part["when"].lower() == "earlier" else (today, days[1])
    elif (what := (part["what"] or "").lower()) == "half":
        narrowed = half_of(days, second=part["nth"].lower() != "first")
    elif what:
        narrowed = nth_of(days, _NTH[part["nth"].lower()], what)
    else:
        narrowed = part_of(days, (part["edge"] or part["side"]).lower())
    return narrowed if narrowed[0] <= narrowed[1] else days


def _moved_from(days: Days, anchor: re.Match[str]) -> Days:
    """Return days such as "two weeks before" `days`, or those next to them ("the week before")."""
    earlier = anchor["side"].lower() != "after"
    pivot, sign = (days[0], -1) if earlier else (days[1], 1)
    unit, count = anchor["unit"].lower(), count_of(anchor["count"])
    if unit in WEEKDAYS or unit == "weekend":
        weekday = WEEKDAYS.index("saturday" if unit == "weekend" else unit)
        first = previous_weekday(pivot, weekday) if earlier else following_weekday(pivot, weekday)
        return first, first + timedelta(unit == "weekend")
    unit, start = "day" if unit == "night" else unit, Context.on(pivot).moment
    if anchor["count"] and not anchor["the"]:
        return shifted(start, count, unit, sign)
    near, far = pivot + timedelta(sign), moved(start, sign * count[1], unit)
    return min(near, far), max(near, far)
