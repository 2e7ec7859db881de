"""Worker processes: how they are begun and ended, and work in them whose results come back in order."""

import os
import signal
import sys
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, TypeVar

from longmemeval.errors import HarnessError
from longmemeval.pipeline.build import Failure, follow

if TYPE_CHECKING:
    from joblib.externals.loky import ProcessPoolExecutor

T = TypeVar("T")
R = TypeVar("R")

_PARALLEL_FROM = 64
_AHEAD = 2
"""Tasks per worker that are made before the oldest is done."""


def processes_for(jobs: int | None, haystacks: int) -> int:
    """How many processes to use: as many as asked for; None: one per core when that pays, else one.

    Below some number of haystacks, starting worker processes takes longer than the work.
    """
    if jobs is None and haystacks >= _PARALLEL_FROM:
        from joblib import cpu_count

        return cpu_count()
    return jobs or 1


def process_pool(jobs: int) -> "ProcessPoolExecutor":
    """Worker processes that leave interrupts to this process and end with it; begun with `interrupts_held`."""
    from joblib.externals.loky import ProcessPoolExecutor

    # Tasks go through pipes: joblib's own way of calling it would keep all vectors in shared memory.
    return ProcessPoolExecutor(jobs, initializer=follow, initargs=(os.getpid(),))


def kill_workers(executor: "ProcessPoolExecutor") -> None:
    """End all work at once."""
    # Not by the executor's own `kill_workers`, which trips over tasks that no worker has begun.
    for worker in list(executor._processes):
        with suppress(ProcessLookupError):
            os.kill(worker, signal.SIGKILL)
    executor.shutdown()


def worker_died() -> HarnessError:
    """The error for a worker process that is gone."""
    return HarnessError(
        "A worker process died (out of memory, perhaps)",
        fix="Give the same command again with fewer --jobs: what was finished is kept",
    )


def in_processes(work: Callable[[T], R | Failure], tasks: Iterable[T], jobs: int) -> Generator[R, None, None]:
    """The results of `work` for each of `tasks`, in their order; no more tasks are made than keep the workers busy.

    Args:
        work: a function of a module; returns its error rather than raising it.
        tasks: small enough to be sent to a process.
        jobs: processes.

    Raises:
        HarnessError: a task failed, or a worker died.
    """
    executor = process_pool(jobs)
    under_way: deque[Future[R | Failure]] = deque()
    try:
        for task in tasks:
            with interrupts_held():
                under_way.append(executor.submit(work, task))
            if len(under_way) >= jobs * _AHEAD:
                yield _result(under_way.popleft())
        while under_way:
            yield _result(under_way.popleft())
    except BaseException:
        kill_workers(executor)
        raise
    executor.shutdown()


def _result(future: "Future[R | Failure]") -> R:
    try:
        outcome = future.result()
    except BrokenProcessPool as error:
        raise worker_died() from error
    if isinstance(outcome, Failure):
        raise outcome.error()
    return outcome


@contextmanager
def interrupts_held() -> Iterator[None]:
    """Workers are begun with interrupts blocked: Ctrl-C is for this process, and they end with it.

    The tracker that cleans up behind a process that was killed is begun along with them, and says nothing of it.
    """
    quiet = "ignore:resource_tracker"
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    sys.warnoptions.append(quiet)
    try:
        yield
    finally:
        sys.warnoptions.remove(quiet)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
