"""Real clusters as processes of this machine, and what a preparation on them has to be equal to."""

import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from tests.pipeline.helpers import timeless
from tests.server import ModelServer
from tests.support import clean_environment

KEY = "local"
_STARTS = 4


def embedded(server: ModelServer, since: int = 0) -> Counter[str]:
    """How often each text was embedded, from that request on."""
    return Counter(text for request in server.requests[since:] for text in request.body["input"])


def made(folder: Path) -> dict[str, object]:
    """All that `prepare` and `retrieval` make but times, expenses and settings."""
    return {
        name: one
        for name, one in timeless(folder).items()
        if not name.endswith(("prepare.jsonl", "spending.jsonl", "run.json", ".pyc"))
    }


def wait_until(reached: Callable[[], bool]) -> None:
    """Wait for a condition that comes about."""
    deadline = time.monotonic() + 250
    while not reached():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def warn(text: str) -> int:
    """A task that has something to say; the process that it is in."""
    logging.getLogger("longmemeval.here").warning("Look: %s", text)
    return os.getpid()


class Cluster(ABC):
    """A cluster at work.

    Args:
        folder: which is there, for what it writes.
        workers: how many; 0: the usual number.

    Attributes:
        at: the options of a command that uses it.
        spec: the executor with its address.
    """

    name = ""
    workers = 2

    def __init__(self, folder: Path, workers: int = 0) -> None:
        self.folder = folder
        self.workers = workers or self.workers
        self.spec = f"{self.name}@{self.start()}"
        self.at = ("--executor", self.name, "--address", self.spec.partition("@")[2])

    @abstractmethod
    def start(self) -> str:
        """Start it; its address."""

    @abstractmethod
    def end(self) -> None:
        """End all processes, also those that are stopped."""

    def begin(self, module: str, *arguments: str | Path, path: str = "") -> subprocess.Popen[bytes]:
        """A process of the cluster; `path` is searched for packages before our own."""
        environment = clean_environment(OPENAI_API_KEY=KEY)
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, (path, environment["PYTHONPATH"])))
        return subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            cwd=self.folder,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )


class DaskCluster(Cluster):
    """A Dask scheduler and workers over TCP."""

    name = "dask"
    workers = 3

    def start(self) -> str:
        found, here = self.folder / "scheduler.json", ("--host", "127.0.0.1", "--no-dashboard")
        scheduler = self.begin("distributed.cli.dask_scheduler", "--port", "0", "--scheduler-file", found, *here)
        wait_until(lambda: found.exists() and found.read_text().rstrip().endswith("}"))
        address = str(json.loads(found.read_text())["address"])
        self._worker = ("distributed.cli.dask_worker", address, "--nthreads", "1", "--no-nanny", *here)
        self._processes = [*(self.begin(*self._worker) for _ in range(self.workers)), scheduler]
        return address

    def replace(self, number: int, path: str = "") -> None:
        """Kill that worker, and begin another, which looks for packages in the folder `path` first."""
        self._processes[number].kill()
        self._processes[number].wait()
        self._processes[number] = self.begin(*self._worker, path=path)

    def kill_scheduler(self) -> None:
        """Let the workers and the command lose it."""
        self._processes[-1].kill()
        self._processes[-1].wait()

    def end(self) -> None:
        for process in self._processes:
            process.kill()
            process.wait()


class RayCluster(Cluster):
    """A Ray of this machine."""

    name = "ray"

    def start(self) -> str:
        self._short = Path(tempfile.mkdtemp(prefix="ray"))  # Ray's sockets take paths of 107 bytes.
        node = ("--head", "--block", "--port", "0", "--num-cpus", str(self.workers), "--include-dashboard", "false")
        store = ("--object-store-memory", "80000000", "--temp-dir", self._short, "--disable-usage-stats")
        found = self._short / "ray_current_cluster"
        for _ in range(_STARTS):  # Its parts give each other seconds to start, too few on a busy machine.
            self._node = self.begin("ray.scripts.scripts", "start", *node, *store)
            wait_until(lambda: self._node.poll() is not None or (found.exists() and ":" in found.read_text()))
            if self._node.poll() is None:
                return found.read_text().strip()
        raise AssertionError(f"Ray does not start: {self._node.returncode}")

    def end(self) -> None:
        self._node.send_signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            self._node.wait(20)
        self._node.kill()
        self._node.wait()
        shutil.rmtree(self._short, ignore_errors=True)
