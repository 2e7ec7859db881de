"""Spending on model calls: an account in a file, and a limit on it.

Every attempt of a call is recorded before it is sent and when it has ended. Attempts in progress in a killed process
count in full from then on, so that a limit holds over any number of starts, and over several processes.
"""

import asyncio
import math
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from itertools import count
from pathlib import Path
from threading import Lock
from typing import Any, BinaryIO

from msgspec import Struct, structs

from longmemeval.core.journal import append_shared, decode_shared, locked
from longmemeval.core.text.figures import in_dollars
from longmemeval.errors import HarnessError, SpendingLimitError
from longmemeval.llm.options import SpendingLimit

SPENDING, JUDGES_SPENDING = "spending.jsonl", "spending-judges.jsonl"
"""File names of the account, next to the work it pays for, and of the account of a run's judges."""

_POLL_S = 0.05


class _Entry(Struct, frozen=True, omit_defaults=True):
    """One line: a session starts, an attempt is about to be sent, or it has ended."""

    session: str = ""
    limit_usd: float | None = None
    """With `session`: the limit of that session."""
    attempt: str = ""
    model: str = ""
    reserved_usd: float | None = None
    cost_usd: float | None = None
    failed: bool = False


class Spent:
    """The state of an account: sums over its lines."""

    def __init__(self) -> None:
        self.settled = 0.0
        self.limit: float | None = None
        """Limit of the newest session; None if it has none."""
        self.on_failures = 0.0
        self.under_way: dict[str, float] = {}
        self.lost: dict[str, float] = {}
        """Amounts reserved for attempts whose session ended before their outcome was known."""

    @property
    def spent(self) -> float:
        """US dollars of attempts that have ended, or whose process has ended."""
        return self.settled + sum(self.lost.values())

    @property
    def dollars(self) -> float:
        """US dollars, counting attempts in progress in full."""
        return self.spent + sum(self.under_way.values())

    def has(self, attempt: str) -> bool:
        """Return whether an attempt has yet to be settled."""
        return attempt in self.under_way or attempt in self.lost

    def add(self, entry: _Entry) -> None:
        """Add a line."""
        if entry.session:
            self.limit = entry.limit_usd
            self.lost |= self.under_way
            self.under_way.clear()
        elif entry.reserved_usd is not None:
            self.lost.pop(entry.attempt, None)
            self.under_way[entry.attempt] = entry.reserved_usd
        elif entry.cost_usd is not None and self.has(entry.attempt):
            self.under_way.pop(entry.attempt, None)
            self.lost.pop(entry.attempt, None)
            self.settled += entry.cost_usd
            self.on_failures += entry.cost_usd if entry.failed else 0.0

    def read(self, data: bytes) -> None:
        """Add the whole lines of a file."""
        # A half-written line comes from a killed process: its attempt was not sent, or is not known to have ended.
        for entry in decode_shared(data, _Entry):
            self.add(entry)


