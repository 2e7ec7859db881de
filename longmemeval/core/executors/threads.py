"""Executors within this process: serial, and threads."""

from collections.abc import Generator, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

import msgspec
from msgspec import Struct

from longmemeval.core.executors.finished import as_finished
from longmemeval.core.executors.protocol import Done, Task

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
