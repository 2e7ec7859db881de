"""Results in order of completion, from anything that provides futures."""

from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import TypeVar

from longmemeval.core.executors.protocol import Done, Task
from longmemeval.errors import StoreDownError

T = TypeVar("T")
R = TypeVar("R")

ROOM_BYTES = 256 * 2**20
"""Maximum bytes of tasks that are queued or running, whatever the number of workers; a larger task runs alone."""
AHEAD = 64
"""Maximum number of tasks per worker that are queued or running."""


def as_finished(
    submit: Callable[[Task[T, R]], "Future[Done[R]]"], tasks: Iterable[Task[T, R]], workers: int
) -> Generator[Done[R], None, None]:
    """Submit `tasks` as capacity allows and yield their results: everything that `Executor.map` promises.

    Args:
        submit: starts a task, now or later.
        tasks: taken one by one, when there is capacity.
        workers: number of tasks run at a time.

    Raises:
        Exception: raised by `tasks` or a task, or thrown in, after the started tasks have finished; at once if a store
            is down, since the results of running tasks could not be kept.
    """
    under_way: dict[Future[Done[R]], int] = {}
    done: SimpleQueue[Future[Done[R]]] = SimpleQueue()

    def is_full(size: int) -> bool:
        return len(under_way) >= workers * AHEAD or sum(under_way.values()) + size > ROOM_BYTES

    def take() -> "Future[Done[R]]":
        future = done.get()
        while future not in under_way:  # The future was cancelled.
            future = done.get()
        del under_way[future]
        return future

    def cancel() -> None:
        for future in [future for future in under_way if future.cancel()]:
            del under_way[future]

    try:
        for task in tasks:
            while not done.empty() or (under_way and is_full(task.size)):
                yield take().result()
            future = submit(task)
            under_way[future] = task.size
            future.add_done_callback(done.put)
        while under_way:
            yield take().result()
    except StoreDownError:
        cancel()
        raise
    except Exception:
        cancel()
        while under_way:
            future = take()
            if future.exception() is None:
                yield future.result()
        raise
    except BaseException:
        cancel()
        raise
