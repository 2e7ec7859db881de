"""What takes long to make is made once for all workers of a test session; tests read it or change a copy."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from longmemeval.core.journal import locked
from longmemeval.memory.configuration import MEMORIES
from tests.support import longmemeval


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], None]) -> Path:
    """Return a folder that the first worker to ask for it fills; nobody may change it.

    Args:
        factory: gives the folder of the session.
        name: the same for all who share it.
        make: fills the folder.
    """
    session = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        session = session.parent
    folder = session / "made once" / name
    folder.mkdir(parents=True, exist_ok=True)
    whole = folder.with_name(f"{name}.whole")
    with locked(whole, wait=True):
        if not whole.exists():
            make(folder)
            whole.touch()
    return folder


class Demo(NamedTuple):
    """`longmemeval demo` in a folder, and what it printed."""

    folder: Path
    stdout: str
    stderr: str


def sample_demo(factory: pytest.TempPathFactory) -> Demo:
    """Return the demo of the session."""

    def make(folder: Path) -> None:
        done = longmemeval("demo", cwd=folder)
        (folder.with_name("demo.out")).write_text(done.stdout)
        (folder.with_name("demo.err")).write_text(done.stderr)

    folder = made_once(factory, "demo", make)
    out, err = (folder.with_name(f"demo.{stream}").read_text() for stream in ("out", "err"))
    return Demo(folder, out, err)


def sample_prepared(factory: pytest.TempPathFactory) -> Path:
    """Return a folder with `prepared-data`: the sample prepared for every built-in memory, by the command."""

    def make(folder: Path) -> None:
        shutil.copytree(sample_demo(factory).folder / "prepared-data", folder / "prepared-data")
        chosen = [word for name in MEMORIES.built_in for word in ("--memory", name)]
        longmemeval("prepare", "--dataset", "sample", *chosen, cwd=folder)

    return made_once(factory, "prepared", make)
