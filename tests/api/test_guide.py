"""The Python guide and the notebook run as they stand, in a script, in IPython and in a notebook's kernel."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.pipeline.helpers import start
from tests.support import ROOT, clean_environment

BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NOTEBOOK = ROOT / "examples" / "first_comparison.ipynb"


def executed(folder: Path, *command: str, code: int = 0) -> str:
    environment = clean_environment(IPYTHONDIR=str(folder / ".ipython"), JUPYTER_CONFIG_DIR=str(folder / ".jupyter"))
    whole = [sys.executable, *command]
    done = subprocess.run(whole, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == code, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def guide(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A folder where the blocks of the guide have run as a script, and what they printed."""
    folder = tmp_path_factory.mktemp("guide")
    blocks = BLOCK.findall((ROOT / "docs" / "python.md").read_text())
    assert len(blocks) >= 7
    (folder / "guide.py").write_text("\n".join(blocks))
    process = start("guide.py", cwd=folder)
    printed, told = process.communicate()
    assert process.returncode == 0, told
    return folder, printed


@pytest.mark.thorough
@pytest.mark.slow
def test_the_guide_runs_as_a_script(guide: tuple[Path, str]) -> None:
    _, printed = guide
    assert printed.startswith("No significant difference between hybrid (60.0%) and bm25 (58.0%)")
    assert "Data('sample', 50 of 108 questions, a sample by type with seed 0)" in printed
    assert "Run('short-notes', Notes, offline/extractive, 5 of 5 questions answered, completed) 0" in printed


@pytest.mark.thorough
@pytest.mark.slow
def test_in_ipython_the_same_code_is_the_same_memory(guide: tuple[Path, str]) -> None:
    """The first block alone: the runs that the script made are found, none is made."""
    folder, printed = guide
    first = BLOCK.findall((ROOT / "docs" / "python.md").read_text())[0]
    (folder / "first.py").write_text(first)
    before = sorted(path.name for path in (folder / "results").iterdir())
    again = executed(folder, "-m", "IPython", "--no-banner", "--colors=NoColor", "first.py")
    assert again.strip().splitlines()[0] == printed.splitlines()[0]
    assert sorted(path.name for path in (folder / "results").iterdir()) == before


@pytest.mark.slow
def test_a_mistake_is_one_traceback_of_the_users_own_lines(tmp_path: Path) -> None:
    mistake = "run('sample', 'hybrit', model='offline/extractive')"
    (tmp_path / "first.py").write_text(f"from longmemeval import run\n{mistake}\n")
    shown = executed(tmp_path, "-m", "IPython", "--no-banner", "--colors=NoColor", "first.py", code=1)
    assert shown.count("Traceback") == 1
    assert "direct cause" not in shown
    assert f'first.py", line 2, in <module>\n    {mistake}\nHarnessError: Unknown memory' in shown
    assert "run.py" not in shown


@pytest.mark.thorough
@pytest.mark.slow
def test_the_notebook_runs_and_a_changed_cell_is_another_memory(tmp_path: Path) -> None:
    notebook = json.loads(NOTEBOOK.read_text())
    assert all(not cell.get("outputs") for cell in notebook["cells"])
    cells = [cell | {"source": "".join(cell["source"])} for cell in notebook["cells"]]
    changed = [cell | {"source": cell["source"].replace("self.kept[-limit:]", "self.kept[:limit]")} for cell in cells]
    # All but the report are run again when one was changed.
    assert changed != cells
    twice = [cell | {"id": f"c{number}"} for number, cell in enumerate([*cells, *changed[:-1]])]
    text = outputs(tmp_path, notebook | {"cells": twice})
    assert "No significant difference between hybrid (60.0%) and bm25 (58.0%)" in text
    assert "Data('sample', 50 of 108 questions, a sample by type with seed 0)" in text
    assert (tmp_path / "report.html").stat().st_size > 100_000
    runs = [path.name for path in tmp_path.glob("results/sample_*")]
    assert len(runs) == 4
    assert len([name for name in runs if "_Notes_" in name]) == 2


def outputs(folder: Path, notebook: dict[str, Any]) -> str:
    """All that the cells of a notebook show when nbconvert has run them."""
    (folder / "n.ipynb").write_text(json.dumps(notebook))
    executed(folder, "-m", "nbconvert", "--to", "notebook", "--execute", "--inplace", "n.ipynb")
    cells = json.loads((folder / "n.ipynb").read_text())["cells"]
    shown = [output for cell in cells if cell["cell_type"] == "code" for output in cell["outputs"]]
    return "\n".join("".join(one.get("text") or one.get("data", {}).get("text/plain", [])) for one in shown)
