"""Common parts of executors on other machines: tasks by reference, silent workers detected, logs forwarded."""

import logging
import os
import platform
import secrets
import socket
import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from importlib import metadata
from itertools import count
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection, Listener, answer_challenge, deliver_challenge
from pathlib import Path
from threading import Event, RLock, Thread
from typing import Any, Protocol, TypeVar

from longmemeval import __version__
from longmemeval.core.caches import HubConnection, HubLostError, SqliteCache, connect, disconnect
from longmemeval.core.executors.finished import as_finished
from longmemeval.core.executors.protocol import Done, Task
from longmemeval.core.files import sha256_file, sha256_text
from longmemeval.core.journal import LockedError, locked
from longmemeval.errors import HarnessError

# The versions that a process brings to a task: with other code or libraries, the same task may give other bytes.

_LIBRARIES = ("numpy", "hnswlib", "msgspec", "tiktoken", "fastembed", "onnxruntime")
"""Libraries that compute, count or write the content of parts."""
_NOT_SOURCE = frozenset({".pyc", ".css", ".js", ".j2", ".typed"})
_HASH_CHARACTERS = 12
"""Number of characters of a hash to show."""
_BEGAN = time.time()


def identity() -> dict[str, str]:
    """Return the versions of this process by name: the package, its source (a sha256), Python and the libraries."""
    package = Path(__file__).parents[2]
    files = [path for path in package.rglob("*") if path.suffix not in _NOT_SOURCE and path.is_file()]
    lines = sorted(f"{path.relative_to(package).as_posix()}:{sha256_file(path)}\n" for path in files)
    # In that case the loaded code differs from the hashed files.
    later = ", changed since the process began" if any(path.stat().st_mtime > _BEGAN for path in files) else ""
    versions = {"longmemeval": __version__, "its source": sha256_text("".join(lines)) + later}
    versions["Python"] = ".".join(platform.python_version_tuple()[:2])
    for library in _LIBRARIES:
        try:
            versions[library] = metadata.version(library)
        except metadata.PackageNotFoundError:
            continue  # The code that needs the library reports that it is missing.
    return versions


def differing(theirs: Mapping[str, str], ours: Mapping[str, str]) -> str:
    """Describe how a worker differs from the command, `numpy 2.0.1 (here 2.1.0), …`; empty if it does not.

    Args:
        theirs: identity of the worker; empty for an earlier version that sends none.
        ours: identity of the command. A library that only one side has is ignored.
    """
    if not theirs:
        return "longmemeval of an earlier version, which does not say which"
    names = [name for name in ours if name in theirs and theirs[name] != ours[name]]
    return ", ".join(f"{name} {_short(theirs[name])} (here {_short(ours[name])})" for name in names)


def _short(version: str) -> str:
    digest, comma, remark = version.partition(",")
    return f"{digest[:_HASH_CHARACTERS]}…{comma}{remark}" if len(digest) > _HASH_CHARACTERS * 2 else version


# Services of the command's own process for workers on other machines: tasks, caches, locks and logging.
#
# One connection per worker process. Everything a worker holds (claims on texts that it embeds, locks) is released
# when the connection ends, and when the worker has been silent for too long.

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


T = TypeVar("T")
R = TypeVar("R")

WORKER_TIMEOUT = "LONGMEMEVAL_WORKER_TIMEOUT"
"""Environment variable with the seconds of silence after which a worker is given up."""
_TIMEOUT_S = 60.0
_BEATS_PER_TIMEOUT = 6
_ATTEMPTS = 3
_LOG = logging.getLogger(__name__)


class Engine(Protocol):
    """A running cluster."""

    workers: int
    """Number of tasks that the cluster runs at a time."""

    def submit(self, call: "Reference") -> "Future[Done[Any] | None]":
        """Run `call` on a worker, again on another if that worker is lost."""
        ...

    def silent(self, seconds: float) -> list[str]:
        """Return the workers that the cluster itself has not heard from for `seconds`."""
        ...

    def has_workers(self) -> bool:
        """Return whether there are any workers."""
        ...

    def drop(self, worker: str) -> None:
        """Move the work of a hanging worker to another one."""
        ...


@dataclass(frozen=True)
class Reference:
    """A reference to a task: it says where to fetch the task, and is all that goes through the scheduler."""

    address: tuple[str, int]
    key: bytes
    number: int
    timeout: float
    worker: Callable[[], str]
    """Function that returns the name of the worker in which it runs."""

    def __call__(self) -> Done[Any] | None:
        """Do the task.

        Return None if the command has given it to another worker, refuses this worker, or has ended.
        """
        try:
            hub = connect(self.address, self.key, self.worker(), identity, self._joined)
            task: Task[Any, Any] | None = hub.ask("task", self.number)
            done = task() if task else None
        except HubLostError:
            disconnect()
            return None
        return None if done and getattr(done.outcome, "kind", None) is HubLostError else done

    def _joined(self, hub: HubConnection) -> None:
        with suppress(OSError):  # On a shared drive, the user's relative paths are relative to this folder.
            os.chdir(hub.folder)
        Thread(target=_beat, args=(hub, self.timeout / _BEATS_PER_TIMEOUT), daemon=True).start()
        root = logging.getLogger("longmemeval")
        for handler in [handler for handler in root.handlers if isinstance(handler, _ToHub)]:
            root.removeHandler(handler)
        root.addHandler(_ToHub(hub))


