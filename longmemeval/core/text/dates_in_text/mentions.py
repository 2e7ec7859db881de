"""Dates mentioned in a message, as absolute dates counted from the day of the message."""

import re
from collections.abc import Sequence
from datetime import date, datetime, time, timedelta

from msgspec import Struct

from longmemeval.core.text.dates_in_text.meanings import (
    COUNT,
    SEASONS,
    UNIT,
    WEEKDAYS,
    Days,
    count_of,
    month_of,
    named_days,
    occurrence,
    season_of,
    shifted,
    year_of,
)
from longmemeval.core.text.dates_in_text.phrases import find_phrases


class MentionedDate(Struct, frozen=True):
    """Days that a message mentions, both ends included, and the phrase that names them."""

    phrase: str
    start: date
    end: date

    @property
    def shown(self) -> str:
        """The day, or the first and the last day, as text."""
        return f"{self.start}" if self.start == self.end else f"{self.start} to {self.end}"


_LONGEST_REPEATED = timedelta(31)
_LONGEST_AROUND_NOW = timedelta(14)
_AHEAD = re.compile(
    r"'ll\b|\b(?:will|won't|going\s+to|gonna|plan|plans|planning|upcoming|coming\s+up|looking\s+forward|scheduled|"
    r"hop(?:e|es|ing)|about\s+to|(?:can't|cannot)\s+wait|due|deadline|booked|let's|see\s+you|remind\s+me|don't\s+forget|"
    r"(?:need|needs|have|has|want|wants|got|supposed)\s+to|(?:should|must|may|might|can|shall)(?!\s+have))\b",
    re.IGNORECASE,
)
_ARRANGED = re.compile(
    # "We're having a party on Saturday": the present, and nothing of the past between it and the date.
    r"(?:\b(?:am|is|are)|\w'(?:m|re|s))\s+(?:(?:all|also|both|just|not|only|probably|still|\w+ly)\s+)?"
    r"(?:arriving|attending|bringing|celebrating|closing|coming|competing|cooking|doing|driving|flying|getting|giving|"
    r"going|graduating|having|heading|holding|hosting|interviewing|joining|launching|leaving|making|marrying|meeting|"
    r"moving|opening|performing|playing|presenting|releasing|returning|running|seeing|speaking|staying|starting|taking|"
    r"throwing|travell?ing|turning|visiting|volunteering|working)\b"
    r"|\b(?:starts|begins|opens|closes|ends|leaves|departs|arrives|takes\s+place|kicks\s+off|comes\s+out)\b"
    r"|\bthere(?:'s|\s+is|\s+are)\b"
    r"|(?:\b(?:have|has)|'(?:ve|s)\s+got)\s+(?:an?|my|our|his|her|their|the|some|two|three|tickets?)\b[^,;]{0,40}?"
    r"\b(?:appointment|audition|check-?up|concert|conference|date|event|exam|final|flight|game|gig|interview|match|"
    r"meeting|midterm|party|performance|presentation|race|recital|rehearsal|reservation|reunion|show|surgery|test|tickets?|"
    r"tournament|trip|wedding|workshop)\b",
    re.IGNORECASE,
)
_PAST = re.compile(
    r"\b(?:was|were|did|had|been|said|told|went|got|bought|made|saw|met|came|took|gave|found|left|since|from|about|"
    r"(?!need|feed|speed|breed|seed|weed|wed|bed|red|shed|sled)\w+ed)\b",
    re.IGNORECASE,
)
_IS = re.compile(r"(?:\b(?:is|are)|\w's)\s+(?:also\s+|only\s+)?$", re.IGNORECASE)
_SENTENCE_END = re.compile(r"[.!?]\s|\n")
_SENTENCE = 200
"""Number of characters of a sentence to examine on either side of a date."""


def mentioned_dates(text: str, said_on: datetime) -> list[MentionedDate]:
    """Return the days that `text` mentions, in order of appearance.

    The rules are offline and independent of locale and time zone; they favour precision over recall. A date without a
    year is the latest, or the next if its sentence looks ahead ("planning", "will", "we're having a party"). Two kinds
    of interval date no event and are left out: more than a month that recurs every year ("in the summer"), and more
    than two weeks around the day itself ("this year", "the past few months").

    Args:
        said_on: the session's date, naive.
    """
    mentioned = []
    for phrase in find_phrases(text, said_on, _looks_ahead):
        if phrase.days is None:
            continue
        start, end = phrase.days
        if phrase.repeats and end - start > _LONGEST_REPEATED:
            continue
        if start <= said_on.date() <= end and end - start > _LONGEST_AROUND_NOW:
            continue
        mentioned.append(MentionedDate(text[phrase.begin : phrase.end], start, end))
    return mentioned


def _looks_ahead(text: str, begin: int, end: int) -> bool:
    before = _SENTENCE_END.split(text[max(0, begin - _SENTENCE) : begin])[-1]
    after = _SENTENCE_END.split(text[end : end + _SENTENCE])[0]
    if text[begin : begin + 3].lower() == "by ":
        return True
    if re.match(r"(?:un)?till?\s", text[begin:end], re.IGNORECASE) and not _PAST.search(before):
        return True
    arranged = [arrangement.end() for arrangement in _ARRANGED.finditer(before)]
    if (arranged and not _PAST.search(before, arranged[-1])) or _IS.search(before):
        return True
    return _AHEAD.search(before) is not None or _AHEAD.search(after) is not None


# Resolve the days that a turn names when it is ingested.
#
# The anchor is the date of the session: "last week" counts from there. A text that moves the timeline itself ("back
# in 2012") sets another anchor: later phrases of the same turn that depend on it ("the next summer", "in June", "two
# years later") count from those days, until the text returns to the present.

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
