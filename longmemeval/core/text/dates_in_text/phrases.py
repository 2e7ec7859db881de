"""Finding the phrases that name days in a text, and what two of them mean together.

Two phrases are one when they are joined ("between March and June") or when one chooses among the days of the other ("on
Monday last week").
"""

import re
from collections.abc import Callable
from datetime import date, datetime, timedelta

from msgspec import Struct

from longmemeval.core.text.dates_in_text.calendar_days import Days
from longmemeval.core.text.dates_in_text.meanings import Context
from longmemeval.core.text.dates_in_text.modifiers import Found, look_before
from longmemeval.core.text.dates_in_text.rules import RULES, find_matches

Looks = Callable[[str, int, int], bool]
"""Of a text and a phrase's begin and end: does the phrase look ahead?"""


class Phrase(Struct, frozen=True):
    """A phrase found in a text, from character `begin` to `end`.

    `days` is None when there are no such days. `word` is what comes before: "since", "in", "" and so on. `repeats`:
    the days come every week or year. `found` is the match behind the phrase, None when there are two.
    """

    begin: int
    end: int
    word: str
    days: Days | None
    repeats: bool = False
    found: Found | None = None


_PLAIN = str.maketrans(
    # Typographic marks, and the letters that a regular expression takes for s, i and k when case does not matter.
    "\N{RIGHT SINGLE QUOTATION MARK}\N{EN DASH}\N{LATIN SMALL LETTER LONG S}\N{LATIN SMALL LETTER DOTLESS I}"
    "\N{LATIN CAPITAL LETTER I WITH DOT ABOVE}\N{KELVIN SIGN}",
    "'-siik",
)
_AND = re.compile(r",?\s+and\s+(?:the\s+)?", re.IGNORECASE)
_OR = re.compile(r",?\s+(?:and|or)\s+", re.IGNORECASE)
_TO = re.compile(r"\s*(?:\bto\b|\buntil\b|\btill\b|\bthrough\b|-)\s*(?:the\s+)?", re.IGNORECASE)
_TOUCHING = re.compile(r",?\s{1,3}(?:(?:of|in|on)\s)?", re.IGNORECASE)
_ONWARD = re.compile(r"\s+(?:on|onwards?|forward)\b", re.IGNORECASE)
_STRAY = {"at", "from", "over", "around"}
"""Words that say nothing about a phrase on its own: "the cake from last week"."""
_JOINED_DATES = {"month_first", "day_first", "numeric", "of_year"}


def find_phrases(text: str, moment: datetime, looks_ahead: Looks = lambda text, begin, end: False) -> list[Phrase]:
    """All phrases of `text` that name days, in order of appearance, none overlapping another.

    Args:
        text: any text.
        moment: when it was said, naive.
        looks_ahead: decides whether "in June" is the next June or the latest.
    """
    text = text.translate(_PLAIN)
    found = [look_before(text, match) for match in find_matches(text)]
    phrases: list[Phrase] = []
    position = 0
    while position < len(found):
        one, *rest = found[position : position + 2]
        context = Context(moment, looks_ahead(text, one.begin, one.match.end))
        position += 1
        if rest and _joined(text, one, rest[0]):
            phrase = _join(one, rest[0], context)
            position += 1
        elif one.stands() or (phrases and _listed(text, phrases[-1], one)):
            phrase = _alone(text, one, context)
        else:
            continue
        while phrases and phrase.begin < phrases[-1].end:
            phrases.pop()
        if phrases and (merged := _merged(text, phrases[-1], phrase)):
            phrases[-1] = merged
        else:
            phrases.append(phrase)
    return phrases


def _alone(text: str, found: Found, context: Context) -> Phrase:
    point = found.read(context)
    begin, end, word = found.begin, found.match.end, found.word
    if word == "from" and (onward := _ONWARD.match(text, end)):
        end, word = onward.end(), "since"
    elif word in _STRAY and not RULES[found.match.rule].after:
        begin = found.inner
    if point is None or word == "between":
        return Phrase(begin, end, word, None)
    return Phrase(begin, end, word, point.days, point.repeats, found)


def _listed(text: str, last: Phrase, found: Found) -> bool:
    """Whether `found` goes on a list: "in March and May"."""
    same = last.found is not None and last.found.match.rule == found.match.rule
    return same and _OR.fullmatch(text, last.end, found.match.begin) is not None


def _joined(text: str, one: Found, other: Found) -> bool:
    gap = text[one.match.end : other.inner]
    if one.word == "between":
        return _AND.fullmatch(gap) is not None
    dates = one.match.rule in _JOINED_DATES and other.match.rule in _JOINED_DATES
    return (dates or one.word == "from") and one.match.rule != "weekday" and _TO.fullmatch(gap) is not None


def _join(one: Found, other: Found, context: Context) -> Phrase:
    """From the first day of the one to the last of the other, each chosen to suit the other where it repeats."""
    left, right = one.read(context), other.read(context)
    if left and right and left.repeats and not right.repeats:
        left = one.read(Context.on(right.days[1]))
    if left and right and right.repeats:
        right = other.read(Context.on(left.days[0], ahead=True))
    if left is None or right is None or left.days[0] > right.days[1]:
        return Phrase(one.begin, other.match.end, "", None)
    return Phrase(one.begin, other.match.end, "", (left.days[0], right.days[1]), left.repeats and right.repeats)


def _merged(text: str, one: Phrase, other: Phrase) -> Phrase | None:
    """Two side by side, "on Monday" and "last week", as one phrase; None when they are two."""
    if not _TOUCHING.fullmatch(text, one.end, other.begin) or one.repeats == other.repeats:
        return None
    found, fixed = (one.found, other.days) if one.repeats else (other.found, one.days)
    if found is None or fixed is None:
        return None
    point = found.read(Context.on(min(fixed[1], date.max - timedelta(1)) + timedelta(1)))
    if point is None or not fixed[0] <= point.days[0] <= point.days[1] <= fixed[1]:
        return None
    return Phrase(one.begin, other.end, one.word or other.word, point.days)
