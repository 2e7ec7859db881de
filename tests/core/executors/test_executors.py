"""Tasks run by every executor: all results, the first error after what had begun, and work that is bounded or ended."""

import os
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest

from longmemeval.core.executors import finished
from longmemeval.core.executors.finished import as_finished
from longmemeval.core.executors.protocol import Done, Executor, Task
from longmemeval.core.executors.registry import EXECUTORS, by_number, run_tasks
from longmemeval.errors import EndpointDownError, HarnessError

Numbers = Iterable[Task[int, int]]


class Eager:
    """The plainest one that could be registered."""

    def map(self, tasks: Numbers, workers: int | None) -> list[Done[int]]:
        return [task() for task in tasks]


class Pool:
    """One over the pools of the standard library."""

    def map(self, tasks: Numbers, workers: int | None) -> Iterator[Done[int]]:
        with ThreadPoolExecutor(workers) as pool:
            yield from as_finished(pool.submit, tasks, workers or 2)


class Failing:
    def map(self, tasks: Numbers, workers: int | None) -> Iterator[Done[int]]:
        yield next(iter(tasks))()
        raise ConnectionError("the scheduler is gone")


PROCESSES = pytest.param("processes", marks=pytest.mark.slow)
NAMES = [PROCESSES, "threads", f"{__name__}:Eager", f"{__name__}:Pool"]


def square(number: int) -> int:
    if number < 0:
        raise EndpointDownError("nobody answers", where=f"number {number}", fix="Wait")
    return number * number


def tasks(*numbers: int, work: Callable[[int], int] = square, size: int = 1) -> Iterator[Task[int, int]]:
    return (Task(key, work, number, size) for key, number in enumerate(numbers))


def run(made: Iterable[Task[int, int]], name: str | None) -> Generator[tuple[object, int], None, None]:
    return run_tasks(made, 9, name=name, jobs=2 if name else 1)


@pytest.mark.parametrize("name", [None, *NAMES])
def test_every_task_is_done_once(name: str | None) -> None:
    assert dict(run(tasks(3, 1, 2, 5), name)) == {0: 9, 1: 1, 2: 4, 3: 25}
    assert list(by_number(run(tasks(*range(9)), name))) == [number * number for number in range(9)]
    assert list(run(tasks(), name)) == []


@pytest.mark.parametrize("name", [None, *NAMES])
def test_an_error_of_a_task_is_raised_whole(name: str | None) -> None:
    got: list[int] = []
    with pytest.raises(EndpointDownError) as caught:
        got.extend(result for _, result in run(tasks(3, -1), name))
    assert str(caught.value) == "nobody answers (number -1). Wait."
    assert set(got) <= {9}


@pytest.mark.parametrize("name", [PROCESSES, "threads", f"{__name__}:Pool"])
def test_what_has_begun_is_finished_before_an_error_is_raised(name: str, tmp_path: Path) -> None:
    """Of the one task beside the one that fails, and of the one before the tasks that cannot be made."""
    beside = Task(0, wait_and_count, tmp_path, 1)
    failing = Task(1, fail_beside, tmp_path, 1)
    later = [Task(number, wait_and_count, tmp_path, 1) for number in range(2, 50)]
    got: list[object] = []
    with pytest.raises(HarnessError, match="failed beside"):
        got.extend(key for key, _ in run_tasks([beside, failing, *later], 50, name=name, jobs=2))
    assert 0 in got
    # One or two more may have begun meanwhile.
    assert len(got) == len(list(tmp_path.glob("begun-*"))) < 20


def test_what_has_begun_is_finished_when_the_next_task_cannot_be_made() -> None:
    def broken() -> Iterator[Task[int, int]]:
        yield from tasks(2, 3, work=slowly)
        raise HarnessError("the data ends here")

    got: list[int] = []
    with pytest.raises(HarnessError, match="the data ends here"):
        got.extend(result for _, result in run(broken(), "threads"))
    assert sorted(got) == [4, 9]


def slowly(number: int) -> int:
    time.sleep(0.1)
    return square(number)


def wait_and_count(folder: Path) -> int:
    (folder / f"begun-{os.urandom(8).hex()}").touch()
    while not (folder / "failing").exists():
        time.sleep(0.005)
    time.sleep(0.05)
    return 0


def fail_beside(folder: Path) -> int:
    while not list(folder.glob("begun-*")):
        time.sleep(0.005)
    (folder / "failing").touch()
    raise HarnessError("failed beside")


def test_tasks_with_the_workers_are_bounded_by_their_bytes_and_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finished, "ROOM_BYTES", 100)
    monkeypatch.setattr(finished, "AHEAD", 3)
    go, handed, got = Event(), list[int](), list[object]()
    sizes = [30, 30, 30, 30, 90, 500, *[1] * 20]

    def wait(number: int) -> int:
        assert go.wait(30)
        return number

    def made() -> Iterator[Task[int, int]]:
        for key, size in enumerate(sizes):
            handed.append(key)
            held = [other for other in handed if other not in got]
            # The last of them waits to be handed over.
            assert sum(sizes[other] for other in held[:-1]) <= max(100, *(sizes[other] for other in held[:-1] or [0]))
            assert len(held) <= 2 * 3 + 1
            if key == 3:
                assert got == []
                go.set()
            yield Task(key, wait, key, size)

    with ThreadPoolExecutor(2) as pool:
        got.extend(done.key for done in as_finished(pool.submit, made(), 2))
    assert sorted(map(str, got)) == sorted(map(str, range(len(sizes))))


@pytest.mark.slow
def test_workers_are_gone_when_nobody_wants_more(tmp_path: Path) -> None:
    """Closed in the middle: at once, not when the minute is over."""
    running = run_tasks((Task(key, sleep_there, tmp_path, 1) for key in range(4)), 4, name="processes", jobs=2)
    next(running)
    running.close()
    workers = [int(path.name) for path in tmp_path.iterdir()]
    assert workers
    assert not any(is_alive(worker) for worker in workers)


def sleep_there(folder: Path) -> int:
    first = not list(folder.iterdir())
    (folder / str(os.getpid())).touch()
    if not first:
        time.sleep(60)
    return 0


def is_alive(process: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False


def test_an_executor_that_fails_is_named() -> None:
    with pytest.raises(HarnessError, match=r"'.*:Failing' failed: ConnectionError: the scheduler is gone"):
        list(run(tasks(1, 2), f"{__name__}:Failing"))


def test_names_of_executors() -> None:
    assert isinstance(EXECUTORS.get("threads"), Executor)
    with pytest.raises(HarnessError, match=r"Unknown executor 'thread'. Did you mean 'threads'"):
        EXECUTORS.get("thread")
    with pytest.raises(HarnessError, match="is a function, not a Executor"):
        EXECUTORS.get(f"{__name__}:square")
