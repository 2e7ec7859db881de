"""An executor: the tasks of `prepare` and `retrieval` in a pool of the standard library."""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from longmemeval.core.executors.finished import as_finished
from longmemeval.core.executors.protocol import Done, Task


class Pool:
    """Threads; a cluster's client that gives futures takes their place as it stands."""

    def map(self, tasks: Iterable[Task[Any, Any]], workers: int | None) -> Iterator[Done[Any]]:
        """Run `tasks`, `workers` at a time."""
        with ThreadPoolExecutor(workers) as pool:
            yield from as_finished(pool.submit, tasks, workers or 2)
