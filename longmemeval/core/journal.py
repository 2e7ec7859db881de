"""Append-only JSONL files: finished records stay, and a half-written line does no harm.

`Journal` has one writer at a time, which drops a half-written last line. If several processes write at a time, they
append lines with `append_shared` and read them with `decode_shared`, which skip a line that was never finished.
"""

import hashlib
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Generic, Self, TypeVar

import msgspec
from msgspec import Struct

from longmemeval.core.files import sha256_file
from longmemeval.core.secrets.redaction import redact
from longmemeval.errors import HarnessError, IntegrityError

# A lock between processes: one of them writes, the others wait or are refused.

_POLL_S = 0.005
"""Seconds between two attempts of a waiting process; a lock is held while a few lines of a file are written."""


class LockedError(Exception):
    """Another process holds the lock."""


class LockProvider:
    """Provider of locks for this process: the operating system, or another provider where file locks do not reach."""

    held_by: Callable[[Path, bool], AbstractContextManager[None]] | None = None


LOCK_PROVIDER = LockProvider()


def lock_file(path: Path) -> Path:
    """Return the file whose lock guards `path`; it exists while the lock is held, and after its process died."""
    return Path(f"{path}.lock")


def is_locked(path: Path) -> bool:
    """Return whether a process holds the lock of the file `path`. Never blocks and leaves no lock file."""
    lock = lock_file(path)
    if sys.platform == "win32":
        try:
            lock.unlink()
        except FileNotFoundError:
            return False
        except OSError:
            return True
        return False
    import fcntl

    try:
        with lock.open("rb") as handle:
            # A free lock is held here for a moment; another process is refused only if it tries at this instant.
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


@contextmanager
def locked(path: Path, *, wait: bool) -> Iterator[None]:
    """Hold the lock of the file `path`.

    It is the operating system's lock on a file next to it, `<path>.lock`, and vanishes with a process that is killed.
    The file itself is not locked, since Windows would let no other process read it.

    Args:
        path: file to write; its folder exists.
        wait: True to wait until another process releases it.

    Raises:
        LockedError: another process holds it, and `wait` is false.
    """
    if LOCK_PROVIDER.held_by:
        with LOCK_PROVIDER.held_by(path, wait):
            yield
        return
    # Imported here: loading it takes longer than reading most files.
    from filelock import FileLock, Timeout

    # The mere existence of a file never is a lock: it would outlive a killed process.
    lock = FileLock(lock_file(path), thread_local=False, fallback_to_soft=False, poll_interval=_POLL_S)
    try:
        lock.acquire(blocking=wait)
    except Timeout as error:
        raise LockedError from error
    try:
        yield
    finally:
        # Removed before the release: a process that waits for a missing file recreates it. Windows removes it itself.
        with suppress(OSError):
            Path(lock.lock_file).unlink()
        lock.release()


_turns: dict[Path, tuple[int, int]] = {}
"""The process (a forked one inherits the table) and thread that has a journal open, by path."""
_turn_ends = threading.Condition()


@contextmanager
def _turn(path: Path, *, wait: bool) -> Iterator[None]:
    """Wait until no other thread of this process has the journal `path` open, and keep others waiting meanwhile.

    Raises:
        LockedError: waiting could last forever, since this thread has a journal open, and `wait` is false.
    """
    place, here = path.absolute(), (os.getpid(), threading.get_ident())
    with _turn_ends:
        if not wait and here in _turns.values() and _turns.get(place, (0, 0))[0] == here[0]:
            raise LockedError
        _turn_ends.wait_for(lambda: _turns.get(place, (0, 0))[0] != here[0])
        _turns[place] = here
    try:
        yield
    finally:
        with _turn_ends:
            del _turns[place]
            _turn_ends.notify_all()


# The writer of a journal, recorded in its lock file, so that others see how far the work is and whether it runs.

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


R = TypeVar("R")


def read_journal(path: Path, kind: type[R]) -> list[R]:
    """Return all complete records of a journal; none if there is no file.

    Raises:
        IntegrityError: a line is not a record of this kind, unless it is an unfinished last line.
    """
    return list(iterate_journal(path, kind))


def iterate_journal(path: Path, kind: type[R]) -> Iterator[R]:
    """Yield the records of a journal that is too large for memory; see `read_journal`."""
    for line, record in _lines(path, kind):
        if not line.endswith(b"\n"):
            return
        if isinstance(record, IntegrityError):
            raise record
        yield record


