"""A uniform spelling of numbers, dates and times in English texts, so that texts with the same meaning share words."""

import re
from datetime import date, datetime, timedelta
from functools import lru_cache

# The English names of weekdays and months, and dates written with them.
#
# `strftime("%A")` and similar must not be used: they follow the machine's locale.

WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
"""Weekday names in the order of `date.weekday()`."""
MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_FIRST_STAND_IN = datetime(2000, 1, 1)


def weekday_of(day: date) -> str:
    """Return the weekday of a date or moment, such as `Tuesday`."""
    return WEEKDAYS[day.weekday()]


def official_date(moment: datetime) -> str:
    """Format a date as prompts and exports write it: `2023/05/30 (Tue) 23:40`."""
    return f"{moment:%Y/%m/%d} ({weekday_of(moment)[:3]}) {moment:%H:%M}"


def stand_in_date(index: int) -> tuple[datetime, str]:
    """Return midnight of day `index` from 2000-01-01 on, and its text, which orders sessions without dates."""
    day = _FIRST_STAND_IN + timedelta(days=index)
    return day, official_date(day)


_ONES = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"),
    *("thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"),
)
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_VALUES = {word: value for value, word in enumerate(_ONES)} | {word: 10 * n for n, word in enumerate(_TENS, 2)}
_NUMBER_WORD = re.compile(
    rf"\b(?:(?P<tens>{'|'.join(_TENS)})[- ](?P<unit>{'|'.join(_ONES[1:10])})|(?P<word>{'|'.join(_VALUES)}))\b"
)
# "One" is a pronoun in "the one on baking" and in "one of them".
_PRONOUN = re.compile(r"\b(the|this|that|which|no|another|every|each) one\b|\bone (?=(?:of|on|that|who|which|with)\b)")
_MONTH = "|".join(month.lower() for month in MONTHS)
_SHORT_MONTH = re.compile(rf"\b({'|'.join(month[:3].lower() for month in MONTHS)})t?\.? (?=\d)")
_FULL_MONTHS = {month[:3].lower(): month.lower() for month in MONTHS}
_DAY_MONTH = re.compile(rf"\b(\d{{1,2}})(?:st|nd|rd|th)? (?:of )?({_MONTH})\b")
_MONTH_DAY = re.compile(rf"\b({_MONTH}) (?:the )?(\d{{1,2}})(?:st|nd|rd|th)?\b(?!:)")
_ORDINALS = (
    *("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth", "eleventh"),
    *("twelfth", "thirteenth", "fourteenth", "fifteenth", "sixteenth", "seventeenth", "eighteenth", "nineteenth"),
    *("twentieth", "twenty-first", "twenty-second", "twenty-third", "twenty-fourth", "twenty-fifth", "twenty-sixth"),
    *("twenty-seventh", "twenty-eighth", "twenty-ninth", "thirtieth", "thirty-first"),
)
_DAY = "|".join(word.replace("-", "[- ]") for word in reversed(_ORDINALS))
_DAY_WORD = re.compile(
    rf"\b(?P<before>{_DAY})(?= (?:day )?(?:of )?(?:{_MONTH})\b(?! (?:be|have|not)\b))"
    rf"|\b(?P<month>{_MONTH}) (?:the )?(?P<after>{_DAY})\b"
)
_ISO_DATE = re.compile(r"\b(\d{4})[-/](\d{1,2})[-/](\d{1,2})\b")
_RATE = re.compile(r"(?<=\d) an? (second|minute|hour|day|week|month|year|time)\b")
"""After an amount: "£38 an hour" counts no hours, which it would without its article."""
_UNITS = {
    "km": r"kilomet(?:er|re)s?|kms?",
    "kg": r"kilo(?:gram(?:me)?)?s?|kgs?",
    "cm": r"centimet(?:er|re)s?|cms?",
    "metres": r"met(?:er|re)s?|m(?=[^\w/]|$)",
    "minutes": r"mins?",
    "hours": r"hrs?|h",
    "seconds": r"secs?",
}
_UNIT = re.compile(rf"(?<=\d)[- ]?(?:{'|'.join(f'(?P<{name}>{forms})' for name, forms in _UNITS.items())})\b")
"""Units after a number, by the one spelling that is kept of each."""
_COMPOUND = re.compile(
    r"\b(?:(?P<h>\d+) hours?,? (?:and )?)?(?P<m>\d+) minutes?,? (?:and )?(?P<s>\d+) seconds?\b"
    r"|\b(?P<hours>\d+) hours?,? (?:and )?(?P<minutes>\d+) minutes?\b"
    r"|\bquarter to (?P<to>\d{1,2})\b"
    r"|\b(?P<pm>1[3-9]|2[0-3]):(?P<past>[0-5]\d)\b(?![:.]\d)"
    r"|\b(?P<hundreds>\d+|a) hundred(?: and)? (?P<rest>\d{1,2})\b"
)
"""Durations, times and numbers that are written with several numbers."""
_SUFFIXES = {1: "st", 2: "nd", 3: "rd"}
_SPELLINGS = tuple(
    (re.compile(pattern), spelling)
    for pattern, spelling in (
        (r"(?<=\d),(?=\d{3}\b)", ""),
        (r"(?<=\d) ?%", " percent"),
        (r"(?<=\d) per cent\b", " percent"),
        (r"\b(\d+) thousand(?: and)? (\d{3})\b", r"\1\2"),
        (r"\b(\d+\.\d+) ?(?:k|thousand)\b", lambda match: f"{float(match[1]) * 1000:g}"),
        (r"\b(\d+)k\b|\b(\d+) thousand\b", r"\1\g<2>000"),
        (r"\b(?:(\d+)|a) hundred\b", lambda match: f"{match[1] or 1}00"),
        (r"\b(?:3[- ]quarters|3/4) of an hour\b", "45 minutes"),
        (r"\b(?:an|1) hour and (?:a|3) quarters?\b", lambda match: "105 minutes" if "3" in match[0] else "75 minutes"),
        (r"\bquarter of an hour\b|\bquarter[- ]hour\b", "15 minutes"),
        (r"\bhalf an hour\b|\bhalf[- ]hour\b", "30 minutes"),
        (r"\b(?:an|1) hour and a half\b", "1.5 hours"),
        (r"\b(\d+) (hours|weeks|months|years) and a half\b", r"\1.5 \2"),
        (r"\b(\d+) and a half\b", r"\1.5"),
        (r"\bhalf a dozen\b", "6"),
        (r"\b(?:a|1) dozen\b", "12"),
        (r"\b(?:a|1) fortnight\b", "2 weeks"),
        (r"\bhalf[- ]past (\d{1,2})\b", r"\1:30"),
        (r"\bquarter past (\d{1,2})\b", r"\1:15"),
        (r"(?<=\d) o'?clock\b", ""),
        (r"\btwice\b", "2 times"),
        (r"\bdaily\b", "every day"),
        (r"\b(week|month|year)ly\b", r"every \1"),
        (r"\b(?:every other|every second|each other) (day|week|month|year)\b", r"every 2 \1s"),
        (r"\b(?:every|each|per) (day|week|month|year)\b|(?<=times )an? (day|week|month|year)\b", r"every1\1\2"),
        (r"\bevery (\d+) (day|week|month|year)s\b", r"every\1\2"),
        (r"(?<=\d) in the morning\b", " am"),
        (r"(?<=\d) (?:in the (?:afternoon|evening)|at night)\b", " pm"),
        (r"(?<=\d) ?([ap])\.?m\b\.?", r" \1m"),
        (r"\b(\d{1,2}):00\b", r"\1"),
        (r"(?<=\d)\.0+\b", ""),
    )
)


