"""A real Dask scheduler and three workers over TCP: the same bytes, each text once, workers that die and hang."""

import pickle
import signal
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from longmemeval.caches.served import HubConnection, HubLostError, ServedCache, disconnect
from longmemeval.errors import HarnessError
from longmemeval.executors.cluster import Reference
from longmemeval.executors.dask import Dask
from longmemeval.executors.hub import Hub
from longmemeval.executors.protocol import Done, Task
from longmemeval.executors.registry import executor_named
from longmemeval.locks import LockedError, locked
from tests.executors.clusters import (
    ALL,
    EMBEDDER,
    ENVIRONMENT,
    PREPARE,
    Workers,
    dask_cluster,
    embedded,
    finished,
    parts,
    wait_until,
)
from tests.pipeline.helpers import start
from tests.server import ModelServer
from tests.support import longmemeval


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workers]:
    with dask_cluster(tmp_path_factory.mktemp("dask") / "cluster", 3) as workers:
        yield workers


def test_the_same_bytes_and_each_text_once(cluster: Workers, tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    at = ("--executor", "dask", "--scheduler", cluster.address)
    with ModelServer() as server:
        command = (*PREPARE, *EMBEDDER, server.url)
        longmemeval(*command, "--jobs", "1", cwd=here, code=0, **ENVIRONMENT)
        alone, since = embedded(server), len(server.requests)
        done = longmemeval(*command, *at, cwd=there, code=0, **ENVIRONMENT)
        assert embedded(server, since) == alone
    assert set(alone.values()) == {1}
    assert f"{len(alone):,} computed" in done.stdout
    assert parts(there) == parts(here)


@pytest.mark.products
def test_a_worker_dies_and_one_hangs(cluster: Workers, tmp_path: Path) -> None:
    """Run by `pytest --products`: what counts as hanging depends on how busy the machine is."""
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    longmemeval(*ALL, "--jobs", "1", cwd=here)
    at = ("--executor", "dask", "--scheduler", cluster.address)
    command = start(*ALL, *at, cwd=there, LONGMEMEVAL_WORKER_TIMEOUT="8")
    wait_until(lambda: finished(there) >= 3)
    cluster.processes[0].send_signal(signal.SIGKILL)
    cluster.processes[1].send_signal(signal.SIGSTOP)
    told = command.communicate(timeout=120)
    assert command.returncode == 0, told
    assert "has been silent for 8 s" in told[1]
    assert parts(there) == parts(here)


def test_nobody_at_the_address(tmp_path: Path) -> None:
    at = ("--executor", "dask", "--scheduler", "tcp://127.0.0.1:9")
    told = longmemeval(*PREPARE, *at, cwd=tmp_path, code=2).stderr
    assert "No Dask scheduler answers" in told


def test_a_task_goes_through_the_scheduler_as_a_reference() -> None:
    text = "a haystack " * 100_000
    with closing(Hub("127.0.0.1")) as hub:
        number = hub.lend(Task("one", len, text, len(text)), lambda: True)
        call = Reference(hub.address, hub.key, number, 60.0, here)
        assert len(pickle.dumps(call)) < 1000
        try:
            assert call() == Done("one", len(text))
        finally:
            disconnect()


def here() -> str:
    return "here"


def test_a_text_is_one_workers_until_it_is_there_or_the_worker_is_gone(tmp_path: Path) -> None:
    path, keys = tmp_path / "embeddings.sqlite", [b"a", b"b"]
    with closing(Hub("127.0.0.1")) as hub:
        first, second = (HubConnection(hub.address, hub.key, name) for name in ("first", "second"))
        mine, others = ServedCache(first, path), ServedCache(second, path)
        assert mine.claim(keys) == keys
        assert others.claim([b"b", b"c"]) == [b"c"]
        mine.put_many({b"a": b"1"})
        assert others.get_many(keys) == {b"a": b"1"}
        assert others.claim(keys) == []
        with first.locked(tmp_path / "account", False):
            with pytest.raises(LockedError), second.locked(tmp_path / "account", False):
                pass
            with pytest.raises(LockedError), locked(tmp_path / "account", wait=False):
                pass
        with second.locked(tmp_path / "account", False):
            pass
        assert sorted(hub.drop_silent(-1.0)) == ["first", "second"]
        with pytest.raises(HubLostError):
            mine.get_many(keys)
        third = ServedCache(HubConnection(hub.address, hub.key, "third"), path)
        assert third.claim(keys) == [b"b"]


def test_without_dask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(HarnessError, match=r"pip install 'longmemeval\[dask\]'"):
        next(Dask().map([], None))
    with pytest.raises(HarnessError, match="takes no address"):
        executor_named("threads@tcp://127.0.0.1:1")