class Account:
    """Cost of one piece of work. Safe across threads, event loops and processes; copies share the file.

    Args:
        path: the file, created with the first attempt; None: in memory only.
        limit: maximum to spend; None: attempts are only recorded.
    """

    def __init__(self, path: Path | None, limit: SpendingLimit | None = None) -> None:
        self.path = path
        self.limit = limit
        self._opened = False
        self._lock = Lock()
        self._read = 0
        self._sums = Spent()
        self._names = (f"{os.getpid()}-{time.time_ns():x}-{number}" for number in count(1))

    def __reduce__(self) -> tuple[Any, ...]:
        return _copy, (self.path, self.limit)

    def open(self) -> None:
        """Start a session; otherwise the first attempt starts it.

        Attempts that an earlier session left unfinished count as spent.
        """
        with self._lock, self._file() as file:
            self._open(file)

    async def reserve(self, dollars: float, model: str, name: str = "") -> str:
        """Reserve the possible cost of an attempt; wait while attempts in progress may free enough.

        Args:
            dollars: maximum cost.
            model: for the record.
            name: name of an attempt that outlives this process; reserving it again counts once.

        Returns:
            The attempt's name, for `record_cost`.

        Raises:
            SpendingLimitError: no attempt is in progress, and too little is left.
            HarnessError: the account cannot be written.
        """
        while (reserved := self._reserved(dollars, model, name)) is None:
            await asyncio.sleep(_POLL_S)
        return reserved

    def reserve_blocking(self, dollars: float, model: str) -> str:
        """Reserve the possible cost of an attempt, in synchronous code; see `reserve`."""
        while (name := self._reserved(dollars, model)) is None:
            time.sleep(_POLL_S)
        return name

    def record_cost(self, name: str, dollars: float, *, failed: bool = False) -> None:
        """Replace the amount reserved for an attempt with its cost.

        Args:
            name: from `reserve`.
            dollars: its cost; for an attempt that may have been billed, the whole reserved amount. A settled
                attempt stays settled.
            failed: True if it produced no result.
        """
        with self._lock, self._file() as file:
            self._write(file, _Entry(attempt=name, cost_usd=dollars, failed=failed))

    def room(self) -> float:
        """Return the US dollars left of the limit; infinite without one."""
        if self.limit is None:
            return math.inf
        with self._lock, self._file() as file:
            self._open(file)
            return self.limit.dollars - self.limit.elsewhere - self._sums.dollars

    def _reserved(self, dollars: float, model: str, name: str = "") -> str | None:
        """Return the name of the attempt that may now be made; None if it has to wait."""
        with self._lock, self._file() as file:
            self._open(file)
            if self.limit and not self._fits(dollars - self._sums.lost.get(name, 0.0), self.limit):
                if self._sums.under_way:
                    return None
                raise self._exhausted(dollars, self.limit)
            name = name or next(self._names)
            self._write(file, _Entry(attempt=name, model=model, reserved_usd=dollars))
            return name

    def _fits(self, dollars: float, limit: SpendingLimit) -> bool:
        committed = limit.elsewhere + self._sums.dollars
        # Sums of many small amounts are inexact in the last digits.
        return committed + dollars <= limit.dollars * (1 + 1e-9)

    def _exhausted(self, dollars: float, limit: SpendingLimit) -> SpendingLimitError:
        exact = partial(in_dollars, exact=True)
        spent = f"{exact(limit.elsewhere + self._sums.spent)} of {exact(limit.dollars)}"
        wasted = self._sums.on_failures + sum(self._sums.lost.values())
        failed = f", {exact(wasted)} of it on attempts that failed or have no known outcome" if wasted else ""
        return SpendingLimitError(
            f"The spending limit is reached: {spent} is spent{failed}; no call is "
            f"under way, so nothing is reserved, and the next call could cost {exact(dollars)}",
            fix="Rerun the command with a higher --max-cost; it continues from here",
        )

    def _open(self, file: BinaryIO | None) -> None:
        if not self._opened:
            self._opened = True
            limit = self.limit.dollars if self.limit else None
            self._write(file, _Entry(session=str(os.getpid()), limit_usd=limit))

    @contextmanager
    def _file(self) -> Iterator[BinaryIO | None]:
        """Yield the file, if there is one. Under a limit it is locked and read to its end.

        Without a limit nothing depends on its content, and lines are only appended, each in one piece, so that several
        processes may do so concurrently.
        """
        if self.path is None:
            yield None
            return
        try:
            if not self._opened:
                self.path.parent.mkdir(parents=True, exist_ok=True)
            lock = locked(self.path, wait=True) if self.limit or not self._opened else nullcontext()
            with lock, self.path.open("a+b", buffering=0) as file:
                if self.limit:
                    self._catch_up(file)
                yield file
        except OSError as error:
            raise HarnessError(
                f"The account of call costs cannot be written: {error.strerror}",
                where=str(self.path),
                fix="Fix this and rerun the same command: finished work is kept",
            ) from error

    def _catch_up(self, file: BinaryIO) -> None:
        """Read the lines added to the file by any process; an incomplete last line is left for later."""
        file.seek(self._read)
        lines, end, _ = file.read().rpartition(b"\n")
        self._read += len(lines + end)
        self._sums.read(lines)

    def _write(self, file: BinaryIO | None, entry: _Entry) -> None:
        if file is None:
            self._sums.add(entry)
            return
        append_shared(file, entry)
        if self.limit:
            self._catch_up(file)


def spent_and_limit(*files: Path) -> tuple[float | None, float | None]:
    """Return the US dollars spent by the accounts in files, with attempts in progress in full, and the sum of limits.

    None for dollars if there is no file, and for the limit if no newest session has one.
    """
    accounts = list[Spent]()
    for path in filter(Path.exists, files):
        accounts.append(Spent())
        accounts[-1].read(path.read_bytes())
    limits = [spent.limit for spent in accounts if spent.limit is not None]
    return sum(spent.dollars for spent in accounts) if accounts else None, sum(limits) if limits else None


def spent_in(*files: Path) -> float:
    """Return the US dollars spent by the accounts in files, with attempts in progress in full."""
    return spent_and_limit(*files)[0] or 0.0


def limit_beside(limit: SpendingLimit | None, others: Iterable[Path]) -> SpendingLimit | None:
    """Return the limit for one of several accounts that share one.

    Args:
        limit: limit of all of them together; None: there is none.
        others: files of the other accounts.
    """
    return limit and structs.replace(limit, elsewhere=limit.elsewhere + spent_in(*others))


_copies: dict[tuple[Path | None, SpendingLimit | None], Account] = {}


def _copy(path: Path | None, limit: SpendingLimit | None) -> Account:
    """Return the account in another process: one object per file, in the session of its original process."""
    account = _copies.setdefault((path, limit), Account(path, limit))
    account._opened = True
    return account
