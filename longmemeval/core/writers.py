"""The writer of a journal, recorded in its lock file, so that others see how far the work is and whether it runs."""

import os
import socket
import sys
import time
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from longmemeval.core.locks import is_locked, lock_file
from longmemeval.core.secrets.redaction import redact

_LONGEST_COMMAND = 120
"""Characters of a command line that are recorded."""


class Writer(Struct, frozen=True):
    """The process that holds, or held, the lock of a journal."""

    pid: int
    host: str
    since: float
    """Start of writing, seconds since the epoch."""
    lines: int
    """Number of whole lines in the journal at that time."""
    expects: int | None = None
    """Number of lines that the writer will add, if only the writer knows."""

    command: str = ""
    """Its command line without the interpreter; empty if unknown."""

    @property
    def named(self) -> str:
        """The process in words: its number, machine and command."""
        if self.is_here and self.pid == os.getpid():
            return f"Another call in this process ({self.pid})"
        where = "" if self.is_here else f" on {self.host}"
        return f"Process {self.pid}{where}{f' ({self.command})' if self.command else ''}"

    @property
    def is_here(self) -> bool:
        """True if it is, or was, on this machine."""
        return self.host == socket.gethostname()


def announce(path: Path, lines: int, expects: int | None = None) -> None:
    """Record in the lock file of the journal `path`, held by the caller, that this process starts writing."""
    command = redact(" ".join([Path(sys.argv[0]).name, *sys.argv[1:]]) if sys.argv and sys.argv[0] else "")
    writer = Writer(os.getpid(), socket.gethostname(), time.time(), lines, expects, command[:_LONGEST_COMMAND])
    # For information only; on Windows a locked file cannot be written to.
    with suppress(OSError):
        lock_file(path).write_bytes(msgspec.json.encode(writer))


def writer_of(path: Path) -> tuple[bool, Writer | None]:
    """Return whether a process is writing to the journal `path` now, and its current or last writer.

    The writer is the process that holds the lock, or died while holding it; None if there is none or it is unknown.
    """
    try:
        writer = msgspec.json.decode(lock_file(path).read_bytes(), type=Writer)
    except (OSError, msgspec.MsgspecError):
        writer = None
    return is_locked(path), writer
