"""When a claim holds from: the days its sentence names, by the harness's one resolver of dates."""

import re
from datetime import date, datetime, time, timedelta

from dateutil.relativedelta import relativedelta
from msgspec import Struct

from longmemeval.core.text.dates_in_text.mentions import MentionedDate, mentioned_dates
from longmemeval.core.text.dates_in_text.vocabulary import COUNT, count_of
from longmemeval.memory.engram.extraction.patterns import DateRule
from longmemeval.memory.nodes.extraction.dating import resolved

_FOR = re.compile(
    rf"\bfor (?:about |over |almost |nearly |around )?(?P<count>{COUNT}) (?P<unit>years?|months?|weeks?)\b", re.I
)


class Dated(Struct, frozen=True):
    """When a claim begins, and what its sentence names."""

    valid_at: datetime
    until: datetime | None = None
    words: str = ""
    """The named days as words to put behind a fact; empty where none are named."""
    named: bool = False
    latest: datetime | None = None
    """The end of the days that are named, where they are more than one."""


def dated(sentence: str, start: int, said: datetime, rule: DateRule, former: bool) -> Dated:
    """When what a sentence claims holds from.

    Args:
        sentence: the statement.
        start: where in it the claim begins.
        said: when it was said.
        rule: what a named day means for this kind of claim.
        former: whether the claim is of something that is over, with both ends named perhaps.
    """
    mention = _nearest(sentence, start, said)
    since = mention is not None and mention.phrase.lower().startswith("since")
    if rule == "since" and not since:
        lasting = _FOR.search(sentence)
        return Dated(_before(said, lasting), named=True) if lasting else Dated(said)
    if mention is None:
        return Dated(said)
    return _placed(mention, said, rule, former)


def dated_by(words: str, context: str, said: datetime, rule: DateRule, former: bool) -> Dated | None:
    """When a claim holds from by words that somebody else found to say so; None: they name no day.

    Args:
        words: "last May", "for two years".
        context: the message they stand in.
        said: when it was said.
        rule: as for `dated`.
        former: as for `dated`.
    """
    lasting = _FOR.search(words)
    if lasting and rule in ("since", "begins"):
        return Dated(_before(said, lasting), named=True)
    day = resolved(words, context, said)
    return _placed(MentionedDate(day.phrase, day.start, day.end), said, rule, former) if day else None


def _placed(mention: MentionedDate, said: datetime, rule: DateRule, former: bool) -> Dated:
    """What the days that a sentence names mean for its claim."""
    begin = datetime.combine(mention.start, time())
    if mention.start == said.date() == mention.end:
        begin = said
    words = f"{mention.start}" if mention.start == mention.end else f"{mention.start} to {mention.end}"
    if rule == "ends":
        return Dated(min(begin, said), named=True)
    if begin > said:
        return Dated(said, _after(mention.end), words, named=True)
    over = _after(mention.end) if former else None
    latest = datetime.combine(mention.end, time()) if rule == "begins" and mention.end > mention.start else None
    return Dated(begin, over, words, named=True, latest=min(latest, said) if latest else None)


def _after(day: date) -> datetime:
    """The moment a day is over."""
    return datetime.combine(day, time()) + timedelta(1) if day < date.max else datetime.max


def _nearest(sentence: str, start: int, said: datetime) -> MentionedDate | None:
    """The first date behind `start`, else the last one before it."""
    found = mentioned_dates(sentence, said)
    behind = [one for one in found if sentence.find(one.phrase) >= start]
    return behind[0] if behind else found[-1] if found else None


def _before(said: datetime, lasting: re.Match[str]) -> datetime:
    number = count_of(lasting["count"].lower())[1]
    unit = lasting["unit"].lower().removesuffix("s")
    months = {"year": 12, "month": 1}.get(unit)
    if months:
        return said + relativedelta(months=-months * min(number, 1200))
    return said - timedelta(weeks=min(number, 5000))