def _lines(path: Path, kind: type[R]) -> Iterator[tuple[bytes, R | IntegrityError]]:
    """Yield the lines of a journal, even an unfinished one, each with its record or its error."""
    if not path.exists():
        return
    decoder = msgspec.json.Decoder(kind)
    with path.open("rb") as handle:
        for number, line in enumerate(handle, start=1):
            try:
                yield line, decoder.decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                damage = IntegrityError(
                    f"The journal is damaged: {error}",
                    where=f"{path}, line {number}",
                    fix="Journals are only ever appended to, so something else changed it: restore it from a copy",
                )
                damage.__cause__ = error
                yield line, damage


def append_shared(file: BinaryIO, record: Struct) -> None:
    """Append one record to a journal that several processes may write to.

    Args:
        file: the journal, open for reading and appending, unbuffered.
        record: the record to write as one line, after the last whole line.

    Raises:
        OSError: the disk refuses.
    """
    line = msgspec.json.encode(record) + b"\n"
    if _ends_half_way(file):
        line = b"\n" + line
    while line:
        line = line[file.write(line) :]


def decode_shared(data: bytes, kind: type[R]) -> Iterator[R]:
    """Yield the whole records of a shared journal, skipping a line that a killed process never finished."""
    decoder = msgspec.json.Decoder(kind)
    for line in data.splitlines():
        with suppress(msgspec.DecodeError):
            yield decoder.decode(line)


def _ends_half_way(file: BinaryIO) -> bool:
    """Return whether the last line was never finished; wait briefly for a line that is being written just now."""
    # No pause before the first look: even a pause of no length hands the interpreter to another thread.
    for pause in (0.0, 0.001, 0.01):
        if pause:
            time.sleep(pause)
        size = file.seek(0, os.SEEK_END)
        if size == 0:
            return False
        file.seek(size - 1)
        if file.read(1) == b"\n":
            return False
    return True


def _beginnings(path: Path) -> Iterator[str]:
    """Yield the hash of each beginning of a file that ends with a whole line, the empty beginning first."""
    digest = hashlib.sha256()
    yield digest.hexdigest()
    if path.exists():
        for line in path.read_bytes().splitlines(keepends=True):
            digest.update(line)
            yield digest.hexdigest()


class StoredJournal(Generic[R]):
    """The content of a journal when it was read, and the lines that its writer has appended since.

    Args:
        path: the file; a missing journal has no records.
        kind: type of a record.
        each: called with every record as it is read, and no record is kept: for journals too large for memory.
    """

    def __init__(self, path: Path, kind: type[R], each: Callable[[R], None] | None = None) -> None:
        self.path = path
        self.kind = kind
        self.exists = path.exists()
        self.size = 0
        """Number of bytes of the complete lines."""
        self.lines = 0
        """Number of complete lines."""
        self._records: list[R] = []
        self._damage: IntegrityError | None = None
        self._hash = hashlib.sha256()
        self._unfinished = b""
        self._keeps = each is None
        if each is None and self._read_whole():
            return
        keep = each or self._records.append
        for line, record in _lines(path, kind):
            if not line.endswith(b"\n"):
                self._unfinished = line
                break
            self._count(line)
            if isinstance(record, IntegrityError):
                self._damage = self._damage or record
            elif self._damage is None:
                keep(record)

    def _read_whole(self) -> bool:
        """Decode all lines at once, several times as fast as one by one; return False if any line is damaged."""
        data = self.path.read_bytes() if self.exists else b""
        whole, lines = data[: data.rfind(b"\n") + 1], data.count(b"\n")
        try:
            records = msgspec.json.Decoder(self.kind).decode_lines(whole)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return False
        if len(records) != lines:
            return False
        self._hash.update(whole)
        self._records, self._unfinished, self.lines, self.size = records, data[len(whole) :], lines, len(whole)
        return True

    @property
    def records(self) -> list[R]:
        """All complete records.

        Raises:
            IntegrityError: a line is not a record of this kind.
        """
        if self._damage:
            raise self._damage
        return self._records

    @property
    def sha256(self) -> str:
        """Hash of the file, including an unfinished last line; empty if there is no file."""
        whole = self._hash.copy()
        whole.update(self._unfinished)
        return whole.hexdigest() if self.exists else ""

    def began_as(self, digest: str) -> bool:
        """Return whether the file starts with content whose sha256 is `digest`, followed by more lines."""
        return digest != self.sha256 and digest in _beginnings(self.path)

    def is_as_read(self) -> bool:
        """Return whether the file still has the same size: a journal only ever grows."""
        return self.exists and self.path.exists() and self.path.stat().st_size == self.size + len(self._unfinished)

    def append(self, line: bytes, record: R | None = None) -> None:
        """Add a line written by the writer; `record` is its decoded form, if known."""
        self.exists = True
        self._count(line)
        if self._keeps:
            self._records.append(msgspec.json.decode(line, type=self.kind) if record is None else record)

    def drop_unfinished(self) -> bool:
        """Forget an unfinished last line; return whether there was one."""
        self._unfinished, dropped = b"", bool(self._unfinished)
        return dropped

    def _count(self, line: bytes) -> None:
        self._hash.update(line)
        self.lines += 1
        # Updated last, so that an earlier interrupt shows: the file is longer then.
        self.size += len(line)


