"""Caches and locks that a worker on another machine uses through the command, see `core/executors/hub.py`.

SQLite and file locks do not work on every network drive, so only the command's process opens such a file.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Client
from pathlib import Path
from threading import Lock
from typing import Any

from longmemeval.core import locks
from longmemeval.core.caches.sqlite import SqliteCache
from longmemeval.errors import HarnessError

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
        """Request one operation, see `core/executors/hub.py`, and return its result."""
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
