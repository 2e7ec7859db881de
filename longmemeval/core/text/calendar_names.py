"""The English names of weekdays and months, and dates written with them.

`strftime("%A")` and similar must not be used: they follow the machine's locale.
"""

from datetime import date, datetime, timedelta

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
