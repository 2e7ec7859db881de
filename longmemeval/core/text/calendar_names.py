"""The English names of weekdays and months, and dates written with them.

Never `strftime("%A")` and its like: that follows the machine's locale.
"""

from datetime import date, datetime

WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
"""Weekday names in the order of `date.weekday()`."""
MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)


def weekday_of(day: date) -> str:
    """Return the weekday of a date or moment, such as `Tuesday`."""
    return WEEKDAYS[day.weekday()]


def official_date(moment: datetime) -> str:
    """Format a date as prompts and exports write it: `2023/05/30 (Tue) 23:40`."""
    return f"{moment:%Y/%m/%d} ({weekday_of(moment)[:3]}) {moment:%H:%M}"
