"""Executors by name, and tasks run by the one that was asked for."""

from collections.abc import Generator, Iterable, Iterator
from contextlib import closing
from functools import partial
from typing import Any, TypeVar

from longmemeval import plugins
from longmemeval.core.executors.protocol import Done, Executor, Failure, Task
from longmemeval.core.executors.threads import SerialExecutor
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
        "processes": "longmemeval.core.executors.processes:Processes",
        "threads": "longmemeval.core.executors.threads:Threads",
        "dask": "longmemeval.core.executors.dask:Dask",
        "ray": "longmemeval.core.executors.ray:Ray",
    },
    adapt=lambda loaded: loaded() if isinstance(loaded, type) else loaded,
)

_PARALLEL_FROM = 64
"""Below this number of haystacks, starting worker processes takes longer than the work."""


def is_alone(name: str | None, jobs: int | None, haystacks: int) -> bool:
    """Whether the work is done in this process, because no workers were asked for and they would not pay.

    Args:
        name: the executor that was asked for, if any.
        jobs: how many workers were asked for, if that was said.
        haystacks: how many there are to do.
    """
    return name is None and (jobs == 1 or (jobs is None and haystacks < _PARALLEL_FROM))


def executor_named(name: str) -> Executor:
    """The executor of that name; of a cluster it may be followed by its address, as in `dask@tcp://host:8786`.

    Raises:
        HarnessError: there is none, or it has no address.
    """
    base, _, address = name.partition("@")
    executor = EXECUTORS.get(base)
    if not address:
        return executor
    at = getattr(executor, "at", None)
    if at is None:
        raise HarnessError(
            f"The executor '{base}' takes no address", where=address, fix="Choose --executor dask or ray"
        )
    found: Executor = at(address)
    return found


def embeds_in_tasks(name: str | None) -> bool:
    """Whether the executor of that name wants texts to be embedded by its workers, not beforehand."""
    return name is not None and bool(getattr(executor_named(name), "embeds_in_tasks", False))


def run_tasks(
    tasks: Iterable[Task[T, R]], haystacks: int, *, name: str | None, jobs: int | None
) -> Generator[tuple[object, R], None, None]:
    """Run `tasks` by the executor of that name; None: by `processes`, where workers pay.

    Args:
        tasks: independent of each other.
        haystacks: how many tasks there are.
        name: of the executor.
        jobs: how many workers; None: as many as the executor has, of processes one per core.

    Yields:
        The key of each task and its result, as they finish. Closed before its end, it ends the work at once.

    Raises:
        HarnessError: a task failed; nothing new begins then, and the results of what had begun come first. Or the
            executor itself failed.
    """
    executor = SerialExecutor() if is_alone(name, jobs, haystacks) else executor_named(name or "processes")
    with closing(_as_generator(executor.map(tasks, jobs))) as done:
        take, failure = partial(next, done), None
        while True:
            try:
                one = take()
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
            if not isinstance(one.outcome, Failure):
                yield one.key, one.outcome
            elif failure is None:
                failure = one.outcome.error()
                take = partial(done.throw, failure)
    if failure is not None:
        raise failure


def in_order(numbered: Iterable[tuple[object, R]]) -> Iterator[R]:
    """Results whose keys are 0, 1, 2, … in that order."""
    waiting: dict[object, R] = {}
    expected = 0
    for key, result in numbered:
        waiting[key] = result
        while expected in waiting:
            yield waiting.pop(expected)
            expected += 1


def _as_generator(done: Iterator[Done[R]]) -> Generator[Done[R], None, None]:
    """What `Executor.map` returns; an iterator that is not a generator cannot be thrown into, and simply ends."""
    yield from done
