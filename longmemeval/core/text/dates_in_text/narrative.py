"""Resolve the days that a turn names when it is ingested.

The anchor is the date of the session: "last week" counts from there. A text that moves the timeline itself ("back in
2012") sets another anchor: later phrases of the same turn that depend on it ("the next summer", "in June", "two years
later") count from those days, until the text returns to the present.
"""

import re
from collections.abc import Sequence
from datetime import date, datetime, time, timedelta

from msgspec import Struct

from longmemeval.core.text.dates_in_text.calendar_days import (
    SEASONS,
    WEEKDAYS,
    Days,
    month_of,
    named_days,
    occurrence,
    season_of,
    shifted,
    year_of,
)
from longmemeval.core.text.dates_in_text.mentions import MentionedDate, mentioned_dates
from longmemeval.core.text.dates_in_text.phrases import find_phrases
from longmemeval.core.text.dates_in_text.vocabulary import COUNT, UNIT, count_of

_MOVES = re.compile(
    r"\b(?:back (?:in|on|around|during)|(?:it|this|that) was(?: back)? (?:in|on)?)\s*(?:the\s+)?$",
    re.I,
)
_RETURNS = re.compile(
    r"\b(?:now|nowadays|today|tonight|these days|at the moment|currently|this (?:week|month|year))\b", re.I
)
_WHAT = "|".join(["day", "week", "weekend", "month", "year", *SEASONS, *WEEKDAYS])
_NEXT = re.compile(rf"\bthe\s+(?P<which>next|following|same|previous)\s+(?P<what>{_WHAT})\b", re.I)
_THAT = re.compile(rf"\bthat\s+(?:same\s+)?(?P<what>{_WHAT})\b", re.I)
_LATER = re.compile(rf"\b(?P<count>{COUNT})\s+(?P<unit>{UNIT})\s+(?P<way>later|after that|earlier|before that)\b", re.I)
_ISO = re.compile(r"(\d{4})-(\d\d)-(\d\d)")


class DatedText(Struct, frozen=True):
    """A turn with the days that its sentences name."""

    sentences: tuple[tuple[str, tuple[MentionedDate, ...]], ...]

    def dates_of(self, sentence: str) -> tuple[MentionedDate, ...]:
        """Return the days that a sentence of the turn names."""
        return next((days for text, days in self.sentences if text == sentence), ())


def dated_sentences(sentences: Sequence[str], said: datetime) -> DatedText:
    """Return the days that each sentence of one turn names, in the order of the turn.

    Args:
        sentences: the sentences in the order of the text.
        said: the date of the session, naive.
    """
    narrative: Days | None = None
    dated = []
    for sentence in sentences:
        days, narrative = _dates_in(sentence, said, narrative)
        dated.append((sentence, days))
    return DatedText(tuple(dated))


def resolved(phrase: str, context: str, said: datetime) -> MentionedDate | None:
    """Return the days that a model's quotation from a text names; None if it names none.

    Args:
        phrase: "last Friday", or a date such as `2023-05-07`.
        context: the sentence that contains it, or more.
        said: the date of the session, naive.
    """
    exact = _ISO.fullmatch(phrase.strip())
    if exact:
        try:
            day = date(*(int(part) for part in exact.groups()))
        except ValueError:
            return None
        return MentionedDate(phrase.strip(), day, day)
    wanted = phrase.casefold()
    within = _dates_in(context, said, None)[0] if wanted in context.casefold() else ()
    for mention in within:
        if mention.phrase.casefold() in wanted or wanted in mention.phrase.casefold():
            return MentionedDate(phrase, mention.start, mention.end)
    alone = _dates_in(phrase, said, None)[0]
    return MentionedDate(phrase, alone[0].start, alone[0].end) if alone else None


def _dates_in(sentence: str, said: datetime, narrative: Days | None) -> tuple[tuple[MentionedDate, ...], Days | None]:
    """Return the days of a sentence, and the days that the narrative has reached after it."""
    if narrative and _RETURNS.search(sentence):
        narrative = None
    dates = [(sentence.find(mention.phrase), mention) for mention in mentioned_dates(sentence, said)]
    if narrative:
        dates = _moved(dates, sentence, said, narrative)
    for at, mention in dates:
        if _MOVES.search(sentence[:at] + _leading_word(mention.phrase)) and mention.end < said.date():
            narrative = (mention.start, mention.end)
            break
    for begin, end, days in _depending(sentence, narrative) if narrative else ():
        # "The previous year" counts from the narrative, not from the session.
        dates = [(at, mention) for at, mention in dates if at >= end or at + len(mention.phrase) <= begin]
        dates.append((begin, MentionedDate(sentence[begin:end], *days)))
    dates.sort(key=lambda located: located[0])
    return tuple(mention for _, mention in dates), narrative


def _leading_word(phrase: str) -> str:
    """Return the preposition that a phrase begins with: "in 2012" follows "back"."""
    word = re.match(r"(?:in|on|around|during)\s+(?:the\s+)?", phrase, re.I)
    return word[0] if word else ""


def _moved(
    located: list[tuple[int, MentionedDate]], sentence: str, said: datetime, narrative: Days
) -> list[tuple[int, MentionedDate]]:
    """Move repeating dates ("in June") to those of the narrative, and keep all others."""
    repeating = {sentence[phrase.begin : phrase.end] for phrase in find_phrases(sentence, said) if phrase.repeats}
    there = datetime.combine(narrative[1], time())
    moved = {mention.phrase: mention for mention in mentioned_dates(sentence, there)}
    return [
        (at, moved.get(mention.phrase, mention) if mention.phrase in repeating else mention) for at, mention in located
    ]


def _depending(sentence: str, narrative: Days) -> list[tuple[int, int, Days]]:
    """Return the phrases that name days only relative to others: "the next day", "two years later"."""
    phrases = []
    for match in _NEXT.finditer(sentence):
        offset = {"same": 0, "previous": -1}.get(match["which"].lower(), 1)
        phrases.append((match, _beside(match["what"].lower(), narrative, offset)))
    phrases += [(match, _beside(match["what"].lower(), narrative, 0)) for match in _THAT.finditer(sentence)]
    for match in _LATER.finditer(sentence):
        later = match["way"].lower() in ("later", "after that")
        phrases.append((match, _shifted(match, narrative, 1 if later else -1)))
    return [(match.start(), match.end(), days) for match, days in phrases if days]


def _beside(what: str, narrative: Days, offset: int) -> Days | None:
    first, last = narrative
    pivot = last if offset >= 0 else first
    try:
        if what == "year":
            return year_of(pivot.year + offset)
        if what in SEASONS:
            if offset == 0:
                return season_of(what, first.year)
            return occurrence(lambda year: season_of(what, year), pivot, "next" if offset > 0 else "last")
        if last - first > timedelta(31):
            # "The next day" after a whole year names no day.
            return None
        if what == "day":
            day = pivot + timedelta(offset)
            return day, day
        if what == "month":
            month = pivot.year * 12 + pivot.month - 1 + offset
            return month_of(month // 12, month % 12 + 1)
        return named_days(what, pivot, offset)
    except (ValueError, OverflowError):
        return None


def _shifted(match: re.Match[str], narrative: Days, sign: int) -> Days | None:
    count, unit = count_of(match["count"].lower()), match["unit"].lower()
    try:
        begin = shifted(datetime.combine(narrative[0], time()), count, unit, sign)
        end = shifted(datetime.combine(narrative[1], time()), count, unit, sign)
    except (ValueError, OverflowError):
        return None
    return min(begin[0], end[0]), max(begin[1], end[1])
