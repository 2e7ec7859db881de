"""Where databases are, and the locks on files that one process at a time may open."""

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import NamedTuple

from longmemeval.errors import HarnessError, RecallError
from longmemeval.locks import LockedError, locked


class Namespace(NamedTuple):
    """The place of one history in a store."""

    name: str
    """Small letters, digits and underscores, at most 54: names a graph, a table or a file."""
    folder: Path
    """Where a store without a server keeps its files."""


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


def locked_files(path: Path) -> AbstractContextManager[None]:
    """The file or folder of an engine in the process, locked as long as the result is kept.

    Raises:
        HarnessError: another process has them.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = locked(path, wait=False)
    try:
        lock.__enter__()
    except LockedError:
        raise HarnessError(
            "Another process has this store open",
            where=str(path),
            fix="Wait until it ends, or give this one a folder of its own: LONGMEMEVAL_STORES_DIR",
        ) from None
    return lock
