"""Dates mentioned in a message, as absolute dates counted from the day of the message."""

import re
from datetime import date, datetime, timedelta

from msgspec import Struct

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
