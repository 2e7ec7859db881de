"""Executors on this machine: serial, threads and processes, and which of them pays off."""

import os
import signal
import sys
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from itertools import accumulate
from multiprocessing import Pipe, resource_tracker
from multiprocessing.connection import Connection
from threading import Thread
from typing import TYPE_CHECKING, Annotated, TypeVar

import msgspec
from msgspec import Struct

from longmemeval.core.executors.finished import as_finished
from longmemeval.core.executors.protocol import Done, Task
from longmemeval.core.options import LIMITS, Flag
from longmemeval.errors import HarnessError

if TYPE_CHECKING:
    from loky import ProcessPoolExecutor


# Executors within this process: serial, and threads.

T = TypeVar("T")
R = TypeVar("R")


class SerialExecutor:
    """Runs each task when it is submitted."""

    def map(self, tasks: Iterable[Task[T, R]], workers: int | None) -> Generator[Done[R], None, None]:
        """Run the tasks; see `Executor.map`."""
        for task in tasks:
            yield task()


class Threads:
    """Threads, for tasks that wait for servers or where processes cannot be started."""

    def map(self, tasks: Iterable[Task[T, R]], workers: int | None) -> Generator[Done[R], None, None]:
        """Run the tasks; see `Executor.map`."""
        from loky import cpu_count

        make_ready()
        count = workers or cpu_count()
        pool = ThreadPoolExecutor(count)
        try:
            yield from as_finished(pool.submit, tasks, count)
        except BaseException:
            # Running tasks cannot be stopped; do not wait for them.
            pool.shutdown(wait=False, cancel_futures=True)
            raise
        pool.shutdown()


def make_ready() -> None:
    """Have msgspec read the fields of every record class that is loaded.

    msgspec does so when a class is decoded for the first time, and a process in which two threads do that at once
    crashes (msgspec 0.22).
    """
    waiting: list[type[Struct]] = [Struct]
    while waiting:
        record_class = waiting.pop()
        waiting += record_class.__subclasses__()
        # Some classes are never decoded and have fields that cannot be: arrays, errors, names used only for types.
        with suppress(TypeError, NameError):
            msgspec.json.Decoder(record_class)


# Worker processes on this machine. They leave interrupts to the process that started them, and end with it.


class Processes:
    """Processes: one task each, on all cores."""

    def map(self, tasks: Iterable[Task[T, R]], workers: int | None) -> Generator[Done[R], None, None]:
        """Run the tasks; see `Executor.map`.

        Raises:
            HarnessError: a worker died.
        """
        from loky import ProcessPoolExecutor, cpu_count

        count = workers or cpu_count()
        # Only this process holds this end of the pipe: however it ends, the workers read the end of the stream.
        workers_end, our_end = Pipe(duplex=False)
        with _interrupts_held():
            pool = ProcessPoolExecutor(count, initializer=_follow, initargs=(workers_end,))

        def submit(task: Task[T, R]) -> "Future[Done[R]]":
            with _interrupts_held():
                future: Future[Done[R]] = pool.submit(task)
                return future

        try:
            yield from as_finished(submit, tasks, count)
        except BrokenProcessPool as error:
            _kill(pool)
            raise HarnessError(
                "A worker process crashed (perhaps out of memory)",
                fix="Rerun the command with fewer --jobs; finished work is kept",
            ) from error
        except BaseException:
            _kill(pool)
            raise
        else:
            pool.shutdown()
        finally:
            our_end.close()
            workers_end.close()


def _follow(parent: Connection) -> None:
    """Leave interrupts to the process that holds the other end of `parent`, and end with it.

    Otherwise an orphan could write alongside a new command.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for number in (signal.SIGTERM, signal.SIGHUP):
        # A handler, rather than ignoring the signal: processes that a worker starts get the default again.
        signal.signal(number, lambda number, frame: None)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM, signal.SIGHUP})

    def watch() -> None:
        with suppress(EOFError, OSError):
            parent.recv_bytes()
        os._exit(1)

    Thread(target=watch, daemon=True).start()


def _kill(pool: "ProcessPoolExecutor") -> None:
    """End all work at once."""
    # The pool's own `kill_workers` fails on tasks that no worker has started.
    for worker in list(pool._processes):
        with suppress(ProcessLookupError):
            os.kill(worker, signal.SIGKILL)
    pool.shutdown()


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Start workers with interrupts blocked: Ctrl-C is for this process, and they end with it.

    The tracker that cleans up after a killed process starts along with them, without a warning.
    """
    quiet = "ignore:resource_tracker"
    sys.warnoptions.append(quiet)
    # Python 3.11 and 3.12 unblock interrupts when they start their tracker, so it is started first.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM, signal.SIGHUP})
    try:
        yield
    finally:
        sys.warnoptions.remove(quiet)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


# Decide whether worker processes pay off if the user asked for neither an executor nor a number of workers.

MADE_BYTES = 4 * 2**20
"""Bytes of texts and vectors from which workers that make parts pay off: starting workers takes a second, and so does
making 1 to 4 MB."""
RANKED_BYTES = 128 * 2**20
"""Bytes of parts from which workers that rank pay off: opening and ranking 100 MB takes a second."""

_PARALLEL_FROM = 64
"""Below this number of haystacks, starting worker processes takes longer than the work."""


def runs_serially(
    name: str | None, jobs: int | None, haystacks: int, sizes: Iterable[int] = (), enough: int = 0
) -> bool:
    """Return whether to work in this process: the user did not ask for workers and they would not pay off.

    Args:
        name: executor that the user asked for, if any.
        jobs: number of workers that the user asked for, if any.
        haystacks: number of haystacks to process.
        sizes: bytes of each haystack; read only until the answer is clear, and only if the user asked for nothing.
        enough: the bytes from which workers pay off; 0: any number.
    """
    if name is not None or jobs is not None:
        return name is None and jobs == 1
    return haystacks < _PARALLEL_FROM or all(size < enough for size in accumulate(sizes, initial=0))


def peek_sizes(
    tasks: Iterator[Task[T, R]], name: str | None, jobs: int | None, haystacks: int, enough: int
) -> tuple[Iterator[Task[T, R]], bool]:
    """Take tasks until the answer of `runs_serially` is clear; each task is made when it is taken.

    Returns:
        All tasks, with an error that ended them early in its place, and whether to work in this process.
    """
    taken: list[Task[T, R]] = []

    def sizes() -> Iterator[int]:
        for task in tasks:
            taken.append(task)
            yield task.size

    try:
        alone = runs_serially(name, jobs, haystacks, sizes(), enough)
    except HarnessError as error:
        return _then(taken, _raising(error)), True
    return _then(taken, tasks), alone


def _then(taken: list[Task[T, R]], rest: Iterator[Task[T, R]]) -> Iterator[Task[T, R]]:
    """Yield the tasks taken so far, without keeping them, then the rest."""
    taken.reverse()
    while taken:
        yield taken.pop()
    yield from rest


def _raising(error: HarnessError) -> Generator[Task[T, R], None, None]:
    raise error
    yield


# Options of workers.

Jobs = Annotated[int | None, Flag(LIMITS, "N", "Number of workers [default: one per core when it pays].", minimum=1)]
ExecutorName = Annotated[
    str | None,
    Flag(
        metavar="NAME",
        name="--executor",
        help="Executor of the workers: processes, threads, dask or ray [default: processes when it pays].",
    ),
]
