"""Every command says that it works before its work is done: what it reads is held back until it has said so."""

import os
import shlex
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from threading import Event

import pytest

from longmemeval.cli import main as heartbeat
from longmemeval.pipeline import progress as shown
from tests.forking import SILENT_AT_MOST_S, Forked, start_forked
from tests.support import clean_environment, longmemeval

HELD_MEMORY = """
class Held:
    def add(self, session):
        open("held.json").read()

    def search(self, query, *, date, limit):
        return []
"""
SWEEP = "name: held\ndataset: held.json\nmemories: [bm25]\nmodels: [offline/extractive]\n"
READ_DATA = (
    "prepare --dataset held.json --memory hybrid",
    "run --dataset held.json --memory bm25 --model offline/extractive",
    "retrieval --dataset held.json --memory bm25",
    "sweep sweep.yaml",
    "datasets stats held.json",
    "facts --dataset held.json h1",
    "inspect --dataset held.json q1",
    "import held.json --dataset sample --run-id taken",
    "judge check offline/scripted:held.json --dataset sample",
    "memory check held:Held",
    "evaluate whole --judge offline/scripted:held.json",
)
READ_RUN = (
    "evaluate held",
    "compare held whole",
    "report held whole -o report.html",
    "verify held",
    "export held --format csv",
    "status held",
    "runs",
    "board build results -o board",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two graded runs, of which one has its answers held back, and held data."""
    at = tmp_path_factory.mktemp("held")
    for name in ("held", "whole"):
        one = ("--dataset", "sample", "--memory", "last-k", "--sample", "2")
        longmemeval("prepare", *one[:4], cwd=at)
        longmemeval("run", *one, "--model", "offline/extractive", "--run-id", name, cwd=at)
        longmemeval("evaluate", name, "--judge", "offline/lexical", cwd=at)
    manifest = at / "results" / "held" / "run.json"
    manifest.unlink()
    os.mkfifo(manifest)
    os.mkfifo(at / "held.json")
    (at / "held.py").write_text(HELD_MEMORY)
    (at / "sweep.yaml").write_text(SWEEP)
    return at


@contextmanager
def held(command: str, at: Path) -> Iterator[Forked]:
    """A command under way; what it reads from a pipe without a writer never comes."""
    process = start_forked(shlex.split(command), at, clean_environment(**{SILENT_AT_MOST_S: "0.01"}))
    try:
        yield process
    finally:
        process.send_signal(signal.SIGKILL)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("line", [*READ_DATA, *READ_RUN])
def test_a_command_says_that_it_works_before_it_has_read_its_input(line: str, folder: Path) -> None:
    with held(line, folder) as process:
        while not (printed := process.printed()) and process.poll() is None:
            time.sleep(0.01)
        assert printed, "it ended without a word"
        assert "Error" not in printed
        assert process.poll() is None, f"it was not held: {printed}"
    assert heartbeat.SILENT_AT_MOST_S < 2


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(heartbeat, "SILENT_AT_MOST_S", 0.01)
    yield
    shown.show_progress("auto")


class Errors(StringIO):
    """Standard error that tells when something was written."""

    def __init__(self) -> None:
        super().__init__()
        self.written = Event()

    def flush(self) -> None:
        self.written.set()


@pytest.mark.usefixtures("at_once")
def test_it_says_how_far_the_work_is(monkeypatch: pytest.MonkeyPatch) -> None:
    errors = Errors()
    monkeypatch.setattr(sys, "stderr", errors)
    with shown.progress("prepare", 3) as bar:
        bar.advance()
        with heartbeat.heartbeat(lambda: False):
            assert errors.written.wait(60)
    assert errors.getvalue().startswith("prepare: 1 of 3, ")
    assert errors.getvalue().endswith(" left\n")


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize(("printed", "style"), [(True, "auto"), (False, "json"), (False, "off")])
def test_it_says_nothing_after_other_words_or_where_machines_read(
    printed: bool, style: shown.Style, monkeypatch: pytest.MonkeyPatch
) -> None:
    errors, looked = Errors(), Event()
    monkeypatch.setattr(sys, "stderr", errors)
    shown.show_progress(style)

    def has_printed() -> bool:
        looked.set()
        return printed

    with heartbeat.heartbeat(has_printed):
        assert looked.wait(60)
        assert not errors.written.wait(0.1)
