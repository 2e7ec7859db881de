"""Read a journal that another process writes, continuing where the last read ended."""

from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from longmemeval.core.journal import writer_of

R = TypeVar("R")


class Tail(Generic[R]):
    """The records of a journal as they are written. An incomplete last line comes with a later read.

    Args:
        path: the file; it need not exist yet.
        kind: the type of a record.
    """

    def __init__(self, path: Path, kind: type[R]) -> None:
        self.path = path
        self._decoder = msgspec.json.Decoder(kind)
        self._read = 0

    def new(self) -> list[R]:
        """Return the complete records since the last read; damaged lines are skipped (`verify` reports them)."""
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
        """The time of the last write, in seconds since the epoch; None: there is no file."""
        try:
            return self.path.stat().st_mtime
        except OSError:
            return None


class Counted:
    """The number of items settled by each line of a journal, which gives its state when its writer began."""

    def __init__(self) -> None:
        self._done: list[int] = []

    def add(self, done: int) -> None:
        """Add one line; `done` items are settled with it."""
        self._done.append(done)

    def at(self, lines: int) -> int:
        """Return how many were settled after the first `lines` lines."""
        lines = min(lines, len(self._done))
        return self._done[lines - 1] if lines else 0

    @property
    def lines(self) -> int:
        """The number of lines."""
        return len(self._done)

    @property
    def now(self) -> int:
        """The number of items settled so far."""
        return self.at(self.lines)


class Work(msgspec.Struct, frozen=True):
    """One piece of work that writes a journal: answering, ranking, judging by one judge, preparing."""

    name: str
    done: int
    """Number of items settled for good."""
    total: int | None
    """Number of items in total; None if unknown."""
    failed: int = 0
    """Number of items tried without success, and not done since."""
    alive: bool = False
    """True if a process is working on it."""
    died: bool = False
    """True if the process that worked on it ended without recording it."""
    host: str = ""
    """The host of that process."""
    pid: int | None = None
    per_second: float | None = None
    """Lines per second since the process began; None: not known."""
    seconds_left: float | None = None
    quiet_s: float | None = None
    """Seconds since the last line."""


def work_on(name: str, tail: "Tail[R]", counted: Counted, total: int | None, now: float, failed: int = 0) -> Work:
    """Return the state of the work whose journal is `tail`.

    Args:
        name: the name in tables.
        tail: the journal, read to its end.
        total: number of items to settle; None: only the writer knows it.
        now: seconds since the epoch.
        failed: number of items that failed and are not settled.
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
