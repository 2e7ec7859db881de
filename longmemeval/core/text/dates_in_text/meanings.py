"""Meanings of the phrases of `rules`: functions from the matched words and the current day to an interval of days.

All functions raise ValueError or OverflowError for days that do not exist.
"""

import re
from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta
from functools import partial
from typing import Literal

from dateutil.easter import easter
from dateutil.relativedelta import MO, SU, TH, relativedelta
from msgspec import Struct

from longmemeval.core.text import quantities as calendar_names
from longmemeval.core.text.quantities import MONTHS

# Calendar arithmetic: weeks, months, seasons and holidays as intervals of days.
#
# Weeks run from Monday to Sunday. Seasons are the meteorological seasons of the northern hemisphere; winter belongs
# to the year of its December. Holidays are those of the United States.

Days = tuple[date, date]
"""First and last day, both included."""

WEEKDAYS = tuple(name.lower() for name in calendar_names.WEEKDAYS)
SEASONS = {"spring": 3, "summer": 6, "autumn": 9, "fall": 9, "winter": 12}
"""First month of each season."""

HOLIDAYS: dict[str, Callable[[int], date]] = {
    r"new\s+year'?s\s+eve": lambda year: date(year, 12, 31),
    r"new\s+year'?s\s+day|new\s+year's": lambda year: date(year, 1, 1),
    r"(?:mlk|martin\s+luther\s+king(?:,?\s+jr\.?)?)\s+day": lambda year: (
        date(year, 1, 1) + relativedelta(weekday=MO(3))
    ),
    r"groundhog\s+day": lambda year: date(year, 2, 2),
    r"presidents?'?s?'?\s+day": lambda year: date(year, 2, 1) + relativedelta(weekday=MO(3)),
    r"mardi\s+gras": lambda year: easter(year) - timedelta(47),
    r"april\s+fools?'?s?'?\s+day": lambda year: date(year, 4, 1),
    r"palm\s+sunday": lambda year: easter(year) - timedelta(7),
    r"cinco\s+de\s+mayo": lambda year: date(year, 5, 5),
    r"juneteenth": lambda year: date(year, 6, 19),
    r"fourth\s+of\s+july": lambda year: date(year, 7, 4),
    r"(?:columbus|indigenous\s+peoples?'?s?'?)\s+day": lambda year: date(year, 10, 1) + relativedelta(weekday=MO(2)),
    r"veterans'?\s+day": lambda year: date(year, 11, 11),
    r"valentine'?s\s+day": lambda year: date(year, 2, 14),
    r"(?:st\.?|saint)\s+patrick'?s\s+day": lambda year: date(year, 3, 17),
    r"ash\s+wednesday": lambda year: easter(year) - timedelta(46),
    r"good\s+friday": lambda year: easter(year) - timedelta(2),
    r"easter\s+monday": lambda year: easter(year) + timedelta(1),
    r"easter(?:\s+sunday)?": easter,
    r"mother'?s\s+day": lambda year: date(year, 5, 1) + relativedelta(weekday=SU(2)),
    r"memorial\s+day": lambda year: date(year, 5, 31) + relativedelta(weekday=MO(-1)),
    r"father'?s\s+day": lambda year: date(year, 6, 1) + relativedelta(weekday=SU(3)),
    r"independence\s+day": lambda year: date(year, 7, 4),
    r"labou?r\s+day": lambda year: date(year, 9, 1) + relativedelta(weekday=MO(1)),
    r"halloween": lambda year: date(year, 10, 31),
    r"thanksgiving(?:\s+day)?": lambda year: date(year, 11, 1) + relativedelta(weekday=TH(4)),
    r"black\s+friday": lambda year: date(year, 11, 1) + relativedelta(weekday=TH(4)) + timedelta(1),
    r"christmas\s+eve": lambda year: date(year, 12, 24),
    r"christmas(?:\s+day)?": lambda year: date(year, 12, 25),
    r"boxing\s+day": lambda year: date(year, 12, 26),
}
"""Day of each holiday in a given year, by regular expression of its lower-case name."""

Choice = Literal["latest", "coming", "last", "this", "next"]
"""Choice among yearly occurrences: the latest that has begun, the first that is not over, the last that is over, this
year's, or the next to begin."""

_THIRDS = {"early": 0, "beginning": 0, "start": 0, "mid": 1, "middle": 1, "late": 2, "end": 2}
_MONTHS_IN = {"month": 1, "year": 12, "decade": 120}
_WIDTH_DAYS = {"day": 0, "week": 3, "fortnight": 3, "month": 10}
"""Tolerance of "three weeks ago" to either side, in days by unit."""

_YEARS = 9
"""Years to search for an occurrence: 29 February can be eight years away."""


