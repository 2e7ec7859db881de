"""Caches and locks that a worker on another machine asks the command's own process for, see `core/executors/hub.py`.

SQLite and locks of files do not work on every network drive: only the command's process opens such a file.
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
"""What the operation gives."""
_POLL_S = 0.02


class HubLostError(HarnessError):
    """The command is gone, has given this worker up, or refuses it."""


class HubConnection:
    """A worker's connection to the command that it works for. Safe in several threads.

    Args:
        address: host and port.
        key: by which both sides know each other.
        worker: the worker's name.
        versions: of the worker's code and libraries; the command gives no task to one that has others than itself.

    Attributes:
        folder: of the command, on its machine.

    Raises:
        HubLostError: nobody listens there; so do all methods.
    """

    def __init__(self, address: tuple[str, int], key: bytes, worker: str, versions: Mapping[str, str]) -> None:
        self.address = address
        self._lock = Lock()
        with self._told():
            self._connection = Client(address, authkey=key)
        self.folder = str(self.ask("join", worker, dict(versions)))

    def ask(self, operation: str, *given: object) -> Answer:
        """The answer to one question; the operations are those of `core/executors/hub.py`."""
        with self._lock, self._told():
            self._connection.send((operation, given))
            kind, answer = self._connection.recv()
        if kind is not None:
            what, where, fix = answer
            raise kind(what, where=where, fix=fix)
        return answer

    @contextmanager
    def locked(self, path: Path, wait: bool) -> Iterator[None]:
        """Hold the lock of a file, as `locks.locked` does, over all workers and the command."""
        while not self.ask("lock", path):
            if not wait:
                raise locks.LockedError
            time.sleep(_POLL_S)
        try:
            yield
        finally:
            self.ask("unlock", path)

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except (OSError, EOFError) as error:
            raise HubLostError(
                f"A worker cannot reach the command that it works for: {type(error).__name__}",
                where="{}:{}".format(*self.address),
                fix="Workers must reach the machine of the command; LONGMEMEVAL_HUB=HOST:PORT says where it listens",
            ) from error


class ServedCache(SqliteCache):
    """A `SqliteCache` in the command's process."""

    def __init__(self, hub: HubConnection, path: Path) -> None:
        self.path = path
        self.damaged = 0
        self._hub = hub

    def get_many(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """See `SqliteCache`."""
        if not keys:
            return {}
        found, damaged = self._hub.ask("get", self.path, list(keys))
        self.damaged += damaged
        return dict(found)

    def put_many(self, values: Mapping[bytes, bytes], *, receipt: tuple[str, bytes] | None = None) -> int:
        """See `SqliteCache`."""
        return int(self._hub.ask("put", self.path, dict(values), receipt))

    def claim(self, keys: Sequence[bytes]) -> list[bytes]:
        """See `SqliteCache`."""
        return list(self._hub.ask("claim", self.path, list(keys)))

    def release(self, keys: Sequence[bytes]) -> None:
        """See `SqliteCache`."""
        self._hub.ask("release", self.path, list(keys))

    def discard_damaged(self, key: bytes, value: bytes) -> None:
        """See `SqliteCache`."""
        self.damaged += 1
        self._hub.ask("discard", self.path, key, value)

    def close(self) -> None:
        """Nothing: the file is not open here."""


class _Here:
    """What holds for this process."""

    hub: HubConnection | None = None


def connect(
    address: tuple[str, int],
    key: bytes,
    worker: str,
    versions: Callable[[], Mapping[str, str]],
    joined: Callable[[HubConnection], None],
) -> HubConnection:
    """The connection of this process to a command; caches and locks are that command's from now on.

    Args:
        address: where it listens.
        key: by which both sides know each other.
        worker: the name of this process.
        versions: gives those of this process.
        joined: called with a connection that is new.
    """
    if _Here.hub is None or _Here.hub.address != address:
        _Here.hub = HubConnection(address, key, worker, versions())
        locks.LOCK_PROVIDER.held_by = _Here.hub.locked
        joined(_Here.hub)
    return _Here.hub


def disconnect() -> None:
    """Forget the connection; the next task begins a new one."""
    _Here.hub = locks.LOCK_PROVIDER.held_by = None


def is_worker() -> bool:
    """Whether this process works for a command on another machine, or might."""
    return _Here.hub is not None


def check_wanted() -> None:
    """See that the command still waits for what this process does.

    Raises:
        HubLostError: it has ended, or has handed the work to another worker because this one was silent.
    """
    if _Here.hub:
        _Here.hub.ask("beat")


def open_cache(path: Path) -> SqliteCache:
    """The cache in that file, wherever it is opened."""
    return ServedCache(_Here.hub, path) if _Here.hub else SqliteCache(path)
