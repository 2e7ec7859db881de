"""A journal that another process writes: read on from where the last look ended."""

from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from longmemeval.core.writers import writer_of

R = TypeVar("R")


class Tail(Generic[R]):
    """The records of a journal as they come. A last line that is not whole yet comes with a later look.

    Args:
        path: the file; it need not be there yet.
        kind: of a record.
    """

    def __init__(self, path: Path, kind: type[R]) -> None:
        self.path = path
        self._decoder = msgspec.json.Decoder(kind)
        self._read = 0

    def new(self) -> list[R]:
        """The whole records since the last look; what is no record is passed over, `verify` tells of it."""
        try:
            with self.path.open("rb") as file:
                file.seek(self._read)
                lines, end, _ = file.read().rpartition(b"\n")
        except OSError:
            return []
        self._read += len(lines + end)
        records = []
        for line in lines.split(b"\n") if end else ():
            try:
                records.append(self._decoder.decode(line))
            except msgspec.DecodeError:
                continue
        return records

    @property
    def changed_at(self) -> float | None:
        """When it was written to last, seconds since the epoch; None: it is not there."""
        try:
            return self.path.stat().st_mtime
        except OSError:
            return None


class Counted:
    """How many things a journal has settled, line by line: what it held when its writer began can be told apart."""

    def __init__(self) -> None:
        self._done: list[int] = []

    def add(self, done: int) -> None:
        """Take in one line; `done` are settled with it."""
        self._done.append(done)

    def at(self, lines: int) -> int:
        """How many were settled after the first so many lines."""
        lines = min(lines, len(self._done))
        return self._done[lines - 1] if lines else 0

    @property
    def lines(self) -> int:
        """How many there are."""
        return len(self._done)

    @property
    def now(self) -> int:
        """How many are settled by now."""
        return self.at(self.lines)


class Work(msgspec.Struct, frozen=True):
    """One piece of work that writes a journal: answering, ranking, judging by one judge, preparing."""

    name: str
    done: int
    """Settled for good."""
    total: int | None
    """None: not known."""
    failed: int = 0
    """Tried without success, and not done since."""
    alive: bool = False
    """Whether a process is at it."""
    died: bool = False
    """Whether the process that was at it ended without saying so."""
    host: str = ""
    """Where that process is, or was."""
    pid: int | None = None
    per_second: float | None = None
    """Lines since the process began; None: not known."""
    seconds_left: float | None = None
    quiet_s: float | None = None
    """Since the last line."""


def work_on(name: str, tail: "Tail[R]", counted: Counted, total: int | None, now: float, failed: int = 0) -> Work:
    """The work whose journal is `tail`.

    Args:
        name: what tables call it.
        tail: the journal, read to its end.
        counted: what its lines have settled.
        total: how many things are to be settled; None: only the writer knows.
        now: seconds since the epoch.
        failed: how many failed and are not settled.
    """
    alive, writer = writer_of(tail.path)
    changed = tail.changed_at
    work = Work(
        name,
        counted.now,
        total,
        failed=failed,
        alive=alive,
        died=writer is not None and not alive,
        host=writer.host if writer else "",
        pid=writer.pid if writer else None,
        quiet_s=None if changed is None else max(0.0, now - changed),
    )
    if writer is None or not alive:
        return work
    new = counted.lines - writer.lines
    before = counted.at(writer.lines)
    if total is None and writer.expects is not None:
        work = msgspec.structs.replace(work, done=counted.now - before, total=writer.expects)
        left: int | None = writer.expects - new
    else:
        left = None if total is None else total - before - new
    rate = new / (now - writer.since) if new > 0 and now > writer.since else None
    seconds = max(0, left) / rate if rate and left is not None else None
    return msgspec.structs.replace(work, per_second=rate, seconds_left=seconds)