class Journal(Generic[R]):
    """A journal opened for appending. One writer at a time; its content is read once.

    Args:
        path: the file; it and its folder are created if missing.
        kind: type of a record.
        read: content that this process read before; the file is read again only if it has grown since.
        each: see `StoredJournal`.
        wait: True to wait until another process that is writing to it is done. Another thread of this process is
            always waited for, unless this one has a journal open.

    Raises:
        HarnessError: another process is writing to it, or this thread is, and `wait` is false.
    """

    def __init__(
        self,
        path: Path,
        kind: type[R],
        *,
        read: StoredJournal[R] | None = None,
        each: Callable[[R], None] | None = None,
        wait: bool = False,
    ) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        with ExitStack() as opened:
            try:
                opened.enter_context(_turn(path, wait=wait))
                opened.enter_context(locked(path, wait=wait))
            except LockedError as error:
                _, writer = writer_of(path)
                who = writer.named if writer else "Another process"
                raise HarnessError(
                    f"{who} is writing to this journal", where=str(path), fix="Wait for it, or stop it"
                ) from error
            # Unbuffered: a failed write is not repeated when the file is closed.
            self._handle = opened.enter_context(path.open("ab", buffering=0))
            self.stored = read if read and read.is_as_read() else StoredJournal(path, kind, each)
            if self.stored.drop_unfinished():
                self._handle.truncate(self.stored.size)
            announce(path, self.stored.lines)
            self._opened = opened.pop_all()

    def expects(self, records: int) -> None:
        """Announce to observers how many records are still to come."""
        announce(self.path, self.stored.lines, records)

    def records(self) -> list[R]:
        """Return all records so far.

        Raises:
            IntegrityError: a line is not a record of this kind, or the file is no longer in place.
        """
        self._check_in_place()
        return list(self.stored.records)

    def sha256(self) -> str:
        """Return the hash of the file as it was written here.

        Raises:
            IntegrityError: the file is no longer in place.
        """
        self._check_in_place()
        if os.fstat(self._handle.fileno()).st_size != self.stored.size:
            # An interrupt came between writing a line and counting it.
            return sha256_file(self.path)
        return self.stored.sha256

    def _check_in_place(self) -> None:
        """Check that the file is still in place: a moved file would take its records with it."""
        own = os.fstat(self._handle.fileno())
        try:
            there = self.path.stat()
        except OSError:
            there = None
        if there is None or (there.st_dev, there.st_ino) != (own.st_dev, own.st_ino):
            raise IntegrityError(
                f"{self.path.name} was moved, deleted or replaced while it was being written",
                where=str(self.path),
                fix="Put it back and rerun the command; it continues after the last record",
            )

    def append(self, record: R) -> None:
        """Write one record as one line and hand it to the operating system.

        Raises:
            HarnessError: the disk refuses (it may be full); earlier records are kept.
            IntegrityError: the file is no longer in place, but it has the record.
        """
        self._append(msgspec.json.encode(record), record)

    def append_encoded(self, record: bytes) -> None:
        """Append a record that is already JSON."""
        self._append(record)

    def _append(self, encoded: bytes, record: R | None = None) -> None:
        whole = line = encoded + b"\n"
        try:
            while line:
                line = line[self._handle.write(line) :]
        except OSError as error:
            self._check_in_place()
            self._handle.truncate(self.stored.size)
            raise HarnessError(
                f"The record cannot be written: {error.strerror}",
                where=str(self.path),
                fix="Fix this and rerun the command; it continues after the last record",
            ) from error
        self.stored.append(whole, record)
        self._check_in_place()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._opened.close()


def now() -> str:
    """Return the wall-clock time, for records only."""
    return datetime.now(UTC).isoformat(timespec="seconds")
