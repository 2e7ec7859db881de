"""Addresses of databases, and locks on files that only one process at a time may open."""

import os
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import NamedTuple, Protocol
from weakref import WeakSet

from longmemeval.core.journal import LockedError, locked
from longmemeval.errors import HarnessError, RecallError

_LOOK_S = 0.05


class Namespace(NamedTuple):
    """The namespace of one history in a store."""

    name: str
    """Lower-case letters, digits and underscores, at most 54: the name of a graph, a table or a file."""
    folder: Path
    """The folder of stores without a server."""
    patience_s: float = 0.0
    """Seconds to wait for files that another process has open."""


def address(variable: str, usual: str) -> str:
    """Return the address of a server from the environment, else the default `usual`."""
    return os.environ.get(variable) or usual


def unreachable(server: str, variable: str, error: Exception) -> HarnessError:
    """Return the error for a server that does not answer or refuses."""
    return HarnessError(
        f"{server} cannot be reached: {' '.join(str(error).split())}",
        where=variable,
        fix=f"Start it, and give its address in {variable}",
    )


@contextmanager
def asking(server: str, *errors: type[Exception]) -> Iterator[None]:
    """Turn a database's own errors into one that fails the question being answered.

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
    """A store whose files only one process at a time may open."""

    def let_go_if_idle(self) -> None:
        """Release the files unless a query is running; the next query reopens them."""
        ...


_owners = WeakSet[OwnsFiles]()


def locked_files(path: Path, owner: OwnsFiles, patience_s: float) -> AbstractContextManager[None]:
    """Lock the file or folder of an in-process database for as long as the result is referenced.

    While it waits, this process releases all its other files, so that no two processes wait for each other.

    Args:
        path: the file or folder.
        owner: the store to open.
        patience_s: seconds to wait.

    Raises:
        HarnessError: another process has it open.
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
    waited = f" and has not released it for {patience_s:,.0f} s" if patience_s else ""
    raise HarnessError(
        f"Another process has this store open{waited}",
        where=str(path),
        fix="Wait until that process ends, or set LONGMEMEVAL_STORES_DIR to a folder of its own for this one",
    )
