"""Ray: tasks on the workers of an existing cluster or of one started on this machine. The extra `ray`."""

import logging
import os
import signal
import socket
import time
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

from longmemeval.core.executors.cluster import Reference, host_towards, run
from longmemeval.core.executors.protocol import Done, Task
from longmemeval.core.installation import install_command
from longmemeval.errors import HarnessError, needed

T = TypeVar("T")
R = TypeVar("R")

ADDRESS = "RAY_ADDRESS"
"""Ray's own environment variable with the address of a cluster; Ray sets it in jobs that it starts."""
_CONNECT_S = 5
_WORKERS_S = 300
"""Seconds for which a cluster may have no workers: an autoscaling cluster takes minutes to start some."""
_STORE_BYTES = 80 * 2**20
"""Size of Ray's object store, close to its minimum: no text goes through the store."""


class Ray:
    """A Ray cluster.

    Args:
        address: head of the cluster (`host:6379`), or `auto` on one of its machines; empty: from the environment, else
            a cluster on this machine that ends with the command.
    """

    embeds_in_tasks = True

    def __init__(self, address: str = "") -> None:
        self._address = address

    def at(self, address: str) -> "Ray":
        """Return the executor for the cluster at `address`."""
        return Ray(address)

    def map(self, tasks: Iterable[Task[T, R]], workers: int | None) -> Generator[Done[R], None, None]:
        """Run the tasks; see `Executor.map`.

        Raises:
            HarnessError: Ray is not installed, no cluster is at the address, or a haystack lost its worker several
                times.
        """
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        what = "The executor 'ray' needs Ray, which is not installed"
        with needed(what, f"Run: {install_command('ray')}"):
            import ray
        with _connected(self._address or os.environ.get(ADDRESS, ""), workers) as host:
            try:
                yield from run(_Engine(), host, tasks, workers, worker_name)
            except (ray.exceptions.WorkerCrashedError, ray.exceptions.OutOfMemoryError) as error:
                raise HarnessError(
                    "Workers crashed several times on the same haystack (perhaps out of memory)",
                    fix="Give workers more memory and rerun the command; finished work is kept",
                ) from error
            except ray.exceptions.RayError as error:
                raise HarnessError(
                    f"Ray's workers cannot do the work: {str(error).strip().splitlines()[-1]}",
                    fix="Install the same longmemeval on all machines and rerun the command; finished work is kept",
                ) from error


def worker_name() -> str:
    """Return the name of the worker in which this runs: its machine and process."""
    import ray

    return f"{ray.util.get_node_ip_address()}:{os.getpid()}"


@contextmanager
def _connected(address: str, workers: int | None) -> Iterator[str]:
    """Connect this process as a driver of the cluster; yield the address of this machine that workers reach.

    Raises:
        HarnessError: there is no cluster at the address, or it has another version of Ray or Python.
    """
    import ray

    if ray.is_initialized():  # The program that calls us has done so.
        yield host_towards(ray.get_runtime_context().gcs_address)
        return
    begin = partial(ray.init, log_to_driver=False, logging_level=logging.ERROR)
    try:
        if not address:
            begin("local", num_cpus=workers, object_store_memory=_STORE_BYTES, include_dashboard=False)
        else:
            _check_reachable(address)
            begin(address)
    except (ConnectionError, TimeoutError, RuntimeError, ValueError, OSError) as error:
        raise HarnessError(
            f"No usable Ray cluster answers at that address: {error}",
            where=address or "this machine",
            fix="Start one (`ray start --head`), or correct --address, like host:6379; a cluster that asks for a token "
            "needs RAY_AUTH_MODE=token",
        ) from error
    try:
        yield host_towards(ray.get_runtime_context().gcs_address) if address else "127.0.0.1"
    finally:
        ray.shutdown()


def _check_reachable(address: str) -> None:
    """Connect to the address once, since Ray itself would try for minutes."""
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if host and port.isdigit():
        socket.create_connection((host, int(port)), _CONNECT_S).close()


class _Engine:
    """The cluster that this process is connected to, as `cluster.run` expects it."""

    def __init__(self) -> None:
        import ray

        self._call = ray.remote(_do)
        self._kill = ray.remote(_kill)
        self.workers = max(1, self._cpus())
        self._had_workers = time.monotonic()

    def submit(self, call: Reference) -> "Future[Done[Any] | None]":
        future: Future[Done[Any] | None] = self._call.remote(call).future()
        return future

    def silent(self, seconds: float) -> list[str]:
        """Return an empty list: Ray watches its machines itself."""
        return []

    def has_workers(self) -> bool:
        if self._cpus():
            self._had_workers = time.monotonic()
        return time.monotonic() < self._had_workers + _WORKERS_S

    def drop(self, worker: str) -> None:
        """End the worker through a task on the same machine; Ray then runs its work elsewhere."""
        machine, _, process = worker.rpartition(":")
        self._kill.options(num_cpus=0, resources={f"node:{machine}": 0.001}).remote(int(process))

    def _cpus(self) -> int:
        import ray

        return int(ray.cluster_resources().get("CPU", 0))


def _do(call: Reference) -> Done[Any] | None:
    return call()


def _kill(process: int) -> None:
    os.kill(process, signal.SIGKILL)
