"""Common parts of executors on other machines: tasks by reference, silent workers detected, logs forwarded."""

import logging
import os
import socket
import time
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, InvalidStateError
from contextlib import closing, suppress
from dataclasses import dataclass
from threading import Event, Thread
from typing import Any, Protocol, TypeVar

from longmemeval.core.caches.served import HubConnection, HubLostError, connect, disconnect
from longmemeval.core.executors.finished import as_finished
from longmemeval.core.executors.hub import RERUN, Hub
from longmemeval.core.executors.identity import identity
from longmemeval.core.executors.protocol import Done, Task
from longmemeval.errors import HarnessError

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
