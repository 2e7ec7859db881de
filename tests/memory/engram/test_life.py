"""A scripted life: at least sixty questions on both axes of time, answered from the facts alone."""

from datetime import datetime, time
from pathlib import Path
from typing import NamedTuple

import pytest

from longmemeval.memory.engram import Engram
from longmemeval.records import Session, Turn

LINES = (Path(__file__).parent / "life.txt").read_text().splitlines()


class Asked(NamedTuple):
    subject: str
    predicate: str
    as_of: datetime
    believed_at: datetime | None
    values: frozenset[str]


def lived(engine: Engram) -> Engram:
    date = learned = datetime(1970, 1, 1)
    for line in LINES:
        sign, _, rest = line.partition(" ")
        if sign == "S":
            first, _, late = rest.partition(" learned ")
            date = datetime.fromisoformat(first).replace(hour=10)
            learned = datetime.fromisoformat(late or first).replace(hour=10)
        elif sign == ">":
            engine.add(Session(f"{date:%Y-%m-%d}", date, "", (Turn("user", rest),)), learned_at=learned)
    return engine


def moment(text: str) -> datetime:
    """A day without an hour is meant until its end."""
    found = datetime.fromisoformat(text)
    return datetime.combine(found, time(23, 59)) if len(text) == 10 else found


def questions() -> list[Asked]:
    asked = []
    for line in LINES:
        if line.startswith("Q "):
            what, as_of, believed_at, values = (part.strip() for part in line[2:].split("|"))
            subject, colon, predicate = what.partition(": ")
            asked.append(
                Asked(
                    subject if colon else "user",
                    predicate if colon else what,
                    moment(as_of),
                    None if believed_at == "-" else moment(believed_at),
                    frozenset() if values == "-" else frozenset(values.split(";")),
                )
            )
    return asked


@pytest.fixture(scope="module")
def engines(tmp_path_factory: pytest.TempPathFactory) -> tuple[Engram, Engram]:
    """As it was lived, and as it was stored and read again."""
    engine = lived(Engram())
    path = tmp_path_factory.mktemp("life") / "life.json"
    path.write_bytes(engine.persist())
    return engine, Engram(path)


def test_there_are_sixty_questions() -> None:
    assert len(questions()) >= 60
    assert sum(one.believed_at is not None for one in questions()) >= 15


@pytest.mark.slow
@pytest.mark.parametrize("asked", questions(), ids=lambda one: f"{one.predicate}-{one.as_of:%Y%m%d}")
def test_it_is_answered_from_the_facts(asked: Asked, engines: tuple[Engram, Engram]) -> None:
    for engine in engines:
        found = engine.facts(asked.subject, asked.predicate, as_of=asked.as_of, believed_at=asked.believed_at)
        assert {fact.object for fact in found} == asked.values


def test_the_contradiction_nobody_can_settle_is_marked(engines: tuple[Engram, Engram]) -> None:
    found = engines[0].facts("user", "favourite:colour", as_of=datetime(2024, 4, 1))
    assert {fact.object: fact.disputed for fact in found} == {"green": False, "blue": True}


def test_an_elaboration_supersedes_nothing(engines: tuple[Engram, Engram]) -> None:
    (york,) = [fact for fact in engines[0].timeline("user", "home") if "York" in fact.object]
    assert len(york.episode_ids) == 2
    assert york.invalid_at == datetime(2024, 1, 1)
