"""A command opens each file of a run, and each part of a fixture, once."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import clean_environment

pytestmark = pytest.mark.thorough

# Runs the commands one after another and counts, for each, how often every file below the folder is opened to be read.
COUNTED = """
import collections, json, os, sys
from longmemeval.cli.main import main
from longmemeval.results import manifest

commands, root = json.loads(sys.argv[1]), os.path.realpath(".")
counts, opened = [], collections.Counter()

def count(event, arguments):
    if event == "open" and isinstance(arguments[0], str) and not arguments[2] & (os.O_WRONLY | os.O_RDWR):
        path = os.path.realpath(arguments[0])
        if path.startswith(root) and not os.path.isdir(path):
            opened[os.path.relpath(path, root)] += 1

sys.addaudithook(count)
stdout, sys.stdout = sys.stdout, open(os.devnull, "w")
for command in commands:
    opened.clear()
    manifest._content.cache_clear()  # Each command is a process of its own.
    sys.argv = ["longmemeval", *command]
    try:
        main()
    except SystemExit as end:
        assert not end.code, (command, end.code)
    counts.append(dict(opened))
print(json.dumps(counts), file=stdout)
"""

SELECTED = ("--dataset", "sample", "--limit", "4")
PREPARE = ("prepare", *SELECTED, "--memory", "bm25", "--memory", "semantic-recall", "--jobs", "1")
RUN = ("run", *SELECTED, "--model", "offline/extractive")
SWEEP = """
name: s
dataset: sample
selection: {limit: 4}
models: [offline/extractive]
judges: [offline/lexical]
memories: [bm25]
"""
COMMANDS = {
    "prepare again": PREPARE,
    "verify preparation": ("verify", "sample"),
    "run": (*RUN, "--memory", "bm25", "--run-id", "a"),
    "run again": (*RUN, "--memory", "bm25", "--run-id", "a"),
    "run with vectors": (*RUN, "--memory", "semantic-recall", "--run-id", "b"),
    "evaluate": ("evaluate", "a", "--judge", "offline/lexical"),
    "judge check": ("judge", "check", "offline/lexical", *SELECTED),
    "evaluate another": ("evaluate", "b", "--judge", "offline/lexical"),
    "evaluate again": ("evaluate", "a", "--judge", "offline/lexical"),
    "compare": ("compare", "a", "b"),
    "report": ("report", "a", "b", "--output", "r.html"),
    "export csv": ("export", "a", "--format", "csv"),
    "export official": ("export", "a", "--format", "official"),
    "verify": ("verify", "a"),
    "retrieval": ("retrieval", *SELECTED, "--memory", "bm25", "--run-id", "r", "--jobs", "1"),
    "retrieval again": ("retrieval", *SELECTED, "--memory", "bm25", "--run-id", "r", "--jobs", "1"),
    "verify retrieval": ("verify", "r"),
    "export trec": ("export", "r", "--format", "trec"),
    "sweep": ("sweep", "s.yaml"),
    "sweep again": ("sweep", "s.yaml"),
}
# How much of each prompt the page has room for is known once all have been seen, and they can be too large to keep.
TWICE = {("report", "results/a/prompts.jsonl"), ("report", "results/b/prompts.jsonl")}
ONCE = [name for name in COMMANDS if not name.startswith("sweep")]


@pytest.fixture(scope="module")
def reads(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, int]]:
    """By command: every file that it read, and how often."""
    folder = tmp_path_factory.mktemp("reads")
    (folder / "s.yaml").write_text(SWEEP)
    done = subprocess.run(
        [sys.executable, "-c", COUNTED, json.dumps([PREPARE, *COMMANDS.values()])],
        cwd=folder,
        env=clean_environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    return dict(zip(COMMANDS, json.loads(done.stdout)[1:], strict=True))


@pytest.mark.parametrize("command", ONCE)
def test_a_command_reads_each_file_once(reads: dict[str, dict[str, int]], command: str) -> None:
    often = {name: times for name, times in reads[command].items() if times > 1}
    assert often == {name: 2 for verb, name in TWICE if verb == command}


def test_a_sweep_of_which_nothing_is_left_reads_a_run_once_for_itself_and_once_for_each_verb(
    reads: dict[str, dict[str, int]],
) -> None:
    often = {name: times for name, times in reads["sweep again"].items() if name.startswith("results/s_")}
    assert {name.rpartition("/")[2] for name in often} >= {"run.json", "answers.jsonl"}
    # The sweep's own look, `compare`, and what it shows of its runs.
    assert max(often.values()) <= 3
    assert reads["sweep again"]["results/index.jsonl"] == 1


def test_what_a_command_needs_is_among_what_was_counted(reads: dict[str, dict[str, int]]) -> None:
    journals = {"results/a/run.json", "results/a/answers.jsonl", "results/a/prompts.jsonl"}
    assert journals <= reads["compare"].keys()
    assert sum(Path(name).parent.name == "judgements" for name in reads["compare"]) == 2
    assert any(os.path.basename(name) == "meta.json" for name in reads["run"])
    assert "results/r/rankings.jsonl" in reads["verify retrieval"]
