"""Meanings of the phrases of `rules`: functions from the matched words and the current day to an interval of days.

All functions raise ValueError or OverflowError for days that do not exist.
"""

import re
from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta

from msgspec import Struct

from longmemeval.core.text.dates_in_text.calendar_days import (
    WEEKDAYS,
    Choice,
    Days,
    following_weekday,
    month_of,
    moved,
    named_days,
    occurrence,
    shifted,
    year_of,
)
from longmemeval.core.text.dates_in_text.vocabulary import count_of, month_number, year_number, yearly


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