_COUNTS = re.compile(
    r"\d|\b(?:half|quarters?|dozen|hundred|thousand|fortnight|twice|daily|(?:week|month|year)ly|every|each|per|times)\b"
)
"""Words and figures without which a text has no quantity that could be spelt in another way."""
_MONTH_WORDS = tuple(month.lower() for month in MONTHS)


@lru_cache(maxsize=1 << 12)
def plain_quantities(text: str) -> str:
    """Return `text` in lower case with its numbers as digits, its dates as `may 3rd` and its times as `7:30 pm`.

    Thousands lose their comma, `400k` is 400000, full hours lose their minutes, `weekly` is `every1week`. The days of
    dates keep a suffix that no other number has: `May 3` does not contain the number 3. `38 an hour` is
    `38 per hour`, a rate and no amount of hours. Durations of two units are one number (`49:35`, `135 minutes`), and
    units have one spelling (`km`).
    """
    text = _PRONOUN.sub(r"\1", text.lower())
    dated = any(month in text for month in _MONTH_WORDS)
    text = _NUMBER_WORD.sub(_digits, _DAY_WORD.sub(_day, text) if dated else text)
    if not _COUNTS.search(text):
        return text
    text = _COMPOUND.sub(_in_one, _UNIT.sub(lambda match: f" {match.lastgroup}", text))
    for pattern, spelling in _SPELLINGS:
        text = pattern.sub(spelling, text)
    text = _ISO_DATE.sub(_from_numbers, text)
    text = _SHORT_MONTH.sub(lambda match: f"{_FULL_MONTHS[match[1]]} ", text)
    if any(month in text for month in _MONTH_WORDS):
        text = _DAY_MONTH.sub(lambda match: f"{match[2]} {_ordinal(int(match[1]))}", text)
        text = _MONTH_DAY.sub(lambda match: f"{match[1]} {_ordinal(int(match[2]))}", text)
    return _RATE.sub(_rate, text)


