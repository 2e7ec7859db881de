"""Date claims by the days their sentences name, with the harness's resolver of dates."""

import re
from datetime import date, datetime, time, timedelta

import msgspec
from dateutil.relativedelta import relativedelta
from msgspec import Struct

from longmemeval.core.text.dates_in_text.meanings import COUNT, count_of
from longmemeval.core.text.dates_in_text.mentions import MentionedDate, mentioned_dates, resolved
from longmemeval.memory.engram.extraction.patterns import DateRule

_FOR = re.compile(
    r"\bfor (?:the (?:past|last) )?(?:about |over |almost |nearly |around )?"
    rf"(?P<count>{COUNT}) (?P<unit>years?|months?|weeks?)\b",
    re.I,
)
_BOTH_ENDS = re.compile(r"(?:from|between)\b", re.IGNORECASE)
_SHORTEST_PERIOD = timedelta(weeks=4)
"""Minimum length of a named period; a shorter one may be days of the week: "from Monday to Friday"."""


class Dated(Struct, frozen=True):
    """The moment a claim begins to hold, and the days its sentence names."""

    valid_at: datetime
    until: datetime | None = None
    words: str = ""
    """The words for the named days, to put after a fact; empty if no days are named."""
    named: bool = False
    latest: datetime | None = None
    """The last of the named days, if there are several."""


def dated(sentence: str, start: int, said_at: datetime, rule: DateRule, former: bool) -> Dated:
    """Return when the claim of a sentence begins to hold.

    Args:
        sentence: the statement.
        start: index in it where the claim begins.
        said_at: when it was said.
        rule: the meaning of a named day for this kind of claim.
        former: True if the claim is about something that is over, so that both its ends may be named.
    """
    over = _named_period(sentence, said_at) if rule in ("stretch", "while") else None
    if over or rule == "stretch":
        return over or Dated(said_at)
    mention = _nearest(sentence, start, said_at)
    since = mention is not None and mention.phrase.lower().startswith("since")
    if rule in ("since", "lasting", "while") and not since:
        lasting = _FOR.search(sentence)
        return Dated(_before(said_at, lasting), named=True) if lasting else Dated(said_at)
    if mention is None:
        return Dated(said_at)
    placed = _placed(mention, said_at, rule, former)
    if rule == "ends" and placed.valid_at < said_at:
        last = datetime.combine(mention.end, time())
        return msgspec.structs.replace(placed, latest=min(last, said_at) if mention.end > mention.start else None)
    return placed


def _named_period(sentence: str, said_at: datetime) -> Dated | None:
    """Return the period in the past that a sentence names by both its ends: "from 2012 to 2016"."""
    for mention in mentioned_dates(sentence, said_at):
        both = _BOTH_ENDS.match(mention.phrase) is not None
        if both and mention.end < said_at.date() and mention.end - mention.start >= _SHORTEST_PERIOD:
            return Dated(datetime.combine(mention.start, time()), _after(mention.end), mention.shown, named=True)
    return None


def dated_by(words: str, context: str, said_at: datetime, rule: DateRule, former: bool) -> Dated | None:
    """Return when a claim begins to hold, by words that say so; None if they name no day.

    Args:
        words: "last May", "for two years".
        context: the message that contains them.
        said_at: when it was said.
        rule: as for `dated`.
        former: as for `dated`.
    """
    lasting = _FOR.search(words)
    if lasting and rule in ("since", "begins"):
        return Dated(_before(said_at, lasting), named=True)
    day = resolved(words, context, said_at)
    return _placed(day, said_at, rule, former) if day else None


def _placed(mention: MentionedDate, said_at: datetime, rule: DateRule, former: bool) -> Dated:
    """Apply the days that a sentence names to its claim."""
    begin = datetime.combine(mention.start, time())
    if mention.phrase.endswith("weeks ago"):  # The likeliest day is the one in the middle.
        begin += (mention.end - mention.start) / 2
    if mention.start == said_at.date() == mention.end:
        begin = said_at
    if rule == "ends":
        return Dated(min(begin, said_at), named=True)
    if begin > said_at:
        return Dated(said_at, _after(mention.end), mention.shown, named=True)
    over = _after(mention.end) if former else None
    latest = datetime.combine(mention.end, time()) if rule == "begins" and mention.end > mention.start else None
    return Dated(begin, over, mention.shown, named=True, latest=min(latest, said_at) if latest else None)


def _after(day: date) -> datetime:
    """Return the moment at which a day is over."""
    return datetime.combine(day, time()) + timedelta(1) if day < date.max else datetime.max


def _nearest(sentence: str, start: int, said_at: datetime) -> MentionedDate | None:
    """Return the first date after `start`, else the last one before it."""
    found = mentioned_dates(sentence, said_at)
    behind = [mention for mention in found if sentence.find(mention.phrase) >= start]
    return behind[0] if behind else found[-1] if found else None


def _before(said_at: datetime, lasting: re.Match[str]) -> datetime:
    number = count_of(lasting["count"].lower())[1]
    unit = lasting["unit"].lower().removesuffix("s")
    months = {"year": 12, "month": 1}.get(unit)
    if months:
        return said_at + relativedelta(months=-months * min(number, 1200))
    return said_at - timedelta(weeks=min(number, 5000))
