"""Where databases are, and the locks on files that one process at a time may open."""

import os
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import NamedTuple, Protocol
from weakref import WeakSet

from longmemeval.core.locks import LockedError, locked
from longmemeval.errors import HarnessError, RecallError

_LOOK_S = 0.05


class Namespace(NamedTuple):
    """The place of one history in a store."""

    name: str
    """Small letters, digits and underscores, at most 54: names a graph, a table or a file."""
    folder: Path
    """Where a store without a server keeps its files."""
    patience_s: float = 0.0
    """How long to wait for files that another process has open."""


def address(variable: str, usual: str) -> str:
    """Of a server, from the environment."""
    return os.environ.get(variable) or usual


def unreachable(server: str, variable: str, error: Exception) -> HarnessError:
    """For the user, where a server does not answer or refuses."""
    return HarnessError(
        f"{server} cannot be reached: {' '.join(str(error).split())}",
        where=variable,
        fix=f"Start it, and give its address in {variable}",
    )


@contextmanager
def asking(server: str, *errors: type[Exception]) -> Iterator[None]:
    """Makes of a database's own errors one that says which question could not be answered.

    Raises:
        RecallError: one of `errors` was raised.
    """
    try:
        yield
    except HarnessError:
        raise
    except errors as error:
        raise RecallError(f"{server} failed: {' '.join(str(error).split())}") from error


class OwnsFiles(Protocol):
    """A store whose files one process at a time may open."""

    def let_go_if_idle(self) -> None:
        """Let go of the files, which the next question opens again, unless a question is under way."""
        ...


_owners = WeakSet[OwnsFiles]()


def locked_files(path: Path, owner: OwnsFiles, patience_s: float) -> AbstractContextManager[None]:
    """Lock the file or folder of an engine in the process as long as the result is kept.

    Who waits lets go of all other files of this process, so that no two processes wait for each other.

    Args:
        path: the file or folder.
        owner: the store that is to have it.
        patience_s: seconds to wait.

    Raises:
        HarnessError: another process has them.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + patience_s
    while True:
        lock = locked(path, wait=False)
        try:
            lock.__enter__()
        except LockedError:
            if time.monotonic() >= deadline:
                break
            for other in set(_owners) - {owner}:
                other.let_go_if_idle()
            time.sleep(_LOOK_S)
        else:
            _owners.add(owner)
            return lock
    waited = f" and does not let go of it for {patience_s:,.0f} s" if patience_s else ""
    raise HarnessError(
        f"Another process has this store open{waited}",
        where=str(path),
        fix="Wait until it ends, or give this one a folder of its own: LONGMEMEVAL_STORES_DIR",
    )
