"""What an executor is, and what the tasks are that it runs."""

from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar, runtime_checkable

from msgspec import Struct

from longmemeval.errors import HarnessError

T = TypeVar("T")
R = TypeVar("R")


class Failure(Struct, frozen=True):
    """An error on its way from a worker: ours take keywords, which unpickling does not give back."""

    kind: type[HarnessError]
    what: str
    where: str
    fix: str

    def error(self) -> HarnessError:
        """The error again."""
        return self.kind(self.what, where=self.where, fix=self.fix)


@dataclass(frozen=True)
class Done(Generic[R]):
    """What came of a task."""

    key: Hashable
    """The task's."""
    outcome: R | Failure


@dataclass(frozen=True)
class Task(Generic[T, R]):
    """A piece of work that depends on no other. It can be pickled, and names files by absolute paths.

    Calling it does the work; an error that is a `HarnessError` is returned, not raised.
    """

    key: Hashable
    """Tells it from the others of its kind."""
    work: Callable[[T], R]
    """A function of a module."""
    given: T
    size: int
    """How many bytes go with it, about."""

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
        """Call each of `tasks` once, wherever that may be.

        Making a task takes time, and each holds megabytes: the next is to be taken when there is room for it, so that
        tasks are made while others run. `as_finished` does that over whatever gives futures.

        Args:
            tasks: what to call.
            workers: how many at a time, as the user asked for; None: as many as there are.

        Yields:
            What the tasks return, as they finish, in any order. If it is a generator, it gets to know when something
            went wrong. On an exception that `tasks` raises or that is thrown in, nothing new should begin; what has
            begun is finished and yielded, as it may have been paid for, and the exception is raised again. Where it
            is closed, or interrupted, all work should end at once.
        """
        ...
