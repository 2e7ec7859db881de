"""A lock between processes: refused or waited for, gone with whoever holds it, no file left."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from longmemeval.core.journal import LockedError, locked
from tests.support import clean_environment

HOLD = """
import sys, time
from pathlib import Path
from longmemeval.core.journal import locked
with locked(Path(sys.argv[1]), wait=True):
    print("held", flush=True)
    time.sleep(60)
"""
COUNT = """
import sys
from pathlib import Path
from longmemeval.core.journal import locked
path = Path(sys.argv[1])
for _ in range(10):
    with locked(path, wait=True):
        path.write_text(str(int(path.read_text()) + 1))
"""


def start(code: str, path: Path) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", code, str(path)]
    return subprocess.Popen(command, env=clean_environment(), stdout=subprocess.PIPE, text=True)


def holder(path: Path) -> "subprocess.Popen[str]":
    process = start(HOLD, path)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_what_another_process_holds_is_refused_and_free_once_that_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    with holder(path) as process:
        with pytest.raises(LockedError), locked(path, wait=False):
            pass
        process.send_signal(signal.SIGKILL)
        process.wait(200)
        # The dead process left its file behind, which holds nobody up.
        assert os.listdir(tmp_path) == ["j.jsonl.lock"]
        with locked(path, wait=False):
            pass
    assert os.listdir(tmp_path) == []


def test_the_locked_file_can_be_read_and_written(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    with locked(path, wait=False):
        path.write_text("one")
        assert path.read_text() == "one"
    assert os.listdir(tmp_path) == ["j.jsonl"]


def fail(path: Path) -> None:
    with locked(path, wait=False):
        raise ValueError("on purpose")


def test_it_is_free_after_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="on purpose"):
        fail(tmp_path / "j.jsonl")
    with locked(tmp_path / "j.jsonl", wait=False):
        pass


def test_twice_in_one_process_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    with locked(path, wait=False), pytest.raises(LockedError), locked(path, wait=False):
        pass


def test_those_who_wait_take_turns(tmp_path: Path) -> None:
    path = tmp_path / "count"
    path.write_text("0")
    processes = [start(COUNT, path) for _ in range(3)]
    assert [process.wait(120) for process in processes] == [0, 0, 0]
    assert path.read_text() == "30"
    assert os.listdir(tmp_path) == ["count"]


def test_a_thread_may_let_go_of_what_another_took(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    lock = locked(path, wait=False)
    lock.__enter__()
    thread = threading.Thread(target=lock.__exit__, args=(None, None, None))
    thread.start()
    thread.join()
    with locked(path, wait=False):
        pass
