"""What the terminal shows at 80 and 140 columns, kept word for word in tests/cli/snapshots.

`pytest tests/cli/test_snapshots.py tests/cli/test_help.py --write-snapshots` writes them again.
"""

import re
import shutil
import time
from pathlib import Path

import pytest

from longmemeval.pipeline import demo as demonstration
from longmemeval.settings import Folders
from tests.cli.conftest import Command
from tests.cli.terminal import WIDTHS, check_snapshot, shown
from tests.made_once import sample_prepared

pytestmark = pytest.mark.slow

SWEEP = """
name: grid
dataset: sample
selection: {limit: 12}
memories: [bm25, hybrid, last-k]
models: [offline/extractive]
judges: [offline/lexical]
"""
COMMANDS = {
    "evaluate": "evaluate demo-hybrid --judge offline/lexical",
    "compare-2": "compare demo-hybrid demo-last-k",
    "compare-5": "compare demo-hybrid demo-last-k demo-full-history demo-bm25 demo-none",
    "compare-published": "compare demo-hybrid --published all",
    "retrieval": "retrieval -d sample -m bm25 -m hybrid --limit 12 --run-id found",
    "datasets": "datasets list",
    "sweep": "sweep grid.yaml",
    "inspect": "inspect smp_4ea7",
    "runs": "runs --memory 'h*' --model 'offline/*'",
}
_INTERVAL = re.compile(r"\[[+-]?\d+\.\d, [+-]?\d+\.\d\]")


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder all commands run in, with the prepared histories; the first test fills it."""
    folder = tmp_path_factory.mktemp("terminal")
    shutil.copytree(sample_prepared(tmp_path_factory) / "prepared-data", folder / "prepared-data")
    return folder


@pytest.fixture(autouse=True)
def demo(workspace: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs of the demo and of a sweep, made while the clock stood still, so that all latencies are 0."""
    monkeypatch.chdir(workspace)
    monkeypatch.setattr(time, "perf_counter", lambda: 0.0)
    if not (workspace / "grid.yaml").exists():
        monkeypatch.setattr(demonstration, "SHOWN", ("none", "full-history", "last-k", "bm25", "hybrid"))
        demonstration.run_demo(None, Folders())
        (workspace / "grid.yaml").write_text(SWEEP)
        assert command("sweep grid.yaml").code == 0
        assert command(COMMANDS["retrieval"]).code == 0


# Whether runs begin in one minute decides which of their columns says least: all of them are shown.
SHOWN_AT = [*((name, width) for name in COMMANDS if name != "runs" for width in WIDTHS), ("runs", 200)]


@pytest.mark.parametrize(("name", "width"), SHOWN_AT)
def test_snapshot(
    name: str, width: int, command: Command, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    text = shown(command, monkeypatch, COMMANDS[name], width)
    check_snapshot(f"{name}-{width}", text, write=request.config.getoption("--write-snapshots"))
    for line in text.splitlines():
        # A command line to copy is never broken.
        assert len(line) <= width or " " not in line.strip() or line.startswith("  longmemeval ")


@pytest.mark.parametrize("name", ["evaluate", "compare-2", "compare-5", "sweep"])
def test_no_interval_and_no_word_is_broken(name: str, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    wide = shown(command, monkeypatch, COMMANDS[name], 300).replace("─", "")
    narrow = shown(command, monkeypatch, COMMANDS[name], 80).replace("─", "")
    assert set(narrow.split()) - set(wide.split()) <= set("ABCDE") | set(_added(narrow))
    # Every bracket that opens closes on its line.
    for line in narrow.splitlines():
        if _INTERVAL.search(line):
            assert line.count("[") == line.count("]")


def _added(text: str) -> list[str]:
    """The words of the lines that only narrow terminals need: what letters mean and what is left out."""
    needed = ("Not shown", "A:", "B:", "C:", "D:", "E:")
    lines = text.splitlines()
    return [word for line in lines if line.startswith(needed) or "--json" in line for word in line.split()] + ["▲", "▼"]
