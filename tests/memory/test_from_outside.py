"""A memory system of the user's own, in one file, by `package.module:Class`: wherever a preset is accepted."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import ROOT, clean_environment, json_lines, longmemeval, record, write_dataset

OWN = '''
"""A memory of one file."""

from pydantic import Field

from longmemeval.memory.items import items_at
from longmemeval.memory.parameters import Parameters
from longmemeval.records import Recall


class Newest:
    """The newest messages, and none of the others.

    More about it.
    """

    class Parameters(Parameters):
        """What can be set."""

        count: int = Field(2, ge=1)
        """How many messages."""

    def __init__(self, parameters, tools):
        self.count = parameters.count

    async def recall(self, question, fixture):
        store = fixture.memory
        return Recall(tuple(items_at(store, range(len(store.messages) - self.count, len(store.messages)), {})))
'''
RUN = ("run", "--dataset", "d.json", "--model", "offline/extractive", "--run-id")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_dataset(tmp_path / "d.json", record())
    (tmp_path / "mymem.py").write_text(OWN)
    (tmp_path / "mine.yaml").write_text("preset: mymem:Newest\nname: mine\nparameters: {count: 1}\n")
    return tmp_path


def test_a_class_is_accepted_wherever_a_preset_is(folder: Path) -> None:
    for memory in ("mymem:Newest", "mine.yaml"):
        longmemeval("prepare", "--dataset", "d.json", "--memory", memory, cwd=folder)
    longmemeval(*RUN, "a", "--memory", "mymem:Newest", "--set", "count=3", cwd=folder)
    longmemeval(*RUN, "b", "--memory", "mine.yaml", cwd=folder)
    recalled = [len(json_lines(folder / f"results/{run}/answers.jsonl")[0]["recall_ids"]) for run in ("a", "b")]
    assert recalled == [3, 1]
    ranked = ("retrieval", "--dataset", "d.json", "--memory", "mymem:Newest", "--granularity", "turn", "--jobs", "2")
    assert "Newest" in longmemeval(*ranked, cwd=folder).stdout
    (folder / "s.yaml").write_text(
        "name: s\ndataset: d.json\nmemories: [{preset: 'mymem:Newest', grid: {count: [1, 2]}}]\n"
        "models: [offline/extractive]\njudges: [offline/lexical]\n"
    )
    assert "Newest count=2" in longmemeval("sweep", "s.yaml", cwd=folder).stdout
    shown = longmemeval("inspect", "q1", "--dataset", "d.json", "--memory", "mymem:Newest", cwd=folder)
    assert "rivers in France" in shown.stdout


def test_changed_code_is_another_run(folder: Path) -> None:
    longmemeval("prepare", "--dataset", "d.json", "--memory", "mymem:Newest", cwd=folder)
    longmemeval(*RUN, "a", "--memory", "mymem:Newest", cwd=folder)
    told = json.loads((folder / "results/a/run.json").read_text())["settings"]["memory"]
    assert (told["name"], told["preset"], told["source"]["target"]) == ("Newest", "mymem:Newest", "mymem:Newest")
    longmemeval(*RUN, "a", "--memory", "mymem:Newest", cwd=folder)
    (folder / "mymem.py").write_text(OWN.replace("range(len(store.messages) - self.count", "range(0"))
    refused = longmemeval(*RUN, "a", "--memory", "mymem:Newest", cwd=folder, code=2)
    told = " ".join(refused.stderr.split())
    assert "The code of 'mymem:Newest' has changed since run 'a' was started. Begin a new run with --run-id a-2" in told
    longmemeval(*RUN, "a-2", "--memory", "mymem:Newest", cwd=folder)


@pytest.mark.parametrize(
    ("memory", "told"),
    [
        ("mymem:Oldest", "mymem has no 'Oldest' (mymem:Oldest). Did you mean 'Newest'?"),
        ("nomem:Newest", "importing nomem fails with ModuleNotFoundError"),
        ("mymem:OWN", "The memory configuration 'mymem:OWN' is a int, not a MemoryDefinition"),
    ],
)
def test_what_is_no_memory_is_refused(folder: Path, memory: str, told: str) -> None:
    (folder / "mymem.py").write_text(f"{OWN}\nOWN = 1\n")
    refused = longmemeval("prepare", "--dataset", "d.json", "--memory", memory, cwd=folder, code=2)
    assert told in " ".join(refused.stderr.split())


@pytest.mark.thorough
def test_inside_the_tree_a_memory_system_is_its_folder(folder: Path) -> None:
    """Nothing but the folder is added to a copy of the package, and the system has a name."""
    # With what is compiled, which is as old as its source in the copy too.
    shutil.copytree(ROOT / "longmemeval", folder / "longmemeval")
    own = folder / "longmemeval" / "memory" / "newest"
    own.mkdir()
    (own / "__init__.py").touch()
    (own / "system.py").write_text(OWN)
    (own / "plugins.toml").write_text('["longmemeval.memory"]\nnewest = "longmemeval.memory.newest.system:Newest"\n')
    printed = ""
    for line in (("prepare", "--memory", "newest"), ("run", "--memory", "newest", "--model", "offline/extractive")):
        done = subprocess.run(
            [sys.executable, "-m", "longmemeval", *line, "--dataset", "d.json"],
            cwd=folder,
            env=clean_environment() | {"PYTHONPATH": str(folder)},
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        printed = done.stdout
    assert "d_newest_offline" in printed
