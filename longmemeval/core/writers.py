"""Who writes to a journal: said in its lock file, so that others can tell how far the work is and whether it runs."""

import os
import socket
import time
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from longmemeval.core.locks import is_locked, lock_file


class Writer(Struct, frozen=True):
    """The process that holds, or held, the lock of a journal."""

    pid: int
    host: str
    since: float
    """When it began, seconds since the epoch."""
    lines: int
    """Whole lines of the journal at that time."""
    expects: int | None = None
    """How many lines it is going to add, where only the writer knows that."""

    @property
    def is_here(self) -> bool:
        """Whether it is, or was, on this machine."""
        return self.host == socket.gethostname()


def announce(path: Path, lines: int, expects: int | None = None) -> None:
    """Say in the lock file of the journal `path`, which the caller holds, that this process begins to write."""
    writer = Writer(os.getpid(), socket.gethostname(), time.time(), lines, expects)
    # Nothing depends on it; Windows lets nobody write to a locked file.
    with suppress(OSError):
        lock_file(path).write_bytes(msgspec.json.encode(writer))


def writer_of(path: Path) -> tuple[bool, Writer | None]:
    """Whether a process writes to the journal `path` now, and which one does, or died while it did.

    None: nobody does, or it is not known who.
    """
    try:
        writer = msgspec.json.decode(lock_file(path).read_bytes(), type=Writer)
    except (OSError, msgspec.MsgspecError):
        writer = None
    return is_locked(path), writer
