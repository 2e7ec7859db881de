"""The command line in this process."""

import shlex
import sys
from collections.abc import Callable
from typing import NamedTuple

import pytest

from longmemeval.cli import main as heartbeat
from longmemeval.cli.main import main


class Outcome(NamedTuple):
    code: object
    stdout: str
    stderr: str


Command = Callable[[str], Outcome]


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """The command line in this process, as `main` runs it."""
    monkeypatch.setattr(heartbeat, "SILENT_AT_MOST_S", 3600.0)  # What it prints depends on no machine.

    def call(line: str) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["longmemeval", *shlex.split(line)])
        try:
            main()
        except SystemExit as end:
            return Outcome(end.code or 0, *capsys.readouterr())
        return Outcome(0, *capsys.readouterr())

    return call
