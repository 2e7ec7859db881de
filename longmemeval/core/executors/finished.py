"""Results as they finish, from whatever hands out futures."""

from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import TypeVar

from longmemeval.core.executors.protocol import Done, Task
from longmemeval.errors import StoreDownError

T = TypeVar("T")
R = TypeVar("R")

ROOM_BYTES = 256 * 2**20
"""Bytes of tasks that may be with the workers, whatever their number; a larger task goes alone."""
AHEAD = 64
"""Tasks per worker that may be with them."""


def as_finished(
    submit: Callable[[Task[T, R]], "Future[Done[R]]"], tasks: Iterable[Task[T, R]], workers: int
) -> Generator[Done[R], None, None]:
    """Hand over `tasks` as there is room, and yield what comes of them: all that `Executor.map` promises.

    Args:
        submit: begins a task, now or later.
        tasks: made one by one, when there is room.
        workers: how many tasks run at a time.

    Raises:
        Exception: what `tasks` raised, a task raised or was thrown in, after what had begun was finished; where a
            store is down, at once, for what is under way could not be kept.
    """
    under_way: dict[Future[Done[R]], int] = {}
    done: SimpleQueue[Future[Done[R]]] = SimpleQueue()

    def is_full(size: int) -> bool:
        return len(under_way) >= workers * AHEAD or sum(under_way.values()) + size > ROOM_BYTES

    def take() -> "Future[Done[R]]":
        future = done.get()
        while future not in under_way:  # It was cancelled.
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
