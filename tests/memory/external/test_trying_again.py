"""Batches that failed are tried again by the next `prepare`; those that succeeded are never sent twice."""

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.memory.external.transported import EXAMPLE, SERVE
from tests.pipeline.helpers import start
from tests.support import clean_environment, json_lines, longmemeval, record, tree, write_dataset

CODE = '''
import json, os, pathlib, time
from mymem import MyMemory

class Mine(MyMemory):
    """Fails where a file says so, waits where another does, and writes down what it is asked."""

    def log(self, what):
        with open("calls.log", "a") as log:
            print(what, file=log)

    def add(self, session):
        text = str(session)
        fault = pathlib.Path("fault").read_text() if "bicycle" in text else ""
        self.log("add " + ("bicycle" if "bicycle" in text else "egg" if "egg" in text else "rivers"))
        if fault == "refuse":
            raise ValueError("a bad day")
        if fault == "die":
            os._exit(7)
        while pathlib.Path("wait").exists() and "rivers" in text:
            time.sleep(0.01)
        super().add(session)
        self.lost = [session.id] if fault == "lose" else getattr(self, "lost", [])

    def forget(self, session):
        self.log("forget " + ("bicycle" if "bicycle" in str(session) else "another"))
        ids = [message.id for message in session.messages]
        self.stored = [hit for hit in self.stored if hit["message_ids"][0] not in ids]

    def ready(self):
        if pathlib.Path("fault").read_text() == "count":
            return {"state": "ready", "done": 2}
        lost = [{"batch_id": one, "error": "not indexed"} for one in getattr(self, "lost", [])]
        self.lost = []
        return {"state": "ready", "failed": lost}
'''


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "mymem.py").write_text(EXAMPLE)
    (tmp_path / "mine.py").write_text(CODE)
    write_dataset(tmp_path / "d.json", record("q1"))
    return tmp_path


WORDS = ("--dataset", "d.json", "--memory", f"process:{SERVE} mine:Mine")


def prepared(folder: Path, fault: str, code: int = 0) -> tuple[str, list[str]]:
    """What `prepare` prints under a fault, and what the memory was asked."""
    (folder / "fault").write_text(fault)
    (folder / "calls.log").write_text("")
    done = longmemeval("prepare", *WORDS, "--memory", "bm25", cwd=folder, code=code)
    return " ".join((done.stdout + done.stderr).split()), (folder / "calls.log").read_text().splitlines()


def part_of(folder: Path) -> Path:
    (part,) = (folder / "prepared-data/d/default/q1").glob("*Mine-*")
    return part


def info_of(folder: Path) -> dict[str, Any]:
    meta = json.loads((folder / "prepared-data/d/default/q1/meta.json").read_text())
    found: dict[str, Any] = meta["parts"][part_of(folder).name]
    return found


FAULTS = {"refuse": "mine.py, line 17: ValueError: a bad day", "lose": "not indexed"}


@pytest.mark.variants
@pytest.mark.parametrize("fault", FAULTS)
def test_only_what_failed_is_tried_again(fault: str, folder: Path) -> None:
    told = f"1 of 3 batches failed: {FAULTS[fault]}. The next prepare tries again"
    shown, calls = prepared(folder, fault)
    assert f"Note: q1: {told}" in shown
    assert calls == ["add egg", "add bicycle", "add rivers"]
    assert info_of(folder)["told"]["failed_batches"] == 1
    before, info = tree(part_of(folder)), info_of(folder)
    # It fails again: what is there stays as it is, and runs that have read it still hold.
    shown, calls = prepared(folder, fault)
    assert told in shown
    assert calls == ["forget bicycle", "add bicycle"]
    assert (tree(part_of(folder)), info_of(folder)) == (before, info)
    # The memory dies: the same.
    shown, calls = prepared(folder, "die")
    assert "the failed batches were tried again, but the memory process ended by itself with exit code 7" in shown
    assert (tree(part_of(folder)), info_of(folder)) == (before, info)
    longmemeval("run", "--model", "offline/extractive", *WORDS, "--run-id", "r", cwd=folder)
    # It succeeds: all is there, once.
    shown, calls = prepared(folder, "")
    assert "failed" not in shown
    assert calls[-1:] == ["add bicycle"]
    assert {one.rpartition(" ")[2] for one in calls} == {"bicycle"}
    assert info_of(folder)["told"]["failed_batches"] == 0
    assert "incomplete" not in info_of(folder)
    stored = json.loads(next(part_of(folder).rglob("memory.json")).read_text())
    assert len(stored) == len({one["text"] for one in stored}) == 6
    # Nothing is left to do, and nobody is asked.
    shown, calls = prepared(folder, "refuse")
    assert "Already prepared" in shown
    assert calls == []
    assert not list((folder / "prepared-data/d/default").glob(".scopes*"))