def _digits(match: re.Match[str]) -> str:
    if match["word"]:
        return str(_VALUES[match["word"]])
    return str(_VALUES[match["tens"]] + _VALUES[match["unit"]])


def _day(match: re.Match[str]) -> str:
    """Return `eleventh` as `11th`, before or after its month."""
    day = _ordinal(_ORDINALS.index((match["before"] or match["after"]).replace(" ", "-")) + 1)
    return f"{match['month']} {day}" if match["month"] else day


def _in_one(match: re.Match[str]) -> str:
    """Return `49 minutes and 35 seconds` as `49:35`, `2 hours and 15 minutes` as `135 minutes`, `19:30` as `7:30 pm`.

    A duration of 13 to 23 minutes looks like such a time, and is read as one in every text.
    """
    if match["m"]:
        text = f"{match['m']}:{match['s'].zfill(2)}"
        return f"{match['h']}:{text.zfill(5)}" if match["h"] else _COMPOUND.sub(_in_one, text)
    if match["hours"]:
        return f"{int(match['hours']) * 60 + int(match['minutes'])} minutes"
    if match["to"]:
        return f"{int(match['to']) - 1 or 12}:45"
    if match["pm"]:
        return f"{int(match['pm']) - 12}:{match['past']} pm"
    return str((1 if match["hundreds"] == "a" else int(match["hundreds"])) * 100 + int(match["rest"]))


def _from_numbers(match: re.Match[str]) -> str:
    month = int(match[2])
    return f"{MONTHS[month - 1].lower()} {_ordinal(int(match[3]))} {match[1]}" if 1 <= month <= 12 else match[0]


def _rate(match: re.Match[str]) -> str:
    return f" every1{match[1]}" if match[1] in ("day", "week", "month", "year") else f" per {match[1]}"


def _ordinal(day: int) -> str:
    return f"{day}{'th' if 10 < day % 100 < 14 else _SUFFIXES.get(day % 10, 'th')}"
