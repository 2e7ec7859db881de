"""A content-addressed store of bytes in one SQLite file, shared by the embedding cache and the response cache."""

import hashlib
import logging
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import msgspec

from longmemeval.errors import HarnessError

_BATCH = 500
_PAGE_BYTES = 16384
"""Bytes per page: seven vectors of 2 kB share a page; with pages of 4 kB each would need its own."""
_CREATE = (
    "CREATE TABLE IF NOT EXISTS entries (key BLOB PRIMARY KEY NOT NULL, value BLOB NOT NULL, checksum BLOB NOT NULL)"
)
_CREATE_RECEIPTS = (
    "CREATE TABLE IF NOT EXISTS receipts"
    " (number INTEGER PRIMARY KEY AUTOINCREMENT, account TEXT NOT NULL, content BLOB NOT NULL)"
)
_INSERT = "INSERT OR IGNORE INTO entries (key, value, checksum) VALUES (?, ?, ?)"

_LOCKED_AT_MOST_S = 60.0
"""How long to wait for another process."""

_LOG = logging.getLogger(__name__)

R = TypeVar("R")


def cache_key(*fields: str) -> bytes:
    """Return a 32-byte key of all `fields`; each is hashed with its length, so no two lists of fields collide."""
    digest = hashlib.sha256()
    for text in fields:
        data = text.encode()
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.digest()


class SqliteCache:
    """A map of keys (at most 64 bytes) to values, both bytes; safe for several processes at once, never half-written.

    Every value has a checksum. A value that does not match it counts as missing; that is logged once per object.

    Args:
        path: the SQLite file; its folder is created if needed.

    Attributes:
        damaged: values found damaged so far.

    Raises:
        HarnessError: the file is not a usable SQLite database, or the disk refuses; all methods raise this too.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.damaged = 0
        path.parent.mkdir(parents=True, exist_ok=True)
        with self._translated_errors():
            # One writer at a time within this object; other processes wait for a lock.
            self._connection = sqlite3.connect(path, timeout=_LOCKED_AT_MOST_S, check_same_thread=False)
            self._create()

    def get_many(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """Return the values of those `keys` that are stored undamaged."""
        found: dict[bytes, bytes] = {}
        with self._translated_errors():
            for key, value, stored in self._rows(keys):
                if stored == checksum(key, value):
                    found[key] = value
                else:
                    self.discard_damaged(key, value)
        return found

    def get_record(self, key: bytes, kind: type[R]) -> R | None:
        """Return the record stored as JSON; None if there is none, or it is unreadable, which removes it."""
        stored = self.get_many([key]).get(key)
        if stored is None:
            return None
        try:
            return msgspec.json.decode(stored, type=kind)
        except msgspec.DecodeError:
            self.discard_damaged(key, stored)
            return None

    def put_many(self, values: Mapping[bytes, bytes], *, receipt: tuple[str, bytes] | None = None) -> int:
        """Store `values` in one transaction; existing keys keep their value.

        Args:
            receipt: account and cost of the values, stored in the same transaction.

        Returns:
            The number of the receipt, which is never reused; 0 without one.
        """
        rows = ((key, value, checksum(key, value)) for key, value in values.items())
        with self._translated_errors(), self._connection:
            self._connection.executemany(_INSERT, rows)
            if receipt is None:
                return 0
            stored = self._connection.execute("INSERT INTO receipts (account, content) VALUES (?, ?)", receipt)
            return stored.lastrowid or 0

    def claim(self, keys: Sequence[bytes]) -> list[bytes]:
        """Return the `keys` to compute here: all, if no other machine might be computing them."""
        return list(keys)

    def release(self, keys: Sequence[bytes]) -> None:
        """Release claimed keys, computed or not, for others."""

    def receipts(self) -> dict[int, tuple[str, bytes]]:
        """Return all receipts by number: account and content."""
        with self._translated_errors():
            rows = self._connection.execute("SELECT number, account, content FROM receipts ORDER BY number").fetchall()
        return {number: (account, content) for number, account, content in rows}

    def drop_receipts(self, numbers: Iterable[int]) -> None:
        """Delete receipts that are recorded elsewhere."""
        with self._translated_errors(), self._connection:
            self._connection.executemany("DELETE FROM receipts WHERE number = ?", ((number,) for number in numbers))

    def discard_damaged(self, key: bytes, value: bytes) -> None:
        """Remove an unreadable `value`, unless another process has replaced it, and count it as damaged."""
        if not self.damaged:
            _LOG.warning("Damaged entries of the cache count as missing and are computed again: %s", self.path)
        self.damaged += 1
        with self._translated_errors(), self._connection:
            self._connection.execute("DELETE FROM entries WHERE key = ? AND CAST(value AS BLOB) = ?", (key, value))

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def _create(self) -> None:
        """Create the tables of a new file; whichever process is second waits, which SQLite itself does not do here."""
        deadline = time.monotonic() + _LOCKED_AT_MOST_S
        while True:
            try:
                self._connection.execute(f"PRAGMA page_size={_PAGE_BYTES}")
                self._connection.execute("PRAGMA journal_mode=WAL")
                self._connection.execute("PRAGMA synchronous=NORMAL")
                self._connection.execute(_CREATE)
                self._connection.execute(_CREATE_RECEIPTS)
                return
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                    raise
                time.sleep(0.01)

    def _rows(self, keys: Sequence[bytes]) -> Iterator[tuple[bytes, bytes, bytes]]:
        # Damage may have turned a value into a text or a number.
        select = "SELECT key, CAST(value AS BLOB), CAST(checksum AS BLOB) FROM entries WHERE key IN"
        for start in range(0, len(keys), _BATCH):
            batch = keys[start : start + _BATCH]
            yield from self._connection.execute(f"{select} ({','.join('?' * len(batch))})", batch).fetchall()

    @contextmanager
    def _translated_errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.OperationalError as error:
            raise HarnessError(
                f"The cache cannot be used: {error}",
                where=str(self.path),
                fix="Free some space, or make the folder writable; nothing is lost",
            ) from error
        except sqlite3.DatabaseError as error:
            raise HarnessError(
                f"The cache is not a usable SQLite file: {error}",
                where=str(self.path),
                fix="Delete it: everything in it can be computed again",
            ) from error


def checksum(key: bytes, value: bytes) -> bytes:
    """Return eight bytes that verify `value` and that it is stored under its own key."""
    return hashlib.blake2b(value, key=key, digest_size=8).digest()
