"""Workers that make and rank haystacks: processes only where they pay off, threads where a service is asked."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from longmemeval.benchmarks.registry import load_dataset
from longmemeval.core.executors import local as worth
from longmemeval.core.executors.local import Processes, SerialExecutor
from longmemeval.core.executors.protocol import Task
from longmemeval.errors import HarnessError
from longmemeval.memory.configuration import as_configuration, parts_of
from longmemeval.pipeline.options import PrepareOptions, RetrievalOptions
from longmemeval.pipeline.prepare import schedule, timing
from longmemeval.pipeline.prepare.prepare import prepare
from longmemeval.pipeline.retrieval import standard
from longmemeval.pipeline.retrieval.retrieve import retrieve
from longmemeval.results.selection import Selection
from longmemeval.storage.parts import Part, PartOutput
from tests.pipeline.helpers import folders_in
from tests.support import tree

ENOUGH = Selection(limit=64)
"""As many haystacks as worker processes were begun for by their number alone."""


class Waiting(Part[str]):
    """A part whose making is mostly waiting for a service that takes three histories at a time."""

    name = "waiting"
    directory = True

    def recipe(self, tools: object) -> dict[str, Any]:
        return {}

    def make(self, source: object, tools: object) -> PartOutput:
        raise NotImplementedError

    def open(self, stored: object) -> str:
        return ""

    def at_once(self, options: object) -> int:
        return 3


class Refused(Exception):
    """Worker processes were begun."""


@pytest.fixture
def no_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> Iterator[object]:
        raise Refused
        yield

    monkeypatch.setattr(Processes, "map", refuse)


def bm25() -> list[Part[Any]]:
    return list(parts_of(as_configuration("bm25")))


@pytest.mark.slow
@pytest.mark.usefixtures("no_processes")
def test_small_histories_are_made_in_this_process_however_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, folders = load_dataset("sample"), folders_in(tmp_path)
    foreseen = prepare(data, ["bm25"], selection=ENOUGH, options=PrepareOptions(dry_run=True), folders=folders).expected
    assert foreseen is not None
    assert foreseen.basis.startswith("1 worker;")
    assert prepare(data, ["bm25"], selection=ENOUGH, folders=folders).prepared == 64
    with pytest.raises(Refused):
        prepare(data, ["bm25"], selection=ENOUGH, options=PrepareOptions(jobs=2, force=True), folders=folders)
    monkeypatch.setattr(schedule, "MADE_BYTES", 100_000)
    with pytest.raises(Refused):
        prepare(data, ["bm25"], selection=ENOUGH, options=PrepareOptions(force=True), folders=folders)


@pytest.mark.slow
@pytest.mark.usefixtures("no_processes")
def test_small_histories_are_ranked_in_this_process_however_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, folders = load_dataset("sample"), folders_in(tmp_path)
    prepare(data, ["bm25"], selection=ENOUGH, folders=folders)
    assert retrieve(data, ["bm25"], selection=ENOUGH, folders=folders).runs[0].questions == 64
    with pytest.raises(Refused):
        retrieve(data, ["bm25"], selection=ENOUGH, options=RetrievalOptions(jobs=2), folders=folders)
    monkeypatch.setattr(standard, "RANKED_BYTES", 100_000)
    with pytest.raises(Refused):
        retrieve(data, ["bm25"], selection=ENOUGH, folders=folders)


@pytest.mark.slow
def test_what_was_taken_to_find_out_is_made_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # That worker processes give the same bytes is seen in tests/pipeline/test_workers.py.
    monkeypatch.setattr(Processes, "map", SerialExecutor.map)
    few, many = folders_in(tmp_path / "few"), folders_in(tmp_path / "many")
    prepare(load_dataset("sample"), ["hybrid"], selection=ENOUGH, folders=few)
    monkeypatch.setattr(schedule, "MADE_BYTES", 100_000)
    prepare(load_dataset("sample"), ["hybrid"], selection=ENOUGH, folders=many)
    made, again = (tree(folders.prepared_dir, without=("meta.json", "prepare.jsonl")) for folders in (few, many))
    assert made == again
    assert len(made) == 3 * 64


def test_a_service_gets_as_many_histories_as_it_takes_and_the_estimate_says_so() -> None:
    usual = PrepareOptions()
    assert timing.executor_of(usual, [*bm25(), Waiting()], 10) == ("threads", 3)
    assert timing.workers_of(usual, [*bm25(), Waiting()], 10, 0) == 3
    assert timing.workers_of(usual, [Waiting()], 2, 0) == 2
    assert timing.workers_of(usual.replaced(jobs=1), [Waiting()], 10, 0) == 1
    assert timing.workers_of(usual, bm25(), 10, 2**40) == 1
    assert timing.workers_of(usual, bm25(), 100, 2**40) > 1


def size(given: int) -> int:
    return given


def test_tasks_that_were_taken_come_first_and_an_error_at_its_place() -> None:
    def tasks(count: int, *, fails: bool = False) -> Iterator[Task[Any, Any]]:
        for number in range(count):
            yield Task(number, size, number, worth.MADE_BYTES // 4)
        if fails:
            raise HarnessError("the next haystack cannot be read")

    def taken(
        ready: Iterator[Task[Any, Any]], haystacks: int = 64, jobs: int | None = None
    ) -> tuple[Iterator[Any], bool]:
        return worth.peek_sizes(ready, None, jobs, haystacks, worth.MADE_BYTES)

    few, alone = taken(tasks(3))
    assert ([task.key for task in few], alone) == ([0, 1, 2], True)
    many, alone = taken(tasks(9))
    assert ([task.key for task in many], alone) == (list(range(9)), False)
    ended, alone = taken(tasks(2, fails=True))
    assert ([next(ended).key, next(ended).key], alone) == ([0, 1], True)
    with pytest.raises(HarnessError, match="cannot be read"):
        next(ended)
    # Where sizes decide nothing, no task is made before there is somebody to do it.
    for haystacks, jobs, expected in ((63, None, True), (64, 1, True), (64, 2, False)):
        untouched, alone = taken(tasks(0, fails=True), haystacks, jobs)
        assert alone == expected
        with pytest.raises(HarnessError, match="cannot be read"):
            next(untouched)
