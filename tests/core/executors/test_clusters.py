"""A real Dask and a real Ray: the same bytes, each text once, workers that die and hang."""

import os
import re
import shutil
import signal
import socketserver
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from threading import Thread

import pytest

from longmemeval.core.executors.protocol import Done, Task
from longmemeval.core.executors.registry import executor_named
from tests.core.executors.clusters import KEY, Cluster, DaskCluster, RayCluster, embedded, made, wait_until, warn
from tests.memory.external.transported import EXAMPLE
from tests.pipeline.helpers import start
from tests.server import ModelServer
from tests.support import ROOT, longmemeval, record, write_dataset

pytestmark = pytest.mark.timeout(900)  # On a busy machine a cluster alone takes minutes to begin.

EMBEDDER = ("--embedder", "openai:text-embedding-3-small", "--api-base")
GATED = """
import os
import pathlib
import time

from mymem import MyMemory


class Gated(MyMemory):
    def add(self, session):
        pathlib.Path(f"at-{os.getpid()}").touch()
        while not os.path.exists("open"):
            time.sleep(0.01)
        super().add(session)
"""
"""A memory that is filled when there is a file `open`, and says in which processes that is."""


@pytest.fixture(scope="module", params=[DaskCluster, RayCluster], ids=["dask", "ray"])
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_AUTH_MODE", "token")
        patch.setenv("RAY_AUTH_TOKEN", "of-this-test-" * 4)
        forget_token()
        begun: Cluster = request.param(tmp_path_factory.mktemp("cluster"))
        try:
            yield begun
        finally:
            begun.end()
    forget_token()


def forget_token() -> None:
    """Have Ray read its token again: a process keeps the first it read, and other tests' clusters have another."""
    with suppress(ImportError):
        import_module("ray._raylet").AuthenticationTokenLoader.instance().reset_cache()


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """For one process, and for a cluster."""
    both = tmp_path / "here", tmp_path / "there"
    for folder in both:
        folder.mkdir()
        (folder / "mymem.py").write_text(EXAMPLE)
    return both


@pytest.mark.thorough
def test_the_same_bytes_and_each_text_once(cluster: Cluster, folders: tuple[Path, Path]) -> None:
    """A memory from outside too, whose module only the folder of the command has."""
    here, there = folders
    memories = ("--dataset", "sample", "--limit", "4", "--memory", "hybrid", "--memory", "mymem:MyMemory")
    with ModelServer() as server:
        # One cluster's count is enough: what talks to servers takes each worker seconds to load.
        at_server = cluster.name == "dask"
        command = ("prepare", *memories, *((*EMBEDDER, server.url) if at_server else ()))
        alone = longmemeval(*command, "--jobs", "1", cwd=here, OPENAI_API_KEY=KEY)
        asked, since = embedded(server), len(server.requests)
        done = longmemeval(*command, *cluster.at, cwd=there, OPENAI_API_KEY=KEY)
        assert embedded(server, since) == asked
        assert set(asked.values()) == ({1} if at_server else set())
        if at_server:
            ranked = ("retrieval", *memories, "--run-id", "r")
            longmemeval(*ranked, "--jobs", "1", cwd=here, OPENAI_API_KEY=KEY, OPENAI_BASE_URL=server.url)
            longmemeval(*ranked, *cluster.at, cwd=there, OPENAI_API_KEY=KEY, OPENAI_BASE_URL=server.url)
            assert any(name.endswith("rankings.jsonl") for name in made(there))
    assert computed(done.stdout) == computed(alone.stdout)
    assert made(there) == made(here)


def computed(printed: str) -> list[str]:
    """The line of a summary that says how many texts were embedded."""
    return re.findall("Embeddings: .* computed.*", printed)


