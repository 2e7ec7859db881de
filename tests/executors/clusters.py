"""Real clusters as processes of this machine, and what a preparation on them has to be equal to."""

import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.pipeline.helpers import timeless
from tests.server import ModelServer
from tests.support import clean_environment

PREPARE = ("prepare", "--dataset", "sample", "--memory", "hybrid", "--memory", "full-history", "--limit", "9")
EMBEDDER = ("--embedder", "openai:text-embedding-3-small", "--api-base")
ALL = ("prepare", "--dataset", "sample", "--memory", "hybrid", "--memory", "full-history")
ENVIRONMENT = {"OPENAI_API_KEY": "local"}


def embedded(server: ModelServer, since: int = 0) -> Counter[str]:
    """How often each text was embedded, from that request on."""
    return Counter(text for request in server.requests[since:] for text in request.body["input"])


def parts(folder: Path) -> dict[str, object]:
    """All that `prepare` and `retrieval` make but their journals."""
    return {name: made for name, made in timeless(folder).items() if not name.endswith((".jsonl", "run.json"))}


def finished(folder: Path) -> int:
    """How many fixtures are there."""
    return len(list(folder.glob("prepared-data/sample/default/*/meta.json")))


def wait_until(reached: Callable[[], bool]) -> None:
    """Wait for a condition that comes about."""
    deadline = time.monotonic() + 60
    while not reached():
        assert time.monotonic() < deadline
        time.sleep(0.01)


class Workers:
    """A Dask scheduler and workers over TCP.

    Attributes:
        address: the scheduler's.
        processes: the workers.
    """

    def __init__(self, folder: Path, count: int) -> None:
        self.folder = folder
        self._file = folder / "scheduler.json"
        self._scheduler = self._begin("dask_scheduler", "--port", "0", "--scheduler-file", self._file)
        wait_until(self._file.exists)
        wait_until(lambda: self._file.read_text().rstrip().endswith("}"))
        self.address = json.loads(self._file.read_text())["address"]
        self.processes = [self.begin_worker() for _ in range(count)]

    def begin_worker(self) -> subprocess.Popen[bytes]:
        """One more."""
        return self._begin("dask_worker", self.address, "--nthreads", "1", "--no-nanny")

    def end(self) -> None:
        """End all, also those that are stopped."""
        for process in [*self.processes, self._scheduler]:
            process.kill()
            process.wait()

    def _begin(self, module: str, *arguments: str | Path) -> subprocess.Popen[bytes]:
        words = [sys.executable, "-m", f"distributed.cli.{module}", *arguments, "--host", "127.0.0.1", "--no-dashboard"]
        return subprocess.Popen(
            words,
            cwd=self.folder,
            env=clean_environment(OPENAI_API_KEY="local"),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )


@contextmanager
def dask_cluster(folder: Path, count: int) -> Iterator[Workers]:
    """A scheduler and `count` workers, in `folder`."""
    folder.mkdir()
    workers = Workers(folder, count)
    try:
        yield workers
    finally:
        workers.end()
