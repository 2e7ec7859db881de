"""One table of weekdays and of months, whatever the locale."""

import calendar
from datetime import date, datetime, timedelta

from longmemeval.core.text.quantities import MONTHS, WEEKDAYS, official_date, weekday_of


def test_the_names_are_those_of_the_calendar() -> None:
    # The tests' own locale is C.
    assert list(WEEKDAYS) == list(calendar.day_name)
    assert list(MONTHS) == list(calendar.month_name)[1:]
    assert weekday_of(date(2023, 5, 30)) == "Tuesday"


def test_official_date_names_every_weekday() -> None:
    week = [official_date(datetime(2024, 1, 1, 0, 5) + timedelta(days=day)) for day in range(7)]
    assert week == [
        "2024/01/01 (Mon) 00:05",
        "2024/01/02 (Tue) 00:05",
        "2024/01/03 (Wed) 00:05",
        "2024/01/04 (Thu) 00:05",
        "2024/01/05 (Fri) 00:05",
        "2024/01/06 (Sat) 00:05",
        "2024/01/07 (Sun) 00:05",
    ]