def test_a_batch_that_is_taken_and_not_counted_is_lost(folder: Path) -> None:
    shown, _ = prepared(folder, "count")
    assert "1 of 3 batches failed: the memory took them and does not count them as ready" in shown
    longmemeval("run", "--model", "offline/extractive", *WORDS, "--run-id", "r", cwd=folder)
    scores = longmemeval("evaluate", "r", "--judge", "offline/lexical", cwd=folder, code=0)
    assert "1 of 3 batches failed" in " ".join(scores.stdout.split())


def test_force_begins_anew(folder: Path) -> None:
    prepared(folder, "refuse")
    (folder / "calls.log").write_text("")
    (folder / "fault").write_text("")
    longmemeval("prepare", *WORDS, "--force", cwd=folder)
    assert (folder / "calls.log").read_text().splitlines() == ["add egg", "add bicycle", "add rivers"]
    assert info_of(folder)["told"]["failed_batches"] == 0


def test_a_killed_attempt_at_what_failed_goes_on(folder: Path) -> None:
    """The second attempt is stopped while it waits; what the first kept and the second added is there in the third."""
    prepared(folder, "refuse")
    (folder / "fault").write_text("")
    lines = json_lines(folder / "prepared-data/d/default/prepare.jsonl")
    assert [one["work"] for one in lines] == ["fixture"]
    (folder / "mine.py").write_text(CODE.replace('return {"state": "ready", "failed"', 'time.sleep(60); return {"x"'))
    killed = start("prepare", *WORDS, "--jobs", "1", cwd=folder)
    deadline = time.monotonic() + 60
    while (folder / "calls.log").read_text().count("bicycle") < 2:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    killed.send_signal(signal.SIGKILL, group=True)
    killed.communicate()
    assert killed.returncode == -signal.SIGKILL
    (folder / "mine.py").write_text(CODE)
    shown, calls = prepared(folder, "")
    assert "failed" not in shown
    assert set(calls) <= {"forget bicycle", "add bicycle"}
    stored = json.loads(next(part_of(folder).rglob("memory.json")).read_text())
    assert len(stored) == len({one["text"] for one in stored}) == 6


@pytest.mark.thorough
def test_the_progress_line_counts_batches_within_a_haystack(folder: Path) -> None:
    """On a terminal, where people look."""
    (folder / "fault").write_text("")
    (folder / "wait").touch()
    ours, theirs = pty.openpty()
    environment = {**clean_environment(), "TERM": "xterm", "COLUMNS": "140"}
    command = [sys.executable, "-m", "longmemeval", "prepare", *WORDS, "--jobs", "1"]
    with subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=theirs) as process:
        os.close(theirs)
        shown, deadline = b"", time.monotonic() + 60
        while b"Mine: 2 of 3 batches" not in shown:
            assert time.monotonic() < deadline, shown
            if select.select([ours], [], [], 0.2)[0]:
                shown += os.read(ours, 65536)
        (folder / "wait").unlink()
        while process.poll() is None and time.monotonic() < deadline:
            try:  # What nobody reads would block it.
                if select.select([ours], [], [], 0.2)[0]:
                    os.read(ours, 65536)
            except OSError:
                break
        assert process.wait(200) == 0
    os.close(ours)
