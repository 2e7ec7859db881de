"""Deleting and reading after writing: what passes, what cannot, and what fails in one way each."""

import json
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from longmemeval.benchmarks.lives.making import LivesDataset, write_lives
from longmemeval.measures.notation import Mean
from longmemeval.memory.external.serve import MemoryServer, Session
from longmemeval.memory.external.transports.service import MemoryService
from longmemeval.memory.external.transports.transport import InProcess
from longmemeval.pipeline.probe.lifecycle import Lifecycle, WritableMemory, lifecycle
from longmemeval.pipeline.probe.probe import Forgets, Keeps, lifecycle_of_control
from longmemeval.report.tables.probe import until_found


class Amnesiac(Forgets):
    """Deletes everything, whatever it is told to."""

    def delete(self, subject: str) -> None:
        self.kept = []


class Undone(Forgets):
    """Has it all again when it was loaded."""

    def __init__(self) -> None:
        super().__init__()
        self.all: list[dict[str, Any]] = []

    def add(self, session: Session) -> None:
        super().add(session)
        self.all += self.kept[-len(session.messages) :]

    def save(self, folder: Path) -> None:
        self.kept = self.all
        super().save(folder)


class Reminded(Forgets):
    """Has what it deleted again as soon as the subject comes up."""

    def __init__(self) -> None:
        super().__init__()
        self.gone: list[dict[str, Any]] = []

    def add(self, session: Session) -> None:
        super().add(session)
        self.kept += [hit for hit in self.gone if any("squeaks" in said.content for said in session.messages)]

    def delete(self, subject: str) -> None:
        before = self.kept
        super().delete(subject)
        self.gone += [hit for hit in before if hit not in self.kept]

    def save(self, folder: Path) -> None:
        super().save(folder)
        (folder / "gone.json").write_text(json.dumps(self.gone))

    def load(self, folder: Path) -> None:
        super().load(folder)
        self.gone = json.loads((folder / "gone.json").read_text())


class Retold(Forgets):
    """Deletes a message, and keeps what it made of it under other words."""

    def add(self, session: Session) -> None:
        super().add(session)
        noted = [said.content.split()[-1] for said in session.messages if "bicycle lock" in said.content]
        self.kept += [{"text": f"The code is {word}"} for word in noted]


class Late(Forgets):
    """Reads what it was given when the next three messages have come."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting: list[dict[str, Any]] = []

    def add(self, session: Session) -> None:
        self.waiting += [{"text": said.content, "message_ids": [said.id]} for said in session.messages]
        self.kept, self.waiting = [*self.kept, *self.waiting[:-3]], self.waiting[-3:]


class Eventual(Forgets):
    """Is not ready at first, and shows what is new at the second look after it said that it is."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = self.looks = 0

    def add(self, session: Session) -> None:
        super().add(session)
        self.asked = self.looks = 0

    def ready(self) -> bool:
        self.asked += 1
        return self.asked > 2

    def search(self, query: str, *, date: datetime, limit: int) -> list[dict[str, Any]]:
        self.looks += self.asked > 2
        return super().search(query, date=date, limit=limit) if self.looks > 1 else []


class NoDelete:
    """Only adds and searches, and keeps nothing."""

    def __init__(self) -> None:
        self._real = Forgets()
        self.add, self.search = self._real.add, self._real.search


class Broken(Forgets):
    """Fails at deleting."""

    def delete(self, subject: str) -> None:
        raise RuntimeError("the index is locked")


@pytest.fixture(scope="module")
def lives(tmp_path_factory: pytest.TempPathFactory) -> LivesDataset:
    return LivesDataset(write_lives(tmp_path_factory.mktemp("lives") / "lives.json", 3, 3, (12,)))


@pytest.fixture
def tried(lives: LivesDataset) -> Callable[[type], Lifecycle]:
    def trial(memory: type) -> Lifecycle:
        service = MemoryService(lambda on_progress: InProcess(MemoryServer(memory, memory.__name__)))
        return lifecycle(WritableMemory(service), lives.lives_of(12))

    return trial


def _counted(share: Mean | None) -> tuple[int, int]:
    """Passed, of how many."""
    assert share is not None
    assert share.mean is not None
    return round(share.mean * share.n), share.n


@pytest.mark.slow
def test_controls_are_what_they_must_be(lives: LivesDataset) -> None:
    floor, ceiling = (lifecycle_of_control(one, lives.lives_of(12)) for one in ("floor", "ceiling"))
    assert (_counted(floor.deletion), _counted(floor.read_after_write)) == ((0, 6), (0, 9))
    assert (_counted(ceiling.deletion), _counted(ceiling.read_after_write)) == ((6, 6), (9, 9))
    assert until_found(floor) == "never"
    assert until_found(ceiling).endswith("ms")


@pytest.mark.slow
@pytest.mark.parametrize("memory", [Keeps, Amnesiac, Undone, Reminded, Broken])
def test_what_does_not_delete_for_good_and_alone_is_not_passed(
    memory: type, tried: Callable[[type], Lifecycle]
) -> None:
    assert _counted(tried(memory).deletion) == (0, 6)


@pytest.mark.slow
def test_what_comes_back_in_other_words_fails_where_it_does(tried: Callable[[type], Lifecycle]) -> None:
    """The bicycle lock is deleted in two lives of three, and its code is shown again."""
    assert _counted(tried(Retold).deletion) == (4, 6)


def test_a_failure_is_told(tried: Callable[[type], Lifecycle]) -> None:
    assert "the index is locked" in tried(Broken).notes[0]


@pytest.mark.slow
def test_late_is_measured_in_messages(tried: Callable[[type], Lifecycle]) -> None:
    late = tried(Late)
    assert _counted(late.read_after_write)[0] < 9
    assert late.further_messages is None or late.further_messages > 0
    assert late.found_after_ms is None or late.found_after_ms > 0


@pytest.mark.slow
def test_what_becomes_ready_by_itself_needs_no_message(tried: Callable[[type], Lifecycle]) -> None:
    eventual = tried(Eventual)
    assert _counted(eventual.read_after_write) == (9, 9)
    assert eventual.further_messages == 0
    assert eventual.found_after_ms


def test_without_delete_it_is_unknown_and_never_passed(tried: Callable[[type], Lifecycle]) -> None:
    one = tried(NoDelete)
    assert one.deletion is None
    assert _counted(one.read_after_write) == (9, 9)
