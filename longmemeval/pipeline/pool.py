"""Workers that make fixtures while the next ones are being embedded."""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Literal

from longmemeval.pipeline.build import Failure, FixtureTask, PrepareRecord, attempt_fixture
from longmemeval.pipeline.processes import interrupts_held, kill_workers, process_pool, worker_died

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
        self._alone: FixtureTask | None = None

    def submit(self, task: FixtureTask) -> Iterator[Outcome]:
        """Hand `task` over when there is room for it.

        Yields:
            What came of earlier tasks meanwhile; the task is handed over once that is read to its end.

        Raises:
            HarnessError: a worker process died.
        """
        if self._jobs == 1:
            self._alone = task
            yield attempt_fixture(task)
            return
        yield from self.finished()
        while self._under_way and self._bytes + task.size > ROOM_BYTES:
            yield self._take(self._done.get())
        with interrupts_held():
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
            kill_workers(self._executor)
        self._executor = None
        return [task.folder for task in (self._alone, *self._under_way.values()) if task]

    def _started(self) -> "ThreadPoolExecutor | ProcessPoolExecutor":
        if self._executor is None:
            if self._backend == "threading":
                self._executor = ThreadPoolExecutor(self._jobs)
            else:
                self._executor = process_pool(self._jobs)
        return self._executor

    def _take(self, future: "Future[Outcome]") -> Outcome:
        self._bytes -= self._under_way.pop(future).size
        try:
            return future.result()
        except BrokenProcessPool as error:
            raise worker_died() from error
