"""Date claims by the days their sentences name, with the harness's one resolver of dates."""

import re
from datetime import date, datetime, time, timedelta

import msgspec
from dateutil.relativedelta import relativedelta
from msgspec import Struct

from longmemeval.core.text.dates_in_text.mentions import MentionedDate, mentioned_dates
from longmemeval.core.text.dates_in_text.narrative import resolved
from longmemeval.core.text.dates_in_text.vocabulary import COUNT, count_of
from longmemeval.memory.engram.extraction.patterns import DateRule

_FOR = re.compile(
    r"\bfor (?:the (?:past|last) )?(?:about |over |almost |nearly |around )?"
    rf"(?P<count>{COUNT}) (?P<unit>years?|months?|weeks?)\b",
    re.I,
)
_BOTH_ENDS = re.compile(r"(?:from|between)\b", re.IGNORECASE)
_SHORTEST_STRETCH = timedelta(weeks=4)
"""A shorter one may be days of the week: "from Monday to Friday"."""


class Dated(Struct, frozen=True):
    """The time a claim begins to hold, and the days its sentence names."""

    valid_at: datetime
    until: datetime | None = None
    words: str = ""
    """The named days as words to put after a fact; empty if none are named."""
    named: bool = False
    latest: datetime | None = None
    """The end of the days that are named, if there are several."""


def dated(sentence: str, start: int, said: datetime, rule: DateRule, former: bool) -> Dated:
    """Return when the claim of a sentence begins to hold.

    Args:
        sentence: the statement.
        start: index in it where the claim begins.
        said: when it was said.
        rule: the meaning of a named day for this kind of claim.
        former: whether the claim is about something that is over, so that both its ends may be named.
    """
    over = _stretch(sentence, said) if rule in ("stretch", "while") else None
    if over or rule == "stretch":
        return over or Dated(said)
    mention = _nearest(sentence, start, said)
    since = mention is not None and mention.phrase.lower().startswith("since")
    if rule in ("since", "lasting", "while") and not since:
        lasting = _FOR.search(sentence)
        return Dated(_before(said, lasting), named=True) if lasting else Dated(said)
    if mention is None:
        return Dated(said)
    placed = _placed(mention, said, rule, former)
    if rule == "ends" and placed.valid_at < said:
        last = datetime.combine(mention.end, time())
        return msgspec.structs.replace(placed, latest=min(last, said) if mention.end > mention.start else None)
    return placed


def _stretch(sentence: str, said: datetime) -> Dated | None:
    """Return the stretch of the past that a sentence names by both its ends: "from 2012 to 2016"."""
    for mention in mentioned_dates(sentence, said):
        both = _BOTH_ENDS.match(mention.phrase) is not None
        if both and mention.end < said.date() and mention.end - mention.start >= _SHORTEST_STRETCH:
            return Dated(datetime.combine(mention.start, time()), _after(mention.end), mention.shown, named=True)
    return None


def dated_by(words: str, context: str, said: datetime, rule: DateRule, former: bool) -> Dated | None:
    """Return when a claim begins to hold by words that were found to say so; None if they name no day.

    Args:
        words: "last May", "for two years".
        context: the message that contains them.
        said: when it was said.
        rule: as for `dated`.
        former: as for `dated`.
    """
    lasting = _FOR.search(words)
    if lasting and rule in ("since", "begins"):
        return Dated(_before(said, lasting), named=True)
    day = resolved(words, context, said)
    return _placed(day, said, rule, former) if day else None


def _placed(mention: MentionedDate, said: datetime, rule: DateRule, former: bool) -> Dated:
    """Apply the days that a sentence names to its claim."""
    begin = datetime.combine(mention.start, time())
    if mention.phrase.endswith("weeks ago"):  # the likeliest day is the one in the middle
        begin += (mention.end - mention.start) / 2
    if mention.start == said.date() == mention.end:
        begin = said
    if rule == "ends":
        return Dated(min(begin, said), named=True)
    if begin > said:
        return Dated(said, _after(mention.end), mention.shown, named=True)
    over = _after(mention.end) if former else None
    latest = datetime.combine(mention.end, time()) if rule == "begins" and mention.end > mention.start else None
    return Dated(begin, over, mention.shown, named=True, latest=min(latest, said) if latest else None)


def _after(day: date) -> datetime:
    """Return the moment a day is over."""
    return datetime.combine(day, time()) + timedelta(1) if day < date.max else datetime.max


def _nearest(sentence: str, start: int, said: datetime) -> MentionedDate | None:
    """Return the first date after `start`, else the last one before it."""
    found = mentioned_dates(sentence, said)
    behind = [mention for mention in found if sentence.find(mention.phrase) >= start]
    return behind[0] if behind else found[-1] if found else None


def _before(said: datetime, lasting: re.Match[str]) -> datetime:
    number = count_of(lasting["count"].lower())[1]
    unit = lasting["unit"].lower().removesuffix("s")
    months = {"year": 12, "month": 1}.get(unit)
    if months:
        return said + relativedelta(months=-months * min(number, 1200))
    return said - timedelta(weeks=min(number, 5000))