class _ToHub(logging.Handler):
    """Sends log records of this worker to the command."""

    def __init__(self, hub: HubConnection) -> None:
        super().__init__(logging.WARNING)
        self._hub = hub

    def emit(self, record: logging.LogRecord) -> None:
        with suppress(HubLostError):
            self._hub.ask("tell", record.levelno, record.name, record.getMessage())


def _beat(hub: HubConnection, seconds: float) -> None:
    with suppress(HubLostError):
        while True:
            time.sleep(seconds)
            hub.ask("beat")


def run(
    engine: Engine, host: str, tasks: Iterable[Task[T, R]], workers: int | None, worker: Callable[[], str]
) -> Generator[Done[R], None, None]:
    """Provide everything that `Executor.map` promises on a cluster.

    Args:
        host: address of this machine that its workers can reach.
        tasks: tasks to call.
        workers: number of workers at a time; None: all there are.
        worker: module-level function that returns the name of the worker it is called in, as `engine.drop` takes it.

    Raises:
        HarnessError: the address cannot be listened at, or a task lost its worker again and again.
    """
    timeout = _timeout()
    ended = Event()
    waited_for: set[Future[Done[R]]] = set()
    with closing(Hub(host)) as hub:

        def watch() -> None:
            while not ended.wait(timeout / _BEATS_PER_TIMEOUT):
                silent_here = hub.drop_silent(_BEATS_PER_TIMEOUT)
                with suppress(Exception):
                    silent_here += engine.silent(timeout)
                for silent in dict.fromkeys(silent_here):
                    _LOG.warning("A worker has been silent for %g s; its work is done elsewhere: %s", timeout, silent)
                    with suppress(Exception):
                        engine.drop(silent)
                if not engine.has_workers():
                    fix = f"Their logs say why (is longmemeval installed there?). Start some. {RERUN}"
                    gone = HarnessError("All workers of the cluster are gone", fix=fix)
                    for result in list(waited_for):
                        with suppress(InvalidStateError):
                            result.set_exception(gone)

        def submit(task: Task[T, R]) -> "Future[Done[R]]":
            result = Future[Done[R]]()
            number = hub.lend(task, lambda: result.running() or result.set_running_or_notify_cancel())
            result.add_done_callback(lambda _: hub.take_back(number))
            call = Reference(hub.address, hub.key, number, timeout, worker)
            waited_for.add(result)
            result.add_done_callback(waited_for.discard)
            _attempt(result, lambda: engine.submit(call), str(task.key), _ATTEMPTS, hub)
            return result

        watcher = Thread(target=watch, daemon=True)
        watcher.start()
        try:
            yield from as_finished(submit, tasks, workers or engine.workers)
        finally:
            ended.set()


def _attempt(
    result: "Future[Done[R]]", begin: Callable[[], "Future[Done[R] | None]"], key: str, attempts: int, hub: Hub
) -> None:
    """Set `result` to the outcome of the first attempt whose worker does not lose the command."""

    def take(future: "Future[Done[R] | None]") -> None:
        if result.done():
            return
        if future.cancelled():
            result.set_exception(HarnessError("The cluster cancelled a task", where=key, fix=RERUN))
        elif error := future.exception():
            result.set_exception(error)
        elif done := future.result():
            result.set_result(done)
        elif refusal := hub.refusal:
            result.set_exception(refusal)
        elif attempts > 1:
            _attempt(result, begin, key, attempts - 1, hub)
        else:
            what = f"Workers could not reach this machine, or lost it, {_ATTEMPTS} times"
            fix = "Set LONGMEMEVAL_HUB=HOST:PORT to an address of this machine that workers reach, and " + RERUN.lower()
            result.set_exception(HarnessError(what, where=key, fix=fix))

    begin().add_done_callback(take)


def _timeout() -> float:
    setting = os.environ.get(WORKER_TIMEOUT, "")
    try:
        seconds = float(setting) if setting else _TIMEOUT_S
    except ValueError:
        seconds = 0.0
    if seconds <= 0:
        what = f"{WORKER_TIMEOUT} is not a number of seconds: {setting!r}"
        raise HarnessError(what, fix="Set it to a number such as 60")
    return seconds


def host_towards(address: str) -> str:
    """Return the address of this machine as seen by `HOST:PORT`."""
    host, _, port = address.rpartition("://")[2].rpartition(":")
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((host, int(port)))  # Sends nothing.
            return str(probe.getsockname()[0])
    except (OSError, ValueError):
        return "127.0.0.1"
