"""The process that commands of tests are forked from: one for all workers, which ends with the last of them."""

import subprocess
import sys
import tempfile
import time
from multiprocessing.connection import Pipe
from pathlib import Path

import pytest

from longmemeval import __version__
from tests import forking
from tests.forking import UNLOADED, Server, start_forked
from tests.support import ROOT, clean_environment

WORKER = """
import os, sys
from pathlib import Path
from tests.forking import Server, start_forked
of = Server(shared=Path(sys.argv[1]))
print("connected", flush=True)
for _ in sys.stdin:
    done = start_forked(["--version"], Path.cwd(), dict(os.environ), of=of, quickly=True)
    parent = Path(f"/proc/{done.pid}/stat").read_text().rpartition(")")[2].split()[1]
    print(parent, *done.communicate()[0].split(), flush=True)
"""


def begun(shared: Path) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", WORKER, str(shared)]
    return subprocess.Popen(
        command,
        env=clean_environment() | {UNLOADED: "1"},
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def said(worker: "subprocess.Popen[str]", asked: str = "") -> list[str]:
    assert worker.stdin
    assert worker.stdout
    worker.stdin.write(asked)
    worker.stdin.flush()
    return worker.stdout.readline().split()


def test_workers_share_one_that_outlives_the_first() -> None:
    with tempfile.TemporaryDirectory() as short:
        shared = Path(short, "s")
        first, second = begun(shared), begun(shared)
        assert said(first) == said(second) == ["connected"]
        parent, *version = said(first, "\n")
        assert version[-1] == __version__
        assert said(second, "\n")[0] == parent
        first.communicate()
        assert said(second, "\n")[0] == parent
        second.communicate()
        pid = int(parent)
        deadline = time.monotonic() + 60
        while not _is_gone(pid):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        # One that comes later begins another.
        third = begun(shared)
        assert said(third) == ["connected"]
        assert said(third, "\n")[0] != parent
        third.communicate()


def _is_gone(pid: int) -> bool:
    """Whether a process has ended and only its parent has not asked how."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_a_process_id_given_twice_is_not_taken_for_the_command_that_had_it_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, theirs = Pipe()
    monkeypatch.setattr(forking, "_begun", lambda python, address: ours)
    source = Server()
    for answer in (("begun", 0, 77), ("ended", 0, -9), ("begun", 1, 77)):
        theirs.send(answer)
    first, second = (start_forked([], tmp_path, {}, of=source) for _ in range(2))
    assert (first.pid, second.pid) == (77, 77)
    assert second.poll() is None
    assert first.poll() == -9
    theirs.send(("ended", 1, 0))
    assert second.poll() == 0
