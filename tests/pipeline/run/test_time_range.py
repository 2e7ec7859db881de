"""Time ranges from prepare to the ranking and the notes."""

import json
from datetime import datetime
from pathlib import Path

import pytest

from longmemeval.benchmarks.registry import load_dataset
from longmemeval.core.event_loop import complete
from longmemeval.memory.configuration import build_memory, resolve_configuration
from longmemeval.memory.protocol import MemorySystem, MemoryTools, RankingMemory
from longmemeval.pipeline.prepare.access import PreparedFixtures
from longmemeval.pipeline.prepare.prepare import prepare
from longmemeval.pipeline.prepare.query_vectors import QueryVectors
from longmemeval.records import Question
from longmemeval.settings import Folders
from longmemeval.storage.fixture import Fixture
from tests.support import record, write_dataset

DATES = ["2023/03/02 (Thu) 10:00", "2023/04/14 (Fri) 10:00", "2023/05/27 (Sat) 10:00"]
SESSIONS = [
    [{"role": "user", "content": "I went to a concert with Ada."}],
    [{"role": "user", "content": "I went to a concert alone."}],
    [{"role": "user", "content": "On March 5 I had been to another concert, by the way."}],
]
ASKED = datetime(2023, 5, 30, 12)


@pytest.fixture
def opened(tmp_path: Path) -> tuple[Fixture, MemorySystem, MemorySystem]:
    data = record(
        haystack_dates=DATES,
        haystack_session_ids=["march", "april", "may"],
        haystack_sessions=SESSIONS,
        answer_session_ids=["april"],
    )
    dataset = load_dataset(write_dataset(tmp_path / "small.json", data))
    folders = Folders(prepared_dir=tmp_path / "prepared")
    boost, keep = (
        resolve_configuration("bm25", [f"time_range={mode}", "last_messages=0", "message_range=0"])
        for mode in ("boost", "filter")
    )
    prepare(dataset, [boost], folders=folders)
    fixture = PreparedFixtures(dataset, "default", folders, boost).open("q1")
    tools = MemoryTools(QueryVectors([], None))
    return fixture, build_memory(boost, tools), build_memory(keep, tools)


def ranked(memory: MemorySystem, fixture: Fixture, text: str) -> list[str]:
    assert isinstance(memory, RankingMemory)
    return [unit.unit_id for unit in memory.rank(Question("q1", text, ASKED, "", "q1"), fixture)]


def test_units_of_the_named_time_come_first_or_alone(opened: tuple[Fixture, MemorySystem, MemorySystem]) -> None:
    fixture, boost, keep = opened
    assert ranked(boost, fixture, "Which concert did I go to in April?")[0] == "april:0"
    assert len(ranked(boost, fixture, "Which concert did I go to in April?")) == 3
    assert ranked(keep, fixture, "Which concert did I go to in April?") == ["april:0"]


def test_a_mentioned_day_counts_like_the_day_of_the_session(opened: tuple[Fixture, MemorySystem, MemorySystem]) -> None:
    fixture, _, keep = opened
    assert set(ranked(keep, fixture, "Which concert did I go to in March?")) == {"march:0", "may:0"}


def test_a_range_that_holds_nothing_changes_nothing(opened: tuple[Fixture, MemorySystem, MemorySystem]) -> None:
    fixture, _, keep = opened
    assert len(ranked(keep, fixture, "Which concert did I go to in January 2021?")) == 3


def test_what_cannot_be_resolved_is_noted(opened: tuple[Fixture, MemorySystem, MemorySystem]) -> None:
    fixture, boost, _ = opened
    asked = Question("q1", "Did I hear more concerts last March or in April?", ASKED, "", "q1")
    (note,) = complete(boost.recall(asked, fixture)).notes
    assert "more than one time" in note
    assert complete(boost.recall(Question("q1", "Which concert?", ASKED, "", "q1"), fixture)).notes == ()


def test_the_days_are_kept_in_the_fixture(opened: tuple[Fixture, MemorySystem, MemorySystem]) -> None:
    fixture, _, _ = opened
    part = json.loads(fixture.read_part("dates"))
    assert part["items"] == [
        {"id": "may:0", "dates": [{"phrase": "On March 5", "start": "2023-03-05", "end": "2023-03-05"}]}
    ]