def week_of(day: date) -> Days:
    """Return Monday to Sunday around `day`."""
    monday = day - timedelta(day.weekday())
    return monday, monday + timedelta(6)


def month_of(year: int, month: int) -> Days:
    """Return the whole month, `month` from 1."""
    first = date(year, month, 1)
    return first, first + relativedelta(day=31)


def year_of(year: int) -> Days:
    """Return the whole year."""
    return date(year, 1, 1), date(year, 12, 31)


def season_of(name: str, year: int) -> Days:
    """Return the three months of the season that begins in `year`."""
    first = date(year, SEASONS[name], 1)
    return first, first + relativedelta(months=2, day=31)


def previous_weekday(day: date, weekday: int) -> date:
    """Return the last such weekday (Monday is 0) before `day`, never `day` itself."""
    return day - timedelta((day.weekday() - weekday - 1) % 7 + 1)


def following_weekday(day: date, weekday: int) -> date:
    """Return the first such weekday (Monday is 0) after `day`, never `day` itself."""
    return day + timedelta((weekday - day.weekday() - 1) % 7 + 1)


def moved(moment: datetime, number: int, unit: str) -> date:
    """Return the day `number` units (`minute`, `hours`, `day`, `weeks`, …) from `moment`; raises as `shifted` does."""
    unit = unit.removesuffix("s")
    if unit in _MONTHS_IN:
        return moment.date() + relativedelta(months=number * _MONTHS_IN[unit])
    unit, number = (
        ("day", number) if unit == "night" else ("week", 2 * number) if unit == "fortnight" else (unit, number)
    )
    return (moment + timedelta(**{f"{unit}s": number})).date()


def shifted(moment: datetime, count: tuple[int, int], unit: str, sign: int) -> Days:
    """Return the days meant by "three weeks ago" (`sign` -1) or "three weeks from now" (1).

    Days are exact, weeks leave 3 days to either side, months 10, years are whole years, decades leave two years; a
    vague count ("a few") stretches from its least to its most.

    Raises:
        ValueError: the days are before the first or after the last possible year.
        OverflowError: likewise.
    """
    unit = unit.removesuffix("s")
    least, most = sorted(sign * number for number in count)
    if unit in ("year", "decade"):
        years, width = (10, 2) if unit == "decade" else (1, 0)
        return year_of(moment.year + years * least - width)[0], year_of(moment.year + years * most + width)[1]
    days = timedelta(_WIDTH_DAYS.get(unit, 0))
    return moved(moment, least, unit) - days, moved(moment, most, unit) + days


def named_days(what: str, day: date, offset: int) -> Days:
    """Return the week, weekend, month, year or weekday `offset` away: -1 is the last, 0 the current, 1 the next."""
    match what:
        case "week":
            return week_of(day + timedelta(7 * offset))
        case "weekend":
            monday = week_of(day)[0] + timedelta(7 * offset)
            return monday + timedelta(5), monday + timedelta(6)
        case "month":
            there = day + relativedelta(months=offset)
            return month_of(there.year, there.month)
        case "year":
            return year_of(day.year + offset)
    weekday = WEEKDAYS.index(what)
    if offset == 0:
        chosen = week_of(day)[0] + timedelta(weekday)
    elif offset < 0:
        chosen = previous_weekday(day, weekday) + timedelta(7 * (offset + 1))
    else:
        chosen = following_weekday(day, weekday) + timedelta(7 * (offset - 1))
    return chosen, chosen


def occurrence(in_year: Callable[[int], Days], day: date, choice: Choice) -> Days:
    """Return one of the intervals that come every year.

    Args:
        in_year: returns the interval that begins in a year; raises ValueError for a year that has none.
        day: the current day.
        choice: the occurrence that is meant.

    Raises:
        ValueError: there is none within the next or the last eight years.
    """
    candidates = []
    for year in range(day.year - _YEARS, day.year + _YEARS):
        try:
            candidates.append(in_year(year))
        except (ValueError, OverflowError):
            continue
    around = [days for days in candidates if days[0] <= day <= days[1]]
    this_year = [days for days in candidates if days[0].year == day.year]
    fitting = {
        "latest": [days for days in candidates if days[0] <= day][-1:],
        "coming": [days for days in candidates if days[1] >= day][:1],
        "last": [days for days in candidates if days[1] < day][-1:],
        "this": (around or this_year)[:1],
        "next": [days for days in candidates if days[0] > day][:1],
    }[choice]
    if not fitting:
        raise ValueError("no such day")
    return fitting[0]


