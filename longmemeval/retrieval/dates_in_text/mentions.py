"""The dates a message mentions, made absolute against the day it was said."""

import re
from datetime import date, datetime, timedelta

from msgspec import Struct

from longmemeval.retrieval.dates_in_text.phrases import find_phrases


class MentionedDate(Struct, frozen=True):
    """Days a message mentions, both ends included, and the words that do it."""

    phrase: str
    start: date
    end: date


_LONGEST_REPEATED = timedelta(31)
_LONGEST_AROUND_NOW = timedelta(14)
_AHEAD = re.compile(
    r"'ll\b|\b(?:will|won't|going\s+to|gonna|plan|plans|planning|upcoming|coming\s+up|looking\s+forward|scheduled|"
    r"hop(?:e|es|ing)|about\s+to|(?:can't|cannot)\s+wait|due|deadline|booked)\b",
    re.IGNORECASE,
)
_SENTENCE_END = re.compile(r"[.!?]\s|\n")
_SENTENCE = 200
"""Characters of a sentence looked at, to either side of a date."""


def mentioned_dates(text: str, said_on: datetime) -> list[MentionedDate]:
    """The days that `text` mentions, in order of appearance.

    Rules, offline and independent of locale and time zone; precise rather than many. A date without a year is the
    latest, or the next one when its sentence looks ahead ("planning", "will"). Two kinds of stretch date no event and
    are left out: more than a month that comes every year ("in the summer"), and more than two weeks around the day
    itself ("this year", "the past few months").

    Args:
        text: the message.
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
    return _AHEAD.search(before) is not None or _AHEAD.search(after) is not None
