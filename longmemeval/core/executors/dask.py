"""Dask: tasks on the workers of a scheduler, or of a local cluster. The extra `dask`."""

import logging
import os
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from longmemeval.core.event_loop import complete
from longmemeval.core.executors.cluster import Reference, host_towards, run
from longmemeval.core.executors.protocol import Done, Task
from longmemeval.core.installation import install_command
from longmemeval.errors import HarnessError, needed

if TYPE_CHECKING:
    from distributed import Client

T = TypeVar("T")
R = TypeVar("R")

SCHEDULER = "LONGMEMEVAL_DASK_SCHEDULER"
"""Environment variable with the scheduler's address."""
_CONNECT_S = 5
_WORKERS_S = 60


class Dask:
    """The cluster of a scheduler.

    Args:
        address: address of the scheduler (`tcp://host:8786`); empty: from the environment, else a local cluster.
    """

    embeds_in_tasks = True

    def __init__(self, address: str = "") -> None:
        self._address = address

    def at(self, address: str) -> "Dask":
        """Return the executor for the scheduler at `address`."""
        return Dask(address)

    def map(self, tasks: Iterable[Task[T, R]], workers: int | None) -> Generator[Done[R], None, None]:
        """Run the tasks; see `Executor.map`.

        Raises:
            HarnessError: Dask is not installed, no scheduler is at the address, or a haystack lost its worker several
                times.
        """
        what = "The executor 'dask' needs Dask, which is not installed"
        with needed(what, f"Run: {install_command('dask')}"):
            import distributed
        address = self._address or os.environ.get(SCHEDULER, "")
        with ExitStack() as stack:
            stack.enter_context(_silenced())
            if not address:
                cluster = distributed.LocalCluster(workers, threads_per_worker=1, dashboard_address=None)
                address = stack.enter_context(cluster).scheduler_address
            client = stack.enter_context(_client(address))
            try:
                yield from run(_Engine(client), host_towards(address), tasks, workers, worker_name)
            except distributed.scheduler.KilledWorker as error:
                raise HarnessError(
                    "Workers crashed several times on the same haystack (perhaps out of memory)",
                    fix="Give workers more memory and rerun the command; finished work is kept",
                ) from error


def worker_name() -> str:
    """Return the name of the worker in which this runs."""
    import distributed

    return str(distributed.get_worker().address)


def _client(address: str) -> "Client":
    """Return a client with workers.

    Raises:
        HarnessError: there is no scheduler, or it has no workers.
    """
    import distributed

    try:
        # A client whose construction fails would fail again, visibly, when it is garbage-collected.
        complete(_probe(address))
        client = distributed.Client(address, timeout=_CONNECT_S, set_as_default=False)
    except (OSError, ValueError, MemoryError) as error:  # Another protocol's first bytes are read as a length.
        raise HarnessError(
            "No Dask scheduler answers at that address",
            where=address,
            fix="Start one (`dask scheduler`), or correct --scheduler, like tcp://host:8786",
        ) from error
    try:
        client.wait_for_workers(1, timeout=_WORKERS_S)
    except TimeoutError as error:
        client.close()
        raise HarnessError(
            f"The Dask scheduler got no workers in {_WORKERS_S} s",
            where=address,
            fix=f"Start some: dask worker {address} --nthreads 1",
        ) from error
    return client


async def _probe(address: str) -> None:
    """Greet the scheduler; raise the error that would prevent a client."""
    import distributed

    security = distributed.Security().get_connection_args("client")
    (await distributed.comm.connect(address, timeout=_CONNECT_S, **security)).abort()


@contextmanager
def _silenced() -> Iterator[None]:
    """Silence Dask's own log, which would add tracebacks to errors that we report ourselves."""
    loggers = [
        logger
        for name, logger in logging.root.manager.loggerDict.items()
        if isinstance(logger, logging.Logger) and name.startswith(("distributed", "tornado")) and not logger.disabled
    ]
    for logger in loggers:
        logger.disabled = True
    try:
        yield
    finally:
        for logger in loggers:
            logger.disabled = False


class _Engine:
    """A client as `cluster.run` expects it."""

    def __init__(self, client: "Client") -> None:
        self._client = client
        self._pool = client.get_executor(pure=False)
        self.workers = max(1, sum(client.nthreads().values()))

    def submit(self, call: Reference) -> "Future[Done[Any] | None]":
        future: Future[Done[Any] | None] = self._pool.submit(call)
        return future

    def silent(self, seconds: float) -> list[str]:
        """Return the workers that the scheduler heard `seconds` earlier than the one it heard last."""
        workers = self._client.scheduler_info(n_workers=-1)["workers"]
        seen = {worker: state["last_seen"] for worker, state in workers.items()}
        return [worker for worker, last in seen.items() if last < max(seen.values()) - seconds]

    def has_workers(self) -> bool:
        return bool(self._client.scheduler_info(n_workers=-1)["workers"])

    def drop(self, worker: str) -> None:
        client = self._client
        client.sync(client.scheduler.unregister, address=worker, stimulus_id="longmemeval-silent")
