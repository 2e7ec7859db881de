"""Parts of regular expressions (which ignore case) for the words that dates consist of, and their meanings."""

import re
from collections.abc import Callable
from functools import partial

from longmemeval.core.text.calendar_names import MONTHS
from longmemeval.core.text.dates_in_text.calendar_days import (
    HOLIDAYS,
    SEASONS,
    WEEKDAYS,
    Days,
    month_of,
    season_of,
)

_NUMBER_WORDS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_NUMBERS = {word: number for number, word in enumerate(_NUMBER_WORDS, start=1)}
_TEENS = ("thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen")
_NUMBERS |= {word: number for number, word in enumerate(_TEENS, start=13)}
_TENS = {"twenty": 20, "thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "seventy": 70, "eighty": 80, "ninety": 90}
_NUMBERS |= {
    f"{ten}{between}{digit}": tens + number
    for ten, tens in _TENS.items()
    for number, digit in enumerate(_NUMBER_WORDS[:9], start=1)
    for between in "- "
}
_NUMBERS |= _TENS | {"dozen": 12}
_VAGUE = {"a": (1, 1), "an": (1, 1), "couple": (2, 2), "few": (2, 5), "several": (3, 7)}
# "a year and two months ago", "half a year ago" and "forty-five days ago" mean more than their last words.
_WHOLE_COUNT = r"(?<![-\w.,/])(?<!\byear\sand\s)(?<!\bmonth\sand\s)(?<!\bweek\sand\s)(?<!s\sand\s)(?<!\bhalf\s)"
_LONGER_FIRST = "|".join(sorted(_NUMBERS, key=len, reverse=True))
COUNT = rf"{_WHOLE_COUNT}(?:\d{{1,4}}|(?:a\s+)?(?:couple|dozen)(?:\s+of)?|(?:a\s+)?few|several|an?|{_LONGER_FIRST})"
UNIT = r"(?:minute|hour|day|night|week|fortnight|month|year|decade)s?"
WEEKDAY = f"(?:{'|'.join(WEEKDAYS)})"

_SHORT_MONTHS = [name[:3].lower() for name in MONTHS]
_OTHER_MONTHS = (
    "|".join(name.lower() for name in MONTHS if name not in ("March", "May"))
    + rf"|(?:{'|'.join(name for name in _SHORT_MONTHS if name != 'may').replace('sep', 'sept?')})\b\.?"
)
MONTH = rf"(?:{_OTHER_MONTHS}|(?-i:March|MARCH|May|MAY))"
"""A month that is not a verb: "may" and "march" only with a capital letter."""
MONTH_SURE = rf"(?:{_OTHER_MONTHS}|march|may)"
"""A month in a position where no verb can be."""

SEASON = (
    r"(?:spring(?!\s+(?:rolls?|onions?|mix|water|greens?|cleaning)\b)|summer|autumn|"
    r"fall(?!\s+(?:into|under|off|apart|within|short|behind|asleep|in\s+love)\b)|winter)"
)
HOLIDAY = f"(?:{'|'.join(HOLIDAYS)})"

# Not the start of a longer number, a time, a price, a fraction, or a number of things.
_NO_QUANTITY = (
    r"(?![\d:%]|[./]\d|,\d{3}(?!\d)|\s*(?:people|words|characters|steps|miles|meters|metres|dollars|calories|square|"
    r"feet|units|points|copies|minutes|hours|of\s+the|attacks?|cups?|inch(?:es)?|teaspoons?|tablespoons?)\b)"
)
NO_NUMBER_BEFORE = r"(?<![\d.,/$€£#:-])"
YEAR = rf"(?:(?:19|20)\d\d\b(?!-\d){_NO_QUANTITY})"
_DAY_NUMBER = r"(?:[12]\d|3[01]|0?[1-9])(?!\d)"
ORDINAL_DAY = rf"(?:{_DAY_NUMBER}(?:st|nd|rd|th)\b)"
DAY = rf"(?:{_DAY_NUMBER}(?:st|nd|rd|th)?\b{_NO_QUANTITY})"
NO_NAME = r"(?!'s\b|\s+(?:says?|said|told|asked|thinks|thought)\b)"
"""After a month: "since June said so" is about a person."""


def count_of(text: str | None) -> tuple[int, int]:
    """Return the least and the most that a count can mean: "two" (2, 2), "a few" (2, 5), nothing (1, 1)."""
    words = (text or "one").lower().split()
    words = words[1:] if words[0] == "a" and len(words) > 1 else words
    word, both = words[0], " ".join(words)
    number = int(word) if word.isdigit() else _NUMBERS.get(both, _NUMBERS.get(word, 0))
    return (number, number) if number else _VAGUE[word]


def year_number(text: str) -> int:
    """Return a year written with four digits, or with two digits: '49 is 2049, '50 is 1950."""
    number = int(text.removeprefix("'"))
    return number if number > 99 else number + (2000 if number < 50 else 1900)


def month_number(text: str) -> int:
    """Return 1 to 12 for a month's name, abbreviation or number."""
    return int(text) if text.isdigit() else _SHORT_MONTHS.index(text[:3].lower()) + 1


def yearly(name: str) -> Callable[[int], Days]:
    """Return a function from a year to the days of a season, month or holiday (lower-case name) in it."""
    if name in SEASONS:
        return partial(season_of, name)
    holiday = next((day for pattern, day in HOLIDAYS.items() if re.fullmatch(pattern, name)), None)
    if holiday:
        return lambda year: (holiday(year), holiday(year))
    month = month_number(name)
    return lambda year: month_of(year, month)