def part_of(days: Days, part: str) -> Days:
    """Return a third of `days` ("early", "beginning", "mid", "end", …); the middle one takes the remainder."""
    first, last = days
    third, day = timedelta(((last - first).days + 1) // 3), timedelta(1)
    thirds = ((first, first + third - day), (first + third, last - third), (last - third + day, last))
    return thirds[_THIRDS[part]]


def half_of(days: Days, second: bool) -> Days:
    """Return the first or the second half of `days`; the second takes the remainder."""
    first, last = days
    middle = first + timedelta(((last - first).days + 1) // 2)
    return (middle, last) if second else (first, middle - timedelta(1))


def nth_of(days: Days, number: int, what: str) -> Days:
    """Return the `number`-th (from 1; -1: the last) day, week, weekend or weekday; weeks count from the first day.

    Raises:
        ValueError: `days` do not contain it.
    """
    first, last = days
    if what == "day":
        begin = last if number == -1 else first + timedelta(number - 1)
        chosen = (begin, begin)
    elif what == "week":
        begin = last - timedelta(6) if number == -1 else first + timedelta(7 * (number - 1))
        chosen = (begin, begin + timedelta(6))
    else:
        weekday = WEEKDAYS.index("saturday" if what == "weekend" else what)
        if number == -1:
            begin = previous_weekday(last + timedelta(1), weekday)
        else:
            begin = following_weekday(first - timedelta(1), weekday) + timedelta(7 * (number - 1))
        chosen = (begin, begin + timedelta(what == "weekend"))
    if not first <= chosen[0] <= last:
        raise ValueError(f"no such {what}")
    return chosen


# Parts of regular expressions (which ignore case) for the words that dates consist of, and their meanings.

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


class Context(Struct, frozen=True):
    """The current day.

    `ahead`: a recurring day means the next one, not the latest.
    """

    moment: datetime
    ahead: bool = False

    @property
    def day(self) -> date:
        """The current day."""
        return self.moment.date()

    @staticmethod
    def on(day: date, *, ahead: bool = False) -> "Context":
        """Return a context with `day` as the current day."""
        return Context(datetime.combine(day, time()), ahead)


class Point(Struct, frozen=True):
    """Days named by a phrase. `repeats`: they recur every week or year, and the context selected these."""

    days: Days
    repeats: bool = False


Groups = Mapping[str, str]
"""Text matched by the named groups of a rule's pattern, in lower case."""

_UNITS = ("week", "weekend", "month", "year")
_OFFSETS: dict[str, tuple[int, Choice]] = {
    "before": (-2, "last"),
    "last": (-1, "last"),
    "past": (-1, "last"),
    "previous": (-1, "last"),
    "this": (0, "this"),
    "the": (0, "this"),
    "next": (1, "next"),
    "coming": (1, "next"),
}


def ago(groups: Groups, context: Context) -> Point:
    """Read "two weeks ago", "three days from now", "the Sunday two weeks ago", "two Fridays ago"."""
    count, unit = count_of(groups["count"]), groups["unit"].removesuffix("s")
    sign = -1 if groups["way"] in ("ago", "back") else 1
    if "exact" in groups:
        day = moved(context.moment, sign * count[1], unit)
        return Point((day, day))
    if unit == "weekend" or unit in WEEKDAYS:
        return Point(named_days(unit, context.day, sign * count[1]))
    days = shifted(context.moment, count, unit, sign)
    if "weekday" in groups and unit == "week":
        # "the Sunday two weeks ago": three days to either side hold one of each weekday.
        chosen = following_weekday(days[0] - timedelta(1), WEEKDAYS.index(groups["weekday"]))
        days = (chosen, chosen)
    return Point(days)


def half(groups: Groups, context: Context) -> Point:
    """Read "half a year ago", "a year and a half ago", "two and a half months ago"."""
    whole = 0 if groups.get("count") is None else count_of(groups["count"])[1]
    if groups["unit"].startswith("year"):
        return Point(shifted(context.moment, (12 * whole + 6,) * 2, "month", -1))
    day = moved(context.moment, -whole, "month") - timedelta(15)
    return Point((day - timedelta(10), day + timedelta(10)))


def later(groups: Groups, context: Context) -> Point:
    """Read "in two weeks" if the sentence looks ahead; otherwise it says how long something took."""
    if not context.ahead and "time" not in groups:
        raise ValueError("how long, not when")
    return Point(shifted(context.moment, count_of(groups["count"]), groups["unit"], 1))


def from_weekday(groups: Groups, context: Context) -> Point:
    """Read "a week from Friday"."""
    what = groups["what"]
    tomorrow = context.day + timedelta(1)
    pivot = tomorrow if what == "tomorrow" else following_weekday(context.day, WEEKDAYS.index(what))
    day = pivot + timedelta(7 * count_of(groups["count"])[1])
    return Point((day, day))


def same_time(groups: Groups, context: Context) -> Point:
    """Read "this time last year": the same day, give or take two weeks for a year and 3 days for a month."""
    day = moved(context.moment, -1 if groups["which"] == "last" else 1, groups["unit"])
    width = timedelta({"year": 14, "month": 3}.get(groups["unit"], 0))
    return Point((day - width, day + width))


def decade(groups: Groups, context: Context) -> Point:
    """Read "the 1990s"."""
    first = int(groups["decade"])
    return Point((date(first, 1, 1), date(first + 9, 12, 31)))


def quarter(groups: Groups, context: Context) -> Point:
    """Read "Q1 2023"."""
    number = {"first": 1, "second": 2, "third": 3, "fourth": 4}.get(groups["quarter"]) or int(groups["quarter"])
    year = year_number(groups["year"])
    return Point((date(year, 3 * number - 2, 1), month_of(year, 3 * number)[1]))


def day_of_this(groups: Groups, context: Context) -> Point:
    """Read "the 3rd of next month", or "on the 15th" of the month that fits."""
    day = int(re.sub(r"\D", "", groups["day"]))
    if "which" in groups:
        first = named_days("month", context.day, {"last": -1, "this": 0, "next": 1}[groups["which"]])[0]
        return Point((first.replace(day=day),) * 2)
    step = 1 if context.ahead else -1
    for offset in range(3):
        first = named_days("month", context.day, step * offset)[0]
        there = first.replace(day=day) if day <= month_of(first.year, first.month)[1].day else None
        if there and (there >= context.day if context.ahead else there <= context.day):
            return Point((there, there), repeats=True)
    raise ValueError("no such day")


def window(groups: Groups, context: Context) -> Point:
    """Read "the last two weeks", "the next few days": so many units, today included."""
    sign = 1 if groups["which"] in ("next", "coming") else -1
    edge = moved(context.moment, sign * count_of(groups.get("count"))[1], groups["unit"])
    return Point((min(edge, context.day), max(edge, context.day)))


def near_day(groups: Groups, context: Context) -> Point:
    """Return today or one of the two days to either side."""
    distance = {"yesterday": -1, "last": -1, "night": -2, "tomorrow": 1}.get(groups["word"].split()[0], 0)
    day = context.day + timedelta(2 * distance if "twice" in groups else distance)
    return Point((day, day))


def named(groups: Groups, context: Context) -> Point:
    """Read "last week", "this Friday", "next summer", "the week before last"."""
    which = groups["which"].split()
    offset, choice = _OFFSETS["before" if which[0] == "before" else which[-1]]
    what = groups["what"]
    if what in _UNITS or what in WEEKDAYS:
        return Point(named_days(what, context.day, offset))
    return Point(occurrence(yearly(what), context.day, choice))


def recurring(groups: Groups, context: Context) -> Point:
    """Return a month, season or holiday, in the named year if there is one."""
    return _in_year(yearly(groups["what"]), groups, context)


def weekday(groups: Groups, context: Context) -> Point:
    """Read "on Friday", "over the weekend"."""
    what = groups["what"]
    # Ahead of every day of a week is the weekend of the same week.
    ahead = 0 if what == "weekend" else 1
    return Point(named_days(what, context.day, ahead if context.ahead else -1), repeats=True)


def year(groups: Groups, context: Context) -> Point:
    """Read "in 2021"."""
    return Point(year_of(int(groups["year"])))


def day_of_month(groups: Groups, context: Context) -> Point:
    """Return a day, or the first to the last of several, in the named year if there is one."""
    month = month_number(groups["month"])
    first, last = (int(re.sub(r"\D", "", text)) for text in (groups["day"], groups.get("to", groups["day"])))
    if first > last:
        raise ValueError("ends before it begins")
    return _in_year(lambda year: (date(year, month, first), date(year, month, last)), groups, context)


def _in_year(in_year: Callable[[int], Days], groups: Groups, context: Context) -> Point:
    if "year" in groups:
        return Point(in_year(year_number(groups["year"])))
    return Point(occurrence(in_year, context.day, "coming" if context.ahead else "latest"), repeats=True)


def numeric(groups: Groups, context: Context) -> Point:
    """Read a numeric date.

    Year first, or month first as in the United States unless that is impossible; day first between dots.
    """
    first, second, third = (int(number) for number in re.findall(r"\d+", groups["numbers"]))
    if "." in groups["numbers"]:
        return Point((date(third, second, first),) * 2)
    if first > 31:
        year, month, day = first, second, third
    elif first > 12:
        year, month, day = third, second, first
    else:
        year, month, day = third, first, second
    return Point((date(year, month, day),) * 2)