@pytest.mark.thorough
def test_what_a_worker_has_to_say_is_told_here(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    (done,) = executor_named(cluster.spec).map([Task("one", warn, "here", 1)], None)
    assert isinstance(done, Done)
    assert done.outcome != os.getpid()
    assert [one.getMessage() for one in caplog.records if "Look: here (worker " in one.getMessage()]


@pytest.mark.thorough
def test_a_worker_dies_and_one_hangs(cluster: Cluster, folders: tuple[Path, Path]) -> None:
    here, there = folders
    for folder in folders:
        (folder / "gated.py").write_text(GATED)
        write_dataset(folder / "d.json", *(record(f"q{number}") for number in range(6)))
    command = ("prepare", "--dataset", "d.json", "--memory", "gated:Gated")
    (here / "open").touch()
    longmemeval(*command, "--jobs", "1", cwd=here)
    under_way = start(*command, *cluster.at, cwd=there, LONGMEMEVAL_WORKER_TIMEOUT="30")
    wait_until(lambda: len(at_work(there)) == cluster.workers or under_way.poll() is not None)
    killed, stopped = at_work(there)[:2]
    os.kill(killed, signal.SIGKILL)
    os.kill(stopped, signal.SIGSTOP)
    (there / "open").touch()
    told = under_way.communicate(timeout=300)
    assert under_way.returncode == 0, told
    assert "A worker has been silent for 30 s; its work is done elsewhere" in told[1]
    assert made(there / "prepared-data") == made(here / "prepared-data")


def at_work(folder: Path) -> list[int]:
    """The workers that are filling a `Gated`."""
    return [int(path.name.removeprefix("at-")) for path in folder.glob("at-*")]


def test_nobody_at_the_address(tmp_path: Path) -> None:
    command = ("prepare", "--dataset", "sample", "--memory", "hybrid")
    told = longmemeval(*command, "--executor", "dask", "--address", "tcp://127.0.0.1:9", cwd=tmp_path, code=2).stderr
    assert "No Dask scheduler answers" in told
    told = longmemeval(*command, "--executor", "ray", "--address", "127.0.0.1:9", cwd=tmp_path, code=2).stderr
    assert "No usable Ray cluster answers" in told
    told = longmemeval(*command, "--scheduler", "127.0.0.1:9", cwd=tmp_path, code=2).stderr
    assert "Add --executor dask or --executor ray" in told


@pytest.mark.thorough
def test_a_worker_of_another_version_is_named_and_writes_nothing(tmp_path: Path) -> None:
    """Its package is a copy of ours: the same one works, with a line more in one file it does not."""
    copied = tmp_path / "other"
    # With what is compiled: four workers would compile all of it again.
    shutil.copytree(ROOT / "longmemeval", copied / "longmemeval")
    command = ("prepare", "--dataset", "sample", "--limit", "2", "--memory", "bm25", "--name")
    cluster = DaskCluster(tmp_path, workers=1)
    try:
        cluster.replace(0, str(copied))
        longmemeval(*command, "same", *cluster.at, cwd=tmp_path)
        for file, line, told in (
            ("storage/messages.py", "# another line\n", "has its source "),
            ("__init__.py", '__version__ = "0.0.1"\n', "has longmemeval 0.0.1 (here "),
        ):
            with (copied / "longmemeval" / file).open("a") as changed:
                changed.write(line)
            cluster.replace(0, str(copied))
            refused = " ".join(longmemeval(*command, "other", *cluster.at, cwd=tmp_path, code=2).stderr.split())
            assert (
                "The workers of the cluster have other versions than this machine: worker tcp://127.0.0.1:" in refused
            )
            assert told in refused
            assert "Install the same versions on all machines and restart the workers" in refused
        assert not list((tmp_path / "prepared-data").glob("sample/other/*/meta.json"))
        cluster.replace(0)
        longmemeval(*command, "other", *cluster.at, cwd=tmp_path)
    finally:
        cluster.end()


@pytest.mark.thorough
def test_a_worker_that_loaded_the_memory_before_it_was_edited_makes_no_part(tmp_path: Path) -> None:
    (tmp_path / "mymem.py").write_text(EXAMPLE)
    write_dataset(tmp_path / "d.json", record("q1"))
    command = ("prepare", "--dataset", "d.json", "--memory", "mymem:MyMemory", "--name")
    cluster = DaskCluster(tmp_path, workers=1)
    try:
        longmemeval(*command, "a", *cluster.at, cwd=tmp_path)
        with (tmp_path / "mymem.py").open("a") as file:
            file.write("# edited\n")
        refused = longmemeval(*command, "b", *cluster.at, cwd=tmp_path, code=2)
        assert "A worker has different code for 'mymem:MyMemory' than the command" in " ".join(refused.stderr.split())
        cluster.replace(0)
        longmemeval(*command, "b", *cluster.at, cwd=tmp_path)
    finally:
        cluster.end()


@pytest.mark.thorough
def test_another_server_at_the_address_is_no_traceback(tmp_path: Path) -> None:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), _SpeaksHttp) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        address = f"tcp://127.0.0.1:{server.server_address[1]}"
        command = ("prepare", "--dataset", "sample", "--memory", "hybrid", "--executor", "dask", "--address", address)
        told = longmemeval(*command, cwd=tmp_path, code=2).stderr
        server.shutdown()
    assert re.fullmatch(r"Error: No Dask scheduler answers at that address .*\n", told)


class _SpeaksHttp(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        self.request.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")


@pytest.mark.thorough
def test_a_scheduler_that_dies_is_told_in_our_words_alone(tmp_path: Path) -> None:
    (tmp_path / "mymem.py").write_text(EXAMPLE)
    (tmp_path / "gated.py").write_text(GATED)
    write_dataset(tmp_path / "d.json", record("q1"))
    (tmp_path / "cluster").mkdir()
    cluster = DaskCluster(tmp_path / "cluster", 1)
    try:
        process = start("prepare", "--dataset", "d.json", "--memory", "gated:Gated", *cluster.at, cwd=tmp_path)
        wait_until(lambda: bool(at_work(tmp_path)) or process.poll() is not None)
        cluster.kill_scheduler()
        _, told = process.communicate(timeout=300)
    finally:
        (tmp_path / "open").touch()
        cluster.end()
    assert process.returncode != 0
    assert re.fullmatch(r"Error: .*finished work is kept\.\n", told)
