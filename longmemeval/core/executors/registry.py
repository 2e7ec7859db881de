"""Executors by name, and running tasks on the selected one."""

from collections.abc import Generator, Iterable, Iterator
from contextlib import closing
from functools import partial
from typing import Any, TypeVar

from longmemeval import plugins
from longmemeval.core.executors.local import SerialExecutor, peek_sizes
from longmemeval.core.executors.protocol import Done, Executor, Failure, Task
from longmemeval.errors import HarnessError
from longmemeval.plugins import Registry

T = TypeVar("T")
R = TypeVar("R")

_KIND: Any = Executor  # To mypy a protocol is not a type of objects.

EXECUTORS = Registry[Executor](
    plugins.EXECUTORS,
    "executor",
    _KIND,
    {
        "processes": "longmemeval.core.executors.local:Processes",
        "threads": "longmemeval.core.executors.local:Threads",
        "dask": "longmemeval.core.executors.dask:Dask",
        "ray": "longmemeval.core.executors.ray:Ray",
    },
    adapt=lambda loaded: loaded() if isinstance(loaded, type) else loaded,
)


def executor_named(name: str) -> Executor:
    """Return the executor called `name`, for a cluster with an optional address: `dask@tcp://host:8786`.

    Raises:
        HarnessError: there is no such executor, or it does not take an address.
    """
    base, _, address = name.partition("@")
    executor = EXECUTORS.get(base)
    if not address:
        return executor
    at = getattr(executor, "at", None)
    if at is None:
        raise HarnessError(
            f"The executor '{base}' does not take an address", where=address, fix="Choose --executor dask or ray"
        )
    named: Executor = at(address)
    return named


def embeds_in_tasks(name: str | None) -> bool:
    """Return whether workers of the executor `name` should embed texts, instead of embedding them beforehand."""
    return name is not None and bool(getattr(executor_named(name), "embeds_in_tasks", False))


def run_tasks(
    tasks: Iterable[Task[T, R]], haystacks: int, *, name: str | None, jobs: int | None, enough: int = 0
) -> Generator[tuple[object, R], None, None]:
    """Run `tasks` on the executor `name`; None: on `processes`, if workers pay off.

    Args:
        tasks: tasks that do not depend on each other.
        haystacks: number of tasks.
        jobs: number of workers; None: all that the executor has, for processes one per core.
        enough: bytes of tasks from which worker processes pay off; 0: any number.

    Yields:
        The key of each task and its result, as they finish. Closing the generator early ends the work at once.

    Raises:
        HarnessError: a task failed (no new task starts then, and the results of started ones come first), or the
            executor itself failed.
    """
    ready, alone = peek_sizes(iter(tasks), name, jobs, haystacks, enough)
    executor = SerialExecutor() if alone else executor_named(name or "processes")
    with closing(_as_generator(executor.map(ready, jobs))) as done:
        take, failure = partial(next, done), None
        while True:
            try:
                finished = take()
            except StopIteration:
                break
            except HarnessError:
                raise
            except Exception as error:
                if name is None or name.partition("@")[0] in EXECUTORS.built_in:
                    raise
                raise HarnessError(
                    f"The executor '{name}' failed: {type(error).__name__}: {error}",
                    fix="Fix this and rerun the command, or choose another --executor; finished work is kept",
                ) from error
            take = partial(next, done)
            if not isinstance(finished.outcome, Failure):
                yield finished.key, finished.outcome
            elif failure is None:
                failure = finished.outcome.error()
                take = partial(done.throw, failure)
    if failure is not None:
        raise failure


def by_number(numbered: Iterable[tuple[object, R]]) -> Iterator[R]:
    """Yield the results, whose keys are 0, 1, 2, …, in the order of their keys."""
    waiting: dict[object, R] = {}
    expected = 0
    for key, result in numbered:
        waiting[key] = result
        while expected in waiting:
            yield waiting.pop(expected)
            expected += 1


def _as_generator(done: Iterator[Done[R]]) -> Generator[Done[R], None, None]:
    """Turn the result of `Executor.map` into a generator; a plain iterator accepts no exception, and just ends."""
    yield from done
