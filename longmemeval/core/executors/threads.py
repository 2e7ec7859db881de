"""Executors within this process: serial, and threads."""

from collections.abc import Generator, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from longmemeval.core.executors.finished import as_finished
from longmemeval.core.executors.protocol import Done, Task
from longmemeval.core.executors.record_classes import make_ready

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
        from joblib import cpu_count

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
