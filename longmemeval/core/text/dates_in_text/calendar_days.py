"""Calendar arithmetic: weeks, months, seasons and holidays as intervals of days.

Weeks run from Monday to Sunday. Seasons are the meteorological seasons of the northern hemisphere; winter belongs to
the year of its December. Holidays are those of the United States.
"""

from collections.abc import Callable
from datetime import date, datetime, timedelta
from typing import Literal

from dateutil.easter import easter
from dateutil.relativedelta import MO, SU, TH, relativedelta

from longmemeval.core.text import calendar_names

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
