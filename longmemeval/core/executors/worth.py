"""Decide whether worker processes pay off if the user asked for neither an executor nor a number of workers."""

from collections.abc import Generator, Iterable, Iterator
from itertools import accumulate
from typing import TypeVar

from longmemeval.core.executors.protocol import Task
from longmemeval.errors import HarnessError

T = TypeVar("T")
R = TypeVar("R")

MADE_BYTES = 4 * 2**20
"""Bytes of texts and vectors from which workers that make parts pay off: starting workers takes a second, and so does
making 1 to 4 MB."""
RANKED_BYTES = 128 * 2**20
"""Bytes of parts from which workers that rank pay off: opening and ranking 100 MB takes a second."""

_PARALLEL_FROM = 64
"""Below this number of haystacks, starting worker processes takes longer than the work."""


def is_alone(name: str | None, jobs: int | None, haystacks: int, sizes: Iterable[int] = (), enough: int = 0) -> bool:
    """Return whether to work in this process: the user did not ask for workers and they would not pay off.

    Args:
        name: executor that the user asked for, if any.
        jobs: number of workers that the user asked for, if any.
        haystacks: number of haystacks to process.
        sizes: bytes of each haystack; read only until the answer is clear, and only if the user asked for nothing.
        enough: the bytes from which workers pay off; 0: any number.
    """
    if name is not None or jobs is not None:
        return name is None and jobs == 1
    return haystacks < _PARALLEL_FROM or all(size < enough for size in accumulate(sizes, initial=0))


def take_until_clear(
    tasks: Iterator[Task[T, R]], name: str | None, jobs: int | None, haystacks: int, enough: int
) -> tuple[Iterator[Task[T, R]], bool]:
    """Take tasks until the answer of `is_alone` is clear; each task is made when it is taken.

    Returns:
        All tasks, with an error that ended them early in its place, and whether to work in this process.
    """
    taken: list[Task[T, R]] = []

    def sizes() -> Iterator[int]:
        for task in tasks:
            taken.append(task)
            yield task.size

    try:
        alone = is_alone(name, jobs, haystacks, sizes(), enough)
    except HarnessError as error:
        return _then(taken, _raising(error)), True
    return _then(taken, tasks), alone


def _then(taken: list[Task[T, R]], rest: Iterator[Task[T, R]]) -> Iterator[Task[T, R]]:
    """Yield the tasks taken so far, without keeping them, then the rest."""
    taken.reverse()
    while taken:
        yield taken.pop()
    yield from rest


def _raising(error: HarnessError) -> Generator[Task[T, R], None, None]:
    raise error
    yield
