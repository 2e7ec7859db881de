"""Commands that end while a memory is stuck in a call: its processes end with them, however that was."""

import json
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from tests.forking import Forked
from tests.memory.external.transported import NODE, SERVE
from tests.pipeline.helpers import colours, litter, start
from tests.support import longmemeval

LIMIT_S = 60.0  # What is stuck would stay for ten times as long.
BEGIN_S = 120.0
CODES = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129, signal.SIGKILL: -9}

CLASS = """
import ctypes, os, pathlib, subprocess, time

class Stuck:
    def __init__(self):
        self.texts = []

    KIND add(self, session):
        if pathlib.Path("mended").exists():
            self.texts += [message.content for message in session.messages]
            return
        child = subprocess.Popen(["sleep", "600"])
        pathlib.Path(f"begun-{os.getpid()}").write_text(f"{os.getpid()} {child.pid}")
        HANGS

    def search(self, query, *, date, limit):
        return self.texts[:limit]

    def save(self, folder):
        (folder / "texts").write_text(repr(self.texts))

    def load(self, folder):
        self.texts = eval((folder / "texts").read_text())
"""
KINDS = {
    "in a method": ("def", "time.sleep(600)"),
    "in an asynchronous method": ("async def", "time.sleep(600)"),
    "in C": ("def", "ctypes.PyDLL(None).sleep(600)"),  # Holds the interpreter's lock: no thread of it runs.
}
SHELL = """
trap '' TERM HUP INT
read line
echo '{"id": 1, "result": {"protocol": 1, "name": "shell", "capabilities": {"persist": "directory"}}}'
sleep 600 &
echo "$$ $!" > begun-shell
while :; do sleep 1; done
"""


