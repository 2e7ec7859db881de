"""Finding the phrases that name days in a text, and the meaning of two of them together.

Two phrases become one if they are joined ("between March and June") or if one selects among the days of the other ("on
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
"""Function that tells, from a text and the begin and end of a phrase, whether the phrase looks ahead."""


class Phrase(Struct, frozen=True):
    """A phrase found in a text, from character `begin` to `end`.

    `days` is None when there are no such days. `word` is the preposition before it: "since", "in", "" and so on.
    `repeats`: the days recur every week or year. `found` is the match of the phrase, None if there are two.
    """

    begin: int
    end: int
    word: str
    days: Days | None
    repeats: bool = False
    found: Found | None = None


_PLAIN = str.maketrans(
    # Typographic marks, and the letters that a regular expression takes for s, i and k if it ignores case.
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
"""Words that carry no meaning before a phrase on its own: "the cake from last week"."""
_JOINED_DATES = {"month_first", "day_first", "numeric", "of_year"}


def find_phrases(text: str, moment: datetime, looks_ahead: Looks = lambda text, begin, end: False) -> list[Phrase]:
    """Return all phrases of `text` that name days, in order of appearance, not overlapping.

    Args:
        moment: date and time of the text, naive.
        looks_ahead: decides whether "in June" means the next June or the latest.
    """
    text = text.translate(_PLAIN)
    matches = [look_before(text, match) for match in find_matches(text)]
    phrases: list[Phrase] = []
    position = 0
    while position < len(matches):
        first, *rest = matches[position : position + 2]
        context = Context(moment, looks_ahead(text, first.begin, first.match.end))
        position += 1
        if rest and _joined(text, first, rest[0]):
            phrase = _join(first, rest[0], context)
            position += 1
        elif first.stands() or (phrases and _listed(text, phrases[-1], first)):
            phrase = _alone(text, first, context)
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
    """Return whether `found` continues a list: "in March and May"."""
    same = last.found is not None and last.found.match.rule == found.match.rule
    return same and _OR.fullmatch(text, last.end, found.match.begin) is not None


def _joined(text: str, first: Found, second: Found) -> bool:
    gap = text[first.match.end : second.inner]
    if first.word == "between":
        return _AND.fullmatch(gap) is not None
    dates = first.match.rule in _JOINED_DATES and second.match.rule in _JOINED_DATES
    return (dates or first.word == "from") and first.match.rule != "weekday" and _TO.fullmatch(gap) is not None


def _join(first: Found, second: Found, context: Context) -> Phrase:
    """Return the days from the first of one to the last of the other; a repeating one is chosen to suit the other."""
    left, right = first.read(context), second.read(context)
    if left and right and left.repeats and not right.repeats:
        left = first.read(Context.on(right.days[1]))
    if left and right and right.repeats:
        right = second.read(Context.on(left.days[0], ahead=True))
    if left is None or right is None or left.days[0] > right.days[1]:
        return Phrase(first.begin, second.match.end, "", None)
    return Phrase(first.begin, second.match.end, "", (left.days[0], right.days[1]), left.repeats and right.repeats)


def _merged(text: str, first: Phrase, second: Phrase) -> Phrase | None:
    """Return two adjacent phrases, such as "on Monday" and "last week", as one; None if they are separate."""
    if not _TOUCHING.fullmatch(text, first.end, second.begin) or first.repeats == second.repeats:
        return None
    found, fixed = (first.found, second.days) if first.repeats else (second.found, first.days)
    if found is None or fixed is None:
        return None
    point = found.read(Context.on(min(fixed[1], date.max - timedelta(1)) + timedelta(1)))
    if point is None or not fixed[0] <= point.days[0] <= point.days[1] <= fixed[1]:
        return None
    return Phrase(first.begin, second.end, first.word or second.word, point.days)
