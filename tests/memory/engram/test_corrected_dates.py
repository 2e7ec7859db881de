"""The date of an older move or job is put right: what came later stays, at all later days."""

from datetime import datetime

import pytest

from longmemeval import Engram

MOVED = [("2023-04-02", "I moved to Lisbon in March 2023."), ("2024-06-02", "I moved to Porto in May 2024.")]


def life(*said: tuple[str, str]) -> Engram:
    memory = Engram()
    for day, text in said:
        memory.tell(text, datetime.fromisoformat(day))
    return memory


def value(memory: Engram, predicate: str, day: str) -> list[str]:
    return [fact.object for fact in memory.facts(None, predicate, as_of=datetime.fromisoformat(day))]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("correction", "since"),
    [
        ("I moved to Lisbon in February 2023.", "2023-02-15"),
        ("Actually, I moved to Lisbon in February 2023.", "2023-02-15"),
        ("Actually, I moved to Lisbon in February 2023, not March 2023.", "2023-02-15"),
        ("I moved to Lisbon in February 2023, not March 2023.", "2023-02-15"),
        ("I moved to Lisbon in February 2023, not in March.", "2023-02-15"),
        ("Sorry, I was wrong: I moved to Lisbon in February 2023.", "2023-02-15"),
        ("Actually, I moved to Lisbon in June 2023.", "2023-06-15"),
        ("I moved to Lisbon in June 2023, not March 2023.", "2023-06-15"),
    ],
)
def test_the_newer_home_stays_whatever_is_said_of_the_older_one(correction: str, since: str) -> None:
    memory = life(*MOVED, ("2024-07-01", correction))
    assert value(memory, "home", since) == ["Lisbon"]
    assert value(memory, "home", "2024-04-30") == ["Lisbon"]
    for day in ("2024-05-15", "2024-06-30", "2024-07-01", "2024-12-31", "2030-01-01"):
        assert value(memory, "home", day) == ["Porto"]
    assert [fact.object for fact in memory.facts(None, "home")] == ["Porto"]
    if "June" in correction:
        assert value(memory, "home", "2023-04-15") == []


def test_a_job_likewise_and_three_homes() -> None:
    memory = life(
        ("2020-02-01", "I moved to Rome in January 2020."),
        *MOVED,
        ("2022-02-01", "I started working at Acme in January 2022."),
        ("2023-06-01", "I started working at Globex in May 2023."),
        ("2024-07-01", "Actually, I started working at Acme in December 2021."),
        ("2024-07-02", "Actually, I moved to Lisbon in February 2023."),
    )
    assert value(memory, "employer", "2021-12-15") == ["Acme"]
    assert value(memory, "employer", "2024-08-01") == ["Globex"]
    assert value(memory, "home", "2023-01-15") == ["Rome"]
    assert value(memory, "home", "2023-02-15") == ["Lisbon"]
    assert value(memory, "home", "2024-08-01") == ["Porto"]


def test_a_correction_of_the_value_itself_still_replaces_it() -> None:
    memory = life(*MOVED, ("2024-07-01", "Actually, I moved to Braga in May 2024."))
    assert value(memory, "home", "2024-08-01") == ["Braga"]
