"""Services of the command's own process for workers on other machines: tasks, caches, locks and logging.

One connection per worker process. Everything a worker holds (claims on texts that it embeds, locks) is released when
the connection ends, and when the worker has been silent for too long.
"""

import logging
import os
import secrets
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from itertools import count
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection, Listener, answer_challenge, deliver_challenge
from pathlib import Path
from threading import RLock, Thread
from typing import Any

from longmemeval.core.caches.served import HubLostError
from longmemeval.core.caches.sqlite import SqliteCache
from longmemeval.core.executors.identity import differing, identity
from longmemeval.core.executors.protocol import Task
from longmemeval.core.locks import LockedError, locked
from longmemeval.errors import HarnessError

HUB = "LONGMEMEVAL_HUB"
"""Environment variable with the host and port at which workers reach the command; the port is optional."""
RERUN = "Rerun the command; finished work is kept"


class _Peer:
    """One worker process."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.worker = ""
        self.waits = False
        """True while the worker waits for our answer, and so cannot send anything."""
        self.silent_looks = 0
        self.claims: set[tuple[Path, bytes]] = set()
        self.locks: dict[Path, ExitStack] = {}


class Hub:
    """The command's listener for workers, until it is closed.

    Args:
        host: an address of this machine that workers can reach.

    Attributes:
        address: host and port.
        key: shared secret of both sides.

    Raises:
        HarnessError: the address cannot be listened at.
    """

    def __init__(self, host: str) -> None:
        host, _, port = os.environ.get(HUB, host).partition(":")
        self.key = secrets.token_bytes(32)
        try:
            self._listener = Listener((host, int(port or 0)), backlog=128)
        except (OSError, ValueError) as error:
            raise HarnessError(
                f"The command cannot listen for workers at {host}:{port or 0}: {error}",
                fix=f"Set {HUB}=HOST:PORT to an address of this machine that workers can reach",
            ) from error
        self.address = (host, int(self._listener.address[1]))
        self._lock = RLock()
        self._numbers = count()
        self._tasks: dict[int, tuple[Task[Any, Any], Callable[[], bool]]] = {}
        self._caches: dict[Path, SqliteCache] = {}
        self._peers: set[_Peer] = set()
        self._claimed: set[tuple[Path, bytes]] = set()
        self._own_versions: dict[str, str] = {}
        self._refused: dict[str, str] = {}
        """Differing versions of the workers that get no task, by name of the worker."""
        Thread(target=self._accept, daemon=True).start()

    def lend(self, task: Task[Any, Any], begins: Callable[[], bool]) -> int:
        """Register `task` and return the number by which workers ask for it, until it is taken back.

        Args:
            begins: called when a worker asks for the task; returns whether it is still to be done.
        """
        with self._lock:
            number = next(self._numbers)
            self._tasks[number] = task, begins
        return number

    def take_back(self, number: int) -> None:
        """Forget a task that is done."""
        with self._lock:
            self._tasks.pop(number, None)

    def drop_silent(self, looks: int) -> list[str]:
        """Drop the workers that said nothing during the last `looks` calls, and return their names.

        Their claims and locks are released, and they are ignored from then on. Calls are counted, not seconds, so that
        no worker counts as silent while this process was stopped. A worker that waits for an answer, or has yet to
        join, does not count as silent either.
        """
        with self._lock:
            watched = [peer for peer in self._peers if peer.worker and not peer.waits]
            silent = [peer for peer in watched if peer.silent_looks >= looks]
            for peer in watched:
                peer.silent_looks += 1
            for peer in silent:
                self._leave(peer)
        return [peer.worker for peer in silent]

    @property
    def refusal(self) -> HarnessError | None:
        """The reason why there can be no result: workers with other versions.

        Such workers might write other bytes under the same recipe.
        """
        with self._lock:
            differences = [f"worker {worker} has {differs}" for worker, differs in sorted(self._refused.items())]
        if not differences:
            return None
        fix = f"Install the same versions on all machines and restart the workers. {RERUN}"
        what = f"The workers of the cluster have other versions than this machine: {'; '.join(differences)}"
        return HarnessError(what, fix=fix)

    def close(self) -> None:
        """Stop listening and drop all workers."""
        with suppress(OSError):
            self._listener.close()
        with self._lock:
            for peer in list(self._peers):
                self._leave(peer)
            for cache in self._caches.values():
                cache.close()
            self._caches.clear()

    def _accept(self) -> None:
        while True:
            try:
                connection = self._listener.accept()
            except (OSError, AttributeError):
                return
            # The thread handles the challenges: a worker that stops amid them must not block the others.
            Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: Connection) -> None:
        peer = _Peer(connection)
        with suppress(OSError, EOFError, AuthenticationError):
            deliver_challenge(connection, self.key)
            answer_challenge(connection, self.key)
            with self._lock:
                self._peers.add(peer)
            while True:
                operation, arguments = connection.recv()
                peer.silent_looks, peer.waits = 0, True
                with self._lock:
                    if peer not in self._peers:
                        break
                    answer = self._answer(peer, operation, arguments)
                peer.waits = False
                connection.send(answer)
        with self._lock:
            self._leave(peer)

    def _answer(self, peer: _Peer, operation: str, arguments: Sequence[Any]) -> tuple[type[HarnessError] | None, Any]:
        try:
            return None, _OPERATIONS[operation](self, peer, *arguments)
        except HarnessError as error:  # Sent in parts: it takes keywords, which unpickling does not restore.
            return type(error), (error.what, error.where, error.fix)
        except Exception as error:
            return HarnessError, (
                f"A worker's request failed: {type(error).__name__}: {error}",
                operation,
                "Report this as a bug",
            )

    def _leave(self, peer: _Peer) -> None:
        self._peers.discard(peer)
        self._claimed -= peer.claims
        for lock in peer.locks.values():
            lock.close()
        peer.claims, peer.locks = set(), {}
        # Shut down rather than closed: its thread may be waiting in it, and then reads the end.
        with suppress(OSError):
            _shut_down(peer.connection)

    def _cache(self, path: Path) -> SqliteCache:
        if path not in self._caches:
            self._caches[path] = SqliteCache(path)
        return self._caches[path]

    # Operations that workers ask for. Called under `_lock`.

    def _join(self, peer: _Peer, worker: str, versions: Mapping[str, str] | None = None) -> str:
        """Return the folder of the command to a worker that has the same versions."""
        peer.worker = worker
        self._own_versions = self._own_versions or identity()
        if differs := differing(versions or {}, self._own_versions):
            self._refused[worker] = differs
            raise HubLostError("The command refuses this worker: it has other versions")
        return os.getcwd()

    def _beat(self, peer: _Peer) -> None:
        pass

    def _task(self, peer: _Peer, number: int) -> Task[Any, Any] | None:
        """Return the task; None if it has been done elsewhere in the meantime, or is no longer wanted."""
        task, begins = self._tasks.get(number, (None, bool))
        return task if begins() else None

    def _log_record(self, peer: _Peer, level: int, name: str, text: str) -> None:
        logging.getLogger(name).log(level, "%s (worker %s)", text, peer.worker)

    def _get(self, peer: _Peer, path: Path, keys: Sequence[bytes]) -> tuple[dict[bytes, bytes], int]:
        cache = self._cache(path)
        before = cache.damaged
        return cache.get_many(keys), cache.damaged - before

    def _put(self, peer: _Peer, path: Path, values: Mapping[bytes, bytes], receipt: tuple[str, bytes] | None) -> int:
        number = self._cache(path).put_many(values, receipt=receipt)
        self._release(peer, path, list(values))
        return number

    def _discard(self, peer: _Peer, path: Path, key: bytes, value: bytes) -> None:
        self._cache(path).discard_damaged(key, value)

    def _claim(self, peer: _Peer, path: Path, keys: Sequence[bytes]) -> list[bytes]:
        there = self._cache(path).get_many(keys)
        free = [key for key in keys if key not in there and (path, key) not in self._claimed]
        claims = {(path, key) for key in free}
        peer.claims |= claims
        self._claimed |= claims
        return free

    def _release(self, peer: _Peer, path: Path, keys: Sequence[bytes]) -> None:
        own = {(path, key) for key in keys} & peer.claims
        peer.claims -= own
        self._claimed -= own

    def _take_lock(self, peer: _Peer, path: Path) -> bool:
        if any(path in other.locks for other in self._peers):
            return False
        with ExitStack() as stack:
            if path.parent.is_dir():  # Otherwise the folder is the worker's own.
                try:
                    stack.enter_context(locked(path, wait=False))
                except LockedError:
                    return False
            peer.locks[path] = stack.pop_all()
        return True

    def _unlock(self, peer: _Peer, path: Path) -> None:
        if lock := peer.locks.pop(path, None):
            lock.close()


def _shut_down(connection: Connection) -> None:
    with socket.socket(fileno=os.dup(connection.fileno())) as held:
        held.shutdown(socket.SHUT_RDWR)


_OPERATIONS: dict[str, Callable[..., Any]] = {
    "join": Hub._join,
    "beat": Hub._beat,
    "task": Hub._task,
    "tell": Hub._log_record,
    "get": Hub._get,
    "put": Hub._put,
    "discard": Hub._discard,
    "claim": Hub._claim,
    "release": Hub._release,
    "lock": Hub._take_lock,
    "unlock": Hub._unlock,
}
