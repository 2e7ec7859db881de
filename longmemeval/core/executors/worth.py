"""Find out whether worker processes pay off, by taking tasks until there are enough."""

from collections.abc import Generator, Iterator
from typing import TypeVar

from longmemeval.core.executors.protocol import Task
from longmemeval.errors import HarnessError

T = TypeVar("T")
R = TypeVar("R")

WORTH_BYTES = 4 * 2**20
"""Texts and vectors from which worker processes pay off: they take a second to start, and so does making 1 to 4 MB."""


def begun(tasks: Iterator[Task[T, R]]) -> tuple[Iterator[Task[T, R]], bool]:
    """Take tasks until it is clear whether worker processes pay off.

    Args:
        tasks: all of them; each is made when it is taken.

    Returns:
        All of them, with an error that ended them early at its place, and whether they pay off.
    """
    taken: list[Task[T, R]] = []
    size = 0
    try:
        while size < WORTH_BYTES:
            taken.append(next(tasks))
            size += taken[-1].size
    except StopIteration:
        return iter(taken), False
    except HarnessError as error:
        return _then(taken, _raising(error)), False
    return _then(taken, tasks), True


def _then(taken: list[Task[T, R]], rest: Iterator[Task[T, R]]) -> Iterator[Task[T, R]]:
    """Yield the tasks that were taken, which are not kept, then the rest."""
    taken.reverse()
    while taken:
        yield taken.pop()
    yield from rest


def _raising(error: HarnessError) -> Generator[Task[T, R], None, None]:
    raise error
    yield
