"""The protocol of executors and the tasks they run."""

from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar, runtime_checkable

from msgspec import Struct

from longmemeval.errors import HarnessError

T = TypeVar("T")
R = TypeVar("R")


class Failure(Struct, frozen=True):
    """An error in transit from a worker: our errors take keywords, which unpickling does not restore."""

    kind: type[HarnessError]
    what: str
    where: str
    fix: str

    def error(self) -> HarnessError:
        """Return the original error."""
        return self.kind(self.what, where=self.where, fix=self.fix)


@dataclass(frozen=True)
class Done(Generic[R]):
    """The outcome of a task."""

    key: Hashable
    """The key of the task."""
    outcome: R | Failure


@dataclass(frozen=True)
class Task(Generic[T, R]):
    """A piece of work that depends on no other. It can be pickled, and names files by absolute paths.

    Calling it does the work; an error that is a `HarnessError` is returned, not raised.
    """

    key: Hashable
    """Key that distinguishes the task from others of its kind."""
    work: Callable[[T], R]
    """Module-level function that does the work."""
    given: T
    size: int
    """Approximate number of bytes sent with the task."""

    def __call__(self) -> Done[R]:
        """Do the work."""
        try:
            return Done(self.key, self.work(self.given))
        except HarnessError as error:
            return Done(self.key, Failure(type(error), error.what, error.where, error.fix))


@runtime_checkable
class Executor(Protocol):
    """Runner of tasks: in processes or threads of this machine, or on other machines that see the same folders."""

    def map(self, tasks: Iterable[Task[T, R]], workers: int | None) -> Iterator[Done[R]]:
        """Call each of `tasks` once, on any worker.

        Creating a task takes time, and each holds megabytes: take the next one only when there is capacity for it, so
        that tasks are created while others run. `as_finished` does that for anything that provides futures.

        Args:
            tasks: tasks to call.
            workers: number of workers at a time that the user asked for; None: all there are.

        Yields:
            The results of the tasks as they finish, in any order. A generator learns when something goes wrong: after
            an exception that `tasks` raises or that is thrown in, it should start no new task, finish and yield the
            started ones, as they may have been paid for, and raise the exception again. When it is closed or
            interrupted, it should end all work at once.
        """
        ...
