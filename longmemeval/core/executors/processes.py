"""Worker processes on this machine. They leave interrupts to the process that started them, and end with it."""

import os
import signal
import sys
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from multiprocessing import Pipe, resource_tracker
from multiprocessing.connection import Connection
from threading import Thread
from typing import TYPE_CHECKING, TypeVar

from longmemeval.core.executors.finished import as_finished
from longmemeval.core.executors.protocol import Done, Task
from longmemeval.errors import HarnessError

if TYPE_CHECKING:
    from loky import ProcessPoolExecutor

T = TypeVar("T")
R = TypeVar("R")


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
                "A worker process died (perhaps out of memory)",
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
