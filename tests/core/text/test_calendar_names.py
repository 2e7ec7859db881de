"""One table of weekdays and of months, whatever the locale."""

import ast
import calendar
from datetime import date, datetime, timedelta

import pytest

from longmemeval.core.text.calendar_names import MONTHS, WEEKDAYS, official_date, weekday_of
from tests.support import ROOT


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


@pytest.mark.slow
def test_nobody_keeps_a_table_of_their_own() -> None:
    """No list or tuple with two names of weekdays or months stands anywhere else, whole or shortened."""
    names = {form.lower() for name in (*WEEKDAYS, *MONTHS) for form in (name, name[:3])} - {"may"}
    copies = []
    for path in sorted((ROOT / "longmemeval").rglob("*.py")):
        if path.name == "calendar_names.py":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Tuple | ast.List | ast.Set):
                continue
            held = {str(item.value).lower() for item in node.elts if isinstance(item, ast.Constant)}
            if len(held & names) > 1:
                copies.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert copies == []
