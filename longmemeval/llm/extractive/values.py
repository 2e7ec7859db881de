"""Values in a sentence that a question can ask for: money, numbers, dates, places and others."""

import re
from functools import lru_cache
from typing import Literal

from longmemeval.core.text.quantities import MONTHS, WEEKDAYS
from longmemeval.core.text.words import stem

Kind = Literal[
    "money", "duration", "distance", "age", "time", "weekday", "date", "place", "person", "name", "colour", "figure"
]

_UP_TO_NINETEEN = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"),
    *("thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"),
)
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_NUMBERS = {word: number for number, word in enumerate(_UP_TO_NINETEEN)} | {
    word: 10 * number for number, word in enumerate(_TENS, start=2)
}
_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")
_ONES = "|".join(_UP_TO_NINETEEN[1:10])
_DIGITS = r"\d+(?:,\d{3})*(?:\.\d+)?"
NUMBER = rf"(?:{_DIGITS}|(?:(?:{'|'.join(_TENS)})(?:-(?:{_ONES}))?|{'|'.join(_UP_TO_NINETEEN)})\b)"
"""A number in digits or in words, as a pattern."""

_MONTH = "|".join(MONTHS)
_WEEKDAY = "|".join(rf"\b{day}s?\b" for day in WEEKDAYS)
_CAPITAL = r"(?!I['\u2019])[A-Z\u00c0-\u00de][\w'\u2019-]+"
_UNIT_OF_TIME = r"(?:second|minute|hour|day|night|week|fortnight|month|year)"
_UNIT_OF_LENGTH = r"(?:km|m|cm|kilomet(?:re|er)s?|met(?:re|er)s?|miles?|yards?|feet)"
_COLOURS = (
    *("red", "orange", "yellow", "green", "blue", "purple", "violet", "pink", "brown", "black", "white", "grey"),
    *("gray", "silver", "gold", "golden", "beige", "cream", "turquoise", "teal", "maroon", "navy"),
)
_PATTERNS: dict[Kind, re.Pattern[str]] = {
    "money": re.compile(rf"[$\u00a3\u20ac]\s?{_DIGITS}|\b{_DIGITS} ?(?:dollars|pounds|euros|bucks)\b"),
    "duration": re.compile(
        rf"\b{NUMBER}[\s-]+(?:and a half )?{_UNIT_OF_TIME}s?\b|\ban? (?:hour|day|week|month|year)\b", re.IGNORECASE
    ),
    "distance": re.compile(rf"\b{NUMBER}\s?{_UNIT_OF_LENGTH}\b", re.IGNORECASE),
    "age": re.compile(rf"\b{NUMBER}[\s-]years?\b|\b(?:is|am|are|turn(?:s|ed)|aged?) {NUMBER}\b", re.IGNORECASE),
    "time": re.compile(
        rf"\b\d{{1,2}}[:.]\d\d\b|\b\d{{1,2}} ?(?:a\.?m|p\.?m)\b|\b(?:at|past|to) (?:{_ONES}|ten|eleven|twelve)\b",
        re.IGNORECASE,
    ),
    "weekday": re.compile(_WEEKDAY),
    "date": re.compile(
        rf"\b\d{{1,2}}(?:st|nd|rd|th)?(?: of)? (?:{_MONTH})\b|\b(?:{_MONTH}) \d+\b|\bin (?:{_MONTH})\b"
        rf"|\b(?:19|20)\d\d\b|{_WEEKDAY}"
    ),
    "place": re.compile(rf"\b(?:in|at|to|from|near|of|on|for|around|outside|above)(?: the)? {_CAPITAL}"),
    "person": re.compile(rf"\b(?:Mr|Mrs|Ms|Dr|Prof)\.? {_CAPITAL}|(?<=[a-z,] ){_CAPITAL}"),
    "name": re.compile(rf"(?<=[a-z,:] ){_CAPITAL}|[\"\u201c]|^{_CAPITAL} {_CAPITAL}"),
    "colour": re.compile(rf"\b(?:{'|'.join(_COLOURS)})\b", re.IGNORECASE),
    "figure": re.compile(rf"\b\d[\w.:,]*(?! (?:{_MONTH}))|\b(?!one\b){NUMBER}", re.IGNORECASE),
}
_CHANGING = frozenset(stem(word.lower()) for word in (*_NUMBERS, *_ORDINALS, *MONTHS, *WEEKDAYS))


@lru_cache(maxsize=1 << 15)
def values_of(kind: Kind, sentence: str) -> tuple[str, ...]:
    """Return the values of a kind in `sentence`, in order."""
    return tuple(match.group() for match in _PATTERNS[kind].finditer(sentence))


def holds(kind: Kind, sentence: str) -> bool:
    """Return whether `sentence` contains a value of the kind."""
    return bool(values_of(kind, sentence))


def number(text: str) -> float | None:
    """Return the number in digits in `text`, or that `text` is in words ("thirty-one"); None if there is none."""
    if digits := re.search(_DIGITS, text):
        return float(digits.group().replace(",", ""))
    parts = [_NUMBERS.get(part) for part in text.lower().strip().split("-")]
    return None if None in parts else float(sum(filter(None, parts)))


def is_value(word: str) -> bool:
    """Return whether a stem is a number, a month or a weekday: the words that change when a fact does."""
    return any(letter.isdigit() for letter in word) or word in _CHANGING
