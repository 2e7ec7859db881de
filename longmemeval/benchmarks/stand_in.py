"""Stand-in dates of data that has none: they only define the order of sessions."""

from datetime import datetime, timedelta

from longmemeval.core.text.calendar_names import official_date

_FIRST_DAY = datetime(2000, 1, 1)


def stand_in_date(index: int) -> tuple[datetime, str]:
    """Return midnight of day `index` from 2000-01-01 on, and its text as `official_date` writes it."""
    day = _FIRST_DAY + timedelta(days=index)
    return day, official_date(day)
