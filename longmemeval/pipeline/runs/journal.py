"""Append-only JSONL files: what is finished stays, a half-written last line is dropped and redone."""

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Generic, Self, TypeVar

import msgspec

from longmemeval.errors import HarnessError, IntegrityError
from longmemeval.locks import LockedError, locked

R = TypeVar("R")


def read_journal(path: Path, kind: type[R]) -> list[R]:
    """All whole records of a journal; none if there is no file.

    Raises:
        IntegrityError: a line other than an unfinished last one is not a record of this kind.
    """
    return list(iterate_journal(path, kind))


def iterate_journal(path: Path, kind: type[R]) -> Iterator[R]:
    """`read_journal`, one record at a time: for journals that are too large to be in memory whole."""
    if not path.exists():
        return
    decoder = msgspec.json.Decoder(kind)
    with path.open("rb") as handle:
        for number, line in enumerate(handle, start=1):
            if not line.endswith(b"\n"):
                return
            try:
                yield decoder.decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                raise IntegrityError(
                    f"The journal is damaged: {error}",
                    where=f"{path}, line {number}",
                    fix="Journals are only ever appended to: something else changed this file; restore it from a copy",
                ) from error


class Journal(Generic[R]):
    """A journal opened for appending. One writer at a time.

    Raises:
        HarnessError: another process is writing to it.
    """

    def __init__(self, path: Path, kind: type[R]) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self._kind = kind
        with ExitStack() as opened:
            try:
                opened.enter_context(locked(path, wait=False))
            except LockedError as error:
                raise HarnessError(
                    "Another process is writing to this journal", where=str(path), fix="Wait for it, or stop it"
                ) from error
            # Unbuffered: what could not be written is not tried again when the file is closed.
            self._handle = opened.enter_context(path.open("ab", buffering=0))
            self._drop_unfinished_line()
            self._opened = opened.pop_all()

    def _drop_unfinished_line(self) -> None:
        with self.path.open("rb") as lines:
            whole = sum(len(line) for line in lines if line.endswith(b"\n"))
        if whole < self.path.stat().st_size:
            self._handle.truncate(whole)

    def records(self) -> list[R]:
        """All records so far.

        Raises:
            IntegrityError: the file is no longer where it was.
        """
        self._check_in_place()
        return read_journal(self.path, self._kind)

    def _check_in_place(self) -> None:
        """Whoever moves the file takes the records with it: they would be missing from all that reads them here."""
        own = os.fstat(self._handle.fileno())
        try:
            there = self.path.stat()
        except OSError:
            there = None
        if there is None or (there.st_dev, there.st_ino) != (own.st_dev, own.st_ino):
            raise IntegrityError(
                f"{self.path.name} was moved, deleted or replaced while it was written to",
                where=str(self.path),
                fix="Put it back and rerun the command; it continues after the last record",
            )

    def append(self, record: R) -> None:
        """Write one record as one line and hand it to the operating system.

        Raises:
            HarnessError: the disk refuses (full, say); the records before are kept.
            IntegrityError: the file is no longer where it was; it has the record nevertheless.
        """
        line = msgspec.json.encode(record) + b"\n"
        try:
            while line:
                line = line[self._handle.write(line) :]
        except OSError as error:
            self._check_in_place()
            self._drop_unfinished_line()
            raise HarnessError(
                f"The record cannot be written: {error.strerror}",
                where=str(self.path),
                fix="Fix this and rerun the command; it continues after the last record",
            ) from error
        self._check_in_place()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._opened.close()
