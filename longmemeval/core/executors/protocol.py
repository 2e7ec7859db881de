"""The protocol of executors and the tasks they run."""

from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar, runtime_checkable

from msgspec import Struct

from longmemeval.errors import HarnessError

T = TypeVar("T")
R = TypeVar("R")


class Failure(Struct, frozen=True):
    """An error on its way from a worker: our errors take keywords, which unpickling does not restore."""

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
    """Key of the task."""
    outcome: R | Failure


@dataclass(frozen=True)
class Task(Generic[T, R]):
    """A piece of work that depends on no other. It can be pickled, and names files by absolute paths.

    Calling it does the work; an error that is a `HarnessError` is returned, not raised.
    """

    key: Hashable
    """Distinguishes it from others of its kind."""
    work: Callable[[T], R]
    """Module-level function."""
    given: T
    size: int
    """Approximate number of bytes sent with it."""

    def __call__(self) -> Done[R]:
        """Do the work."""
        try:
            return Done(self.key, self.work(self.given))
        except HarnessError as error:
            return Done(self.key, Failure(type(error), error.what, error.where, error.fix))


@runtime_checkable
class Executor(Protocol):
    """Runs tasks: in processes or threads of this machine, or on others that see the same folders."""

    def map(self, tasks: Iterable[Task[T, R]], workers: int | None) -> Iterator[Done[R]]:
        """Call each of `tasks` once, on any worker.

        Creating a task takes time, and each holds megabytes: take the next one when there is capacity for it, so that
        tasks are created while others run. `as_finished` does that for anything that provides futures.

        Args:
            tasks: tasks to call.
            workers: number at a time, as the user asked; None: all there are.

        Yields:
            The results of the tasks as they finish, in any order. A generator is notified when something goes wrong:
            on an exception that `tasks` raises or that is thrown in, no new task should start; started ones are
            finished and yielded, as they may have been paid for, and the exception is raised again. When it is
            closed or interrupted, all work should end at once.
        """
        ...
