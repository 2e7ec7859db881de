"""Caches: within one process, and in a file that processes share."""

import asyncio
import hashlib
import logging
import sqlite3
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, asynccontextmanager, contextmanager
from multiprocessing.connection import Client
from pathlib import Path
from threading import Lock
from typing import Any, Generic, TypeVar

import msgspec

from longmemeval.core import journal as locks
from longmemeval.core.journal import LockedError, locked
from longmemeval.errors import HarnessError

__path__: list[str] = []
"""Names of version 0.2 below this one are found (`core/moved.py`)."""


# A content-addressed store of bytes in one SQLite file, shared by the embedding cache and the response cache.

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


# One maker per value: among all processes and event loops that share a cache, one computes it and the others wait.

_LOOK_S = 0.02


@asynccontextmanager
async def key_lock(cache: SqliteCache | None, key: bytes) -> AsyncIterator[None]:
    """Hold `key` against all others that share `cache`; after a wait, look into the cache again.

    The lock is the operating system's: it is released when a process is killed.
    """
    with ExitStack() as held:
        while cache:
            try:
                held.enter_context(locked(_place(cache, key), wait=False))
                break
            except LockedError:
                await asyncio.sleep(_LOOK_S)
        yield


@contextmanager
def only_maker_blocking(cache: SqliteCache, key: bytes) -> Iterator[None]:
    """Hold `key` like `key_lock`, for synchronous code."""
    with locked(_place(cache, key), wait=True):
        yield


def _place(cache: SqliteCache, key: bytes) -> Path:
    return cache.path.with_name(f"{cache.path.name}.{key.hex()[:32]}")


# A cache for several threads: each value is computed once, and the most recently used ones are kept.

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class SingleFlightCache(Generic[K, V]):
    """Values by key. A caller waits for a value that is being computed; a failed computation is tried again.

    Args:
        limit: how much to keep, in units of `size`; None: everything. The newest value stays, whatever its size.
        size: size of one value; if it grows while the value is kept, call `weigh`.
    """

    def __init__(self, limit: int | None = None, size: Callable[[V], int] = lambda value: 1) -> None:
        self._limit = limit
        self._size = size
        self._lock = Lock()
        self._values: OrderedDict[K, Future[V]] = OrderedDict()
        self._sizes: dict[K, int] = {}
        self._held = 0

    def get(self, key: K, make: Callable[[], V]) -> V:
        """Return the value of `key`, computed by `make` if it is not cached.

        `make` may get other keys, but not `key`.
        """
        own = Future[V]()
        with self._lock:
            shared = self._values.setdefault(key, own)
            self._values.move_to_end(key)
        if shared is own:
            try:
                own.set_result(make())
            except BaseException as error:
                self.drop(key)
                own.set_exception(error)
            self.weigh(key)
        return shared.result()

    def peek(self, key: K) -> V | None:
        """Return the value of `key` if present, without waiting for one that is being computed."""
        with self._lock:
            value = self._values.get(key)
            if value is None or not value.done():
                return None
            self._values.move_to_end(key)
        return value.result()

    def drop(self, key: K) -> None:
        """Forget the value of `key`, if there is one: the next caller computes it again."""
        with self._lock:
            self._forget(key)

    def weigh(self, key: K) -> None:
        """Count the value of `key` (again), and drop the least recently used values beyond the limit."""
        if self._limit is None:
            return
        with self._lock:
            value = self._values.get(key)
            if value is None or not value.done():
                return
            size = self._size(value.result())
            self._held += size - self._sizes.get(key, 0)
            self._sizes[key] = size
            excess, gone = self._held - self._limit, list[K]()
            for old in self._values:
                if excess <= 0:
                    break
                if old != key and old in self._sizes:
                    excess -= self._sizes[old]
                    gone.append(old)
            for old in gone:
                self._forget(old)

    def _forget(self, key: K) -> None:
        self._values.pop(key, None)
        self._held -= self._sizes.pop(key, 0)


# Caches and locks that a worker on another machine uses through the command, see `core/executors/cluster.py`.
#
# SQLite and file locks do not work on every network drive, so only the command's process opens such a file.

Answer = Any
"""Result of the operation."""
_POLL_S = 0.02


class HubLostError(HarnessError):
    """The command is gone, has given this worker up, or refuses it."""


