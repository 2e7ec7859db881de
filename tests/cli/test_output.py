"""Standard output is for results: one document with `--json`, whatever a memory prints; if full, one sentence."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.pipeline.helpers import colours, start
from tests.support import COMMAND, clean_environment, longmemeval

PRINTS = """
import os
print("imported")
class Prints:
    def __init__(self):
        self.texts = []
        print("made")
        os.system("echo from a shell")
        os.write(1, b"from C\\n")
    def add(self, session):
        print("adding")
        self.texts += [message.content for message in session.messages]
    def search(self, query, *, date, limit):
        print("searching")
        return self.texts[:limit]
    def save(self, folder):
        (folder / "texts").write_text(repr(self.texts))
    def load(self, folder):
        self.texts = eval((folder / "texts").read_text())
"""
LIMIT_S = 60


@pytest.mark.variants
@pytest.mark.parametrize("workers", [(), ("--jobs", "2"), ("--jobs", "2", "--executor", "threads")])
def test_what_a_class_prints_is_not_in_the_document(tmp_path: Path, workers: tuple[str, ...]) -> None:
    colours(tmp_path / "d.json", 2)
    (tmp_path / "prints.py").write_text(PRINTS)
    memory = ("--dataset", "d.json", "--memory", "prints:Prints")
    for command in (
        ("prepare", *memory, *workers),
        ("run", *memory, "--model", "offline/extractive"),
        ("retrieval", *memory, *workers),
        ("memory", "check", "prints:Prints"),
    ):
        process = start(*command, "--json", cwd=tmp_path)
        printed, told = process.communicate()
        assert process.returncode == 0 or command[0] == "memory", told
        json.loads(printed)
        assert "imported" in told


@pytest.mark.parametrize("given", [("--version",), ("--help",), ("runs",), ("datasets", "list", "--json")])
def test_output_that_is_full_ends_with_a_sentence(tmp_path: Path, given: tuple[str, ...]) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*COMMAND, *given],
            cwd=tmp_path,
            env=clean_environment(),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
    told = "Error: Standard output cannot be written: No space left on device. Finished work is kept.\n"
    slow = "Loading …\n"  # After two seconds, on a busy machine.
    assert (done.returncode, done.stderr.removeprefix(slow)) == (1, told)


def test_a_run_whose_output_is_full_is_kept(tmp_path: Path) -> None:
    colours(tmp_path / "d.json", 2)
    memory = ("--dataset", "d.json", "--memory", "last-k")
    longmemeval("prepare", *memory, cwd=tmp_path)
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*COMMAND, "run", *memory, "--model", "offline/extractive", "--run-id", "r"],
            cwd=tmp_path,
            env=clean_environment(),
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=LIMIT_S,
            check=False,
        )
    assert done.returncode == 1
    assert json.loads((tmp_path / "results/r/run.json").read_text())["status"] == "completed"
