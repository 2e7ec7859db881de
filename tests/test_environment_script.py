"""scripts/install.py: what is installed, by uv, and by pip where uv cannot do it."""

import subprocess
import sys
from types import SimpleNamespace

import pytest

from scripts import install
from tests.support import ROOT


def test_extras_are_added() -> None:
    base = install.requirements([])
    assert "msgspec>=0.20" in base
    assert set(install.requirements(["local", "hnsw"])) - set(base) == {"fastembed>=0.7", "hnswlib>=0.8"}


def test_the_script_begins_before_anything_is_installed() -> None:
    # Without `site` there are no packages but Python's own, as in an environment that was just made.
    command = [sys.executable, "-S", "scripts/install.py", "--help"]
    done = subprocess.run(command, cwd=ROOT, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("fails", ["", "pip install uv", "uv pip install"])
def test_pip_does_it_where_uv_cannot(monkeypatch: pytest.MonkeyPatch, fails: str) -> None:
    commands: list[str] = []

    def run(command: list[str], **_: object) -> SimpleNamespace:
        name = f"pip install {command[-1]}" if command[1:3] == ["-m", "pip"] else "uv pip install"
        commands.append(name)
        return SimpleNamespace(returncode=int(name == fails), stdout="")

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(install, "pip_settings", dict)
    monkeypatch.setattr(sys, "argv", ["install.py", "dask"])
    assert install.main() == 0
    by_pip = ["pip install distributed>=2026.3", f"pip install {ROOT}"]
    assert (
        commands
        == {
            "": ["pip install uv", "uv pip install", "uv pip install"],
            "pip install uv": ["pip install uv", *by_pip],
            "uv pip install": ["pip install uv", "uv pip install", *by_pip],
        }[fails]
    )


@pytest.mark.parametrize("compiles", [True, False])
def test_what_cannot_be_compiled_is_left_out(
    compiles: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    commands: list[str] = []

    def run(command: list[str], **_: object) -> SimpleNamespace:
        commands.append(command[-1])
        fails = command[-1] == "hnswlib>=0.8" and not compiles
        return SimpleNamespace(returncode=int(fails), stdout="", stderr="…\nerror: no c++\n")

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(install, "pip_settings", dict)
    monkeypatch.setattr(sys, "argv", ["install.py", "hnsw,dask"])
    assert install.main() == 0
    assert commands == ["uv", "distributed>=2026.3", "hnswlib>=0.8", str(ROOT)]
    assert ("left out: error: no c++" in capsys.readouterr().err) is not compiles
