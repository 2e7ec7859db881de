"""Workers that make fixtures while the next ones are being embedded."""

import os
import signal
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Literal

from longmemeval.errors import HarnessError
from longmemeval.pipeline.build import Failure, FixtureTask, PrepareRecord, attempt_fixture, follow

if TYPE_CHECKING:
    from joblib.externals.loky import ProcessPoolExecutor

Backend = Literal["loky", "threading"]
Outcome = PrepareRecord | Failure

ROOM_BYTES = 256 * 2**20
"""Bytes of texts and vectors that may be with the workers, whatever their number; a larger task goes alone."""


class Pool:
    """Makes fixtures from tasks, in any order.

    Args:
        jobs: workers; 1: none, a task is done when it is submitted.
        backend: processes or threads.
    """

    def __init__(self, jobs: int, backend: Backend) -> None:
        self._jobs = jobs
        self._backend = backend
        self._executor: ThreadPoolExecutor | ProcessPoolExecutor | None = None
        self._under_way: dict[Future[Outcome], FixtureTask] = {}
        self._done: SimpleQueue[Future[Outcome]] = SimpleQueue()
        self._bytes = 0

    def submit(self, task: FixtureTask) -> Iterator[Outcome]:
        """Hand `task` over when there is room for it.

        Yields:
            What came of earlier tasks meanwhile; the task is handed over once that is read to its end.

        Raises:
            HarnessError: a worker process died.
        """
        if self._jobs == 1:
            yield attempt_fixture(task)
            return
        yield from self.finished()
        while self._under_way and self._bytes + task.size > ROOM_BYTES:
            yield self._take(self._done.get())
        with _interrupts_held():
            future = self._started().submit(attempt_fixture, task)
            self._under_way[future] = task
        self._bytes += task.size
        future.add_done_callback(self._done.put)

    def finished(self) -> Iterator[Outcome]:
        """What came of the tasks that are done by now."""
        while True:
            try:
                future = self._done.get_nowait()
            except Empty:
                return
            yield self._take(future)

    def rest(self, *, begun_only: bool = False) -> Iterator[Outcome]:
        """Wait for all tasks.

        Args:
            begun_only: forget those that no worker has begun.
        """
        if begun_only:
            for future in [future for future in self._under_way if future.cancel()]:
                del self._under_way[future]
        while self._under_way:
            future = self._done.get()
            if not future.cancelled():
                yield self._take(future)

    def close(self) -> None:
        """Let the workers go."""
        if self._executor:
            self._executor.shutdown()

    def kill(self) -> list[Path]:
        """End all work at once.

        Returns:
            The fixtures that were being made.
        """
        if isinstance(self._executor, ThreadPoolExecutor):
            self._executor.shutdown(wait=False, cancel_futures=True)
        elif self._executor:
            # Not by the executor's own `kill_workers`, which trips over tasks that no worker has begun.
            for worker in list(self._executor._processes):
                with suppress(ProcessLookupError):
                    os.kill(worker, signal.SIGKILL)
            self._executor.shutdown()
        self._executor = None
        return [task.folder for task in self._under_way.values()]

    def _started(self) -> "ThreadPoolExecutor | ProcessPoolExecutor":
        if self._executor is None:
            if self._backend == "threading":
                self._executor = ThreadPoolExecutor(self._jobs)
            else:
                from joblib.externals.loky import ProcessPoolExecutor

                # Tasks go through pipes: joblib's own way of calling it would keep all vectors in shared memory.
                self._executor = ProcessPoolExecutor(self._jobs, initializer=follow, initargs=(os.getpid(),))
        return self._executor

    def _take(self, future: "Future[Outcome]") -> Outcome:
        self._bytes -= self._under_way.pop(future).size
        try:
            return future.result()
        except BrokenProcessPool as error:
            raise HarnessError(
                "A worker process died (out of memory, perhaps)",
                fix="Give the same command again with fewer --jobs: what was finished is kept",
            ) from error


@contextmanager
def _interrupts_held() -> Iterator[None]:
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