class HubConnection:
    """A worker's connection to the command that it works for. Thread-safe.

    Args:
        address: host and port.
        key: shared secret of both sides.
        worker: name of the worker.
        versions: versions of the worker's code and libraries; the command gives no task to a worker with others.

    Attributes:
        folder: working folder of the command, on its machine.

    Raises:
        HubLostError: nothing listens there. All methods raise it if the command is gone.
    """

    def __init__(self, address: tuple[str, int], key: bytes, worker: str, versions: Mapping[str, str]) -> None:
        self.address = address
        self._lock = Lock()
        with self._translated_errors():
            self._connection = Client(address, authkey=key)
        self.folder = str(self.ask("join", worker, dict(versions)))

    def ask(self, operation: str, *arguments: object) -> Answer:
        """Request one operation, see `core/executors/cluster.py`, and return its result."""
        with self._lock, self._translated_errors():
            self._connection.send((operation, arguments))
            kind, answer = self._connection.recv()
        if kind is not None:
            what, where, fix = answer
            raise kind(what, where=where, fix=fix)
        return answer

    @contextmanager
    def locked(self, path: Path, wait: bool) -> Iterator[None]:
        """Hold the lock of a file, as `locks.locked` does, across all workers and the command."""
        while not self.ask("lock", path):
            if not wait:
                raise locks.LockedError
            time.sleep(_POLL_S)
        try:
            yield
        finally:
            self.ask("unlock", path)

    @contextmanager
    def _translated_errors(self) -> Iterator[None]:
        try:
            yield
        except (OSError, EOFError) as error:
            raise HubLostError(
                f"A worker cannot reach the command that it works for: {type(error).__name__}",
                where="{}:{}".format(*self.address),
                fix="Workers must reach the machine of the command; LONGMEMEVAL_HUB=HOST:PORT sets where it listens",
            ) from error


class ServedCache(SqliteCache):
    """A `SqliteCache` in the command's process."""

    def __init__(self, hub: HubConnection, path: Path) -> None:
        self.path = path
        self.damaged = 0
        self._hub = hub

    def get_many(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """Return the stored values; see `SqliteCache`."""
        if not keys:
            return {}
        found, damaged = self._hub.ask("get", self.path, list(keys))
        self.damaged += damaged
        return dict(found)

    def put_many(self, values: Mapping[bytes, bytes], *, receipt: tuple[str, bytes] | None = None) -> int:
        """Store values; see `SqliteCache`."""
        return int(self._hub.ask("put", self.path, dict(values), receipt))

    def claim(self, keys: Sequence[bytes]) -> list[bytes]:
        """Claim keys; see `SqliteCache`."""
        return list(self._hub.ask("claim", self.path, list(keys)))

    def release(self, keys: Sequence[bytes]) -> None:
        """Release claimed keys; see `SqliteCache`."""
        self._hub.ask("release", self.path, list(keys))

    def discard_damaged(self, key: bytes, value: bytes) -> None:
        """Forget a damaged value; see `SqliteCache`."""
        self.damaged += 1
        self._hub.ask("discard", self.path, key, value)

    def close(self) -> None:
        """Do nothing: the file is not open here."""


class _Here:
    """The connection state of this process."""

    hub: HubConnection | None = None


def connect(
    address: tuple[str, int],
    key: bytes,
    worker: str,
    versions: Callable[[], Mapping[str, str]],
    joined: Callable[[HubConnection], None],
) -> HubConnection:
    """Connect this process to a command, which holds its caches and locks from now on.

    Args:
        address: address at which the command listens.
        key: shared secret of both sides.
        worker: name of this process.
        versions: returns the versions of this process.
        joined: called with a new connection.
    """
    if _Here.hub is None or _Here.hub.address != address:
        _Here.hub = HubConnection(address, key, worker, versions())
        locks.LOCK_PROVIDER.held_by = _Here.hub.locked
        joined(_Here.hub)
    return _Here.hub


def disconnect() -> None:
    """Forget the connection; the next task opens a new one."""
    _Here.hub = locks.LOCK_PROVIDER.held_by = None


def is_worker() -> bool:
    """Return whether this process works, or might work, for a command on another machine."""
    return _Here.hub is not None


def check_wanted() -> None:
    """Check that the command still waits for the work of this process.

    Raises:
        HubLostError: the command has ended, or has given the work to another worker because this one was silent.
    """
    if _Here.hub:
        _Here.hub.ask("beat")


def open_cache(path: Path) -> SqliteCache:
    """Return the cache in the file `path`, opened here or by the command."""
    return ServedCache(_Here.hub, path) if _Here.hub else SqliteCache(path)