def is_there(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    try:
        return stat.read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def pids_in(folder: Path, process: Forked) -> list[int]:
    """The processes of the memories, once one of them is stuck."""
    deadline = time.monotonic() + BEGIN_S
    while not (found := [file.read_text().split() for file in folder.glob("begun-*")]) or not all(found):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return [int(pid) for pids in found for pid in pids]


def gone_within(pids: list[int], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while any(map(is_there, pids)):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def ended(folder: Path, number: int, *command: str) -> str:
    """Begin a command, send it a signal when its memory is stuck, and see all processes go; what it said."""
    process = start(*command, cwd=folder)
    pids = pids_in(folder, process)
    process.send_signal(number, group=number == signal.SIGINT)
    _, told = process.communicate(BEGIN_S)
    assert process.returncode == CODES[signal.Signals(number)]
    assert gone_within(pids, LIMIT_S), [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in pids if is_there(pid)]
    return told


def sentence(number: int) -> str:
    by = "" if number == signal.SIGINT else f" by {signal.Signals(number).name}"
    return f"Interrupted{by}. Finished work is kept. Rerun the same command to continue.\n"


@pytest.mark.variants
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("number", list(CODES), ids=lambda number: signal.Signals(number).name)
def test_a_child_that_is_stuck_ends_with_its_command(tmp_path: Path, kind: str, number: int) -> None:
    colours(tmp_path / "d.json", 1)
    how, hangs = KINDS[kind]
    (tmp_path / "stuck.py").write_text(CLASS.replace("KIND", how).replace("HANGS", hangs))
    command = ("prepare", "--dataset", "d.json", "--memory", f"process:{SERVE} stuck:Stuck")
    told = ended(tmp_path, number, *command)
    assert told == ("" if number == signal.SIGKILL else sentence(number))
    # The same command goes on.
    (tmp_path / "mended").touch()
    longmemeval(*command, cwd=tmp_path)
    assert litter(tmp_path / "prepared-data") == []


@pytest.mark.variants
@pytest.mark.parametrize("number", list(CODES), ids=lambda number: signal.Signals(number).name)
def test_a_child_of_a_worker_ends_with_the_command(tmp_path: Path, number: int) -> None:
    colours(tmp_path / "d.json", 2)
    how, hangs = KINDS["in C"]
    (tmp_path / "stuck.py").write_text(CLASS.replace("KIND", how).replace("HANGS", hangs))
    memory = f"process:{SERVE} stuck:Stuck"
    told = ended(tmp_path, number, "prepare", "--dataset", "d.json", "--memory", memory, "--jobs", "2")
    assert told == ("" if number == signal.SIGKILL else sentence(number))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=lambda number: signal.Signals(number).name)
def test_a_program_that_never_looks_at_its_input_ends_with_the_command(tmp_path: Path, number: int) -> None:
    colours(tmp_path / "d.json", 1)
    (tmp_path / "stuck.sh").write_text(SHELL)
    ended(tmp_path, number, "memory", "check", "process:sh stuck.sh")


def test_what_left_its_session_is_named(tmp_path: Path) -> None:
    colours(tmp_path / "d.json", 1)
    (tmp_path / "stuck.py").write_text(
        CLASS.replace("KIND", "def")
        .replace("HANGS", "time.sleep(600)")
        .replace('["sleep", "600"]', '["sleep", "600"], start_new_session=True')
    )
    process = start("prepare", "--dataset", "d.json", "--memory", f"process:{SERVE} stuck:Stuck", cwd=tmp_path)
    child, stray = pids_in(tmp_path, process)
    try:
        process.send_signal(signal.SIGKILL)
        process.communicate(BEGIN_S)
        assert gone_within([child], LIMIT_S)
        deadline = time.monotonic() + BEGIN_S
        while f"are still running: {stray} (sleep). End them with kill -9." not in (said := process.communicate()[1]):
            assert time.monotonic() < deadline, said
            time.sleep(0.05)
    finally:
        os.kill(stray, signal.SIGKILL)


def test_a_memory_that_ended_in_good_order_leaves_nobody(tmp_path: Path) -> None:
    """Neither a child nor its guard, and not a word."""
    colours(tmp_path / "d.json", 1)
    before = {one.name for one in Path("/proc").glob("[0-9]*")}
    done = longmemeval("prepare", "--dataset", "d.json", "--memory", f"process:node {NODE}", cwd=tmp_path)
    assert "still running" not in done.stderr
    new = [int(one.name) for one in Path("/proc").glob("[0-9]*") if one.name not in before]
    ours = [pid for pid in new if is_there(pid) and "guard.py" in Path(f"/proc/{pid}/cmdline").read_text()]
    assert gone_within(ours, LIMIT_S)


BLOCKS = """
import pathlib, time

class Blocks:
    def __init__(self, parameters, tools):
        pass

    async def recall(self, question, fixture):
        pathlib.Path("begun-here").write_text("0")
        HANGS
"""


@pytest.mark.parametrize("number", list(CODES)[:3], ids=lambda number: signal.Signals(number).name)
@pytest.mark.parametrize(
    "hangs", ["time.sleep(600)", "\n        while True:\n            time.sleep(0.01)"], ids=["asleep", "at work"]
)
def test_a_class_that_blocks_the_event_loop_does_not_keep_the_command(tmp_path: Path, number: int, hangs: str) -> None:
    """One signal is enough, and the run says that it was interrupted."""
    colours(tmp_path / "d.json", 2)
    (tmp_path / "mymem.py").write_text(BLOCKS.replace("HANGS", hangs))
    memory = ("--dataset", "d.json", "--memory", "mymem:Blocks")
    longmemeval("prepare", *memory, cwd=tmp_path)
    process = start("run", *memory, "--model", "offline/extractive", "--run-id", "r", cwd=tmp_path)
    pids_in(tmp_path, process)
    process.send_signal(number)
    _, told = process.communicate(BEGIN_S)
    assert process.returncode == CODES[signal.Signals(number)]
    assert "Finished work is kept.\nNext steps:\n  longmemeval run" in told
    assert json.loads((tmp_path / "results/r/run.json").read_text())["status"] == "interrupted"
    assert sys.platform != "linux" or "Traceback" not in told
