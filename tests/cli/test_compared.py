"""What is compared where nobody says so, and with what: one rule for the terminal and the pages."""

import json
from pathlib import Path

import pytest

from longmemeval.results.compared import baseline_first, newest_alike
from longmemeval.settings import Folders
from tests.cli.conftest import Command
from tests.pipeline.graded_runs import LENIENT, STRICT, graded_run, labels
from tests.pipeline.helpers import colours, folders_in
from tests.view.client import visitor

AGES = {"a-none": 1, "z-first": 2, "b-second": 3, "c-oracle": 4}
"""Runs with the minute they began in: the oldest is a control, and so is the newest."""


def run_of(folders: Folders, name: str, minute: int, preset: str) -> None:
    dataset = colours(folders.results_dir.parent / "d.json", 10)
    # The name of a memory may be anything; what it is says its preset.
    settings = {"memory": {"name": f"my {preset}", "preset": preset, "parameters": {}}}
    path = graded_run(dataset, folders, name, labels(5 + minute, 5 - minute), settings=settings) / "run.json"
    document = json.loads(path.read_text())
    path.write_text(json.dumps(document | {"started_at": f"2026-01-01T00:0{minute}:00+00:00"}))


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folders:
    folders = folders_in(tmp_path)
    for name, minute in AGES.items():
        run_of(folders, name, minute, {"a-none": "none", "c-oracle": "oracle"}.get(name, "last-k"))
    monkeypatch.chdir(tmp_path)
    return folders


def test_the_baseline_is_the_oldest_that_is_no_control_unless_one_is_asked_for(folders: Folders) -> None:
    ids = sorted(AGES)
    assert baseline_first(ids, folders.results_dir)[0] == "z-first"
    assert baseline_first(ids, folders.results_dir, "c-oracle") == ["c-oracle", "a-none", "b-second", "z-first"]
    assert baseline_first(["c-oracle", "a-none"], folders.results_dir) == ["a-none", "c-oracle"]
    assert baseline_first([], folders.results_dir) == []


def test_the_full_history_comes_first_but_not_under_a_model_that_does_not_read(folders: Folders) -> None:
    run_of(folders, "y-full", 5, "full-history")
    assert baseline_first([*AGES, "y-full"], folders.results_dir)[0] == "y-full"
    path = folders.results_dir / "y-full" / "run.json"
    document = json.loads(path.read_text())
    document["settings"]["model"]["spec"] = "offline/parrot"
    path.write_text(json.dumps(document))
    assert baseline_first([*AGES, "y-full"], folders.results_dir)[0] == "z-first"


def test_a_damaged_run_is_no_baseline(folders: Folders) -> None:
    (folders.results_dir / "z-first" / "run.json").write_text("{")
    assert baseline_first(sorted(AGES), folders.results_dir)[0] == "b-second"


def test_only_runs_like_the_newest_are_compared(folders: Folders) -> None:
    graded_run(colours(folders.results_dir.parent / "d.json", 10), folders, "part", labels(3))
    graded_run(colours(folders.results_dir.parent / "d.json", 10), folders, "other", labels(5, 5), judge=LENIENT)
    assert newest_alike(folders.results_dir) == ["z-first", "a-none", "b-second", "c-oracle"]


def compared(command: Command, line: str) -> list[str]:
    return [run["run"] for run in json.loads(command(f"{line} --json").stdout)["runs"]]


@pytest.mark.parametrize(
    ("line", "first"),
    [
        ("compare", "z-first"),
        ("compare '*'", "z-first"),
        ("compare '*' --baseline a-none", "a-none"),
        ("compare --baseline b-second", "b-second"),
        ("compare b-second '*-*'", "b-second"),
        ("compare a-none z-first", "a-none"),
    ],
)
def test_the_terminal_follows_the_rule(folders: Folders, command: Command, line: str, first: str) -> None:
    assert compared(command, line)[0] == first


@pytest.mark.slow
def test_the_pages_follow_it_too(folders: Folders, command: Command) -> None:
    """Without names; with those that were ticked on the list, where none was chosen as the baseline; as named."""
    client = visitor(folders)
    assert [run["id"] for run in client.get("/data/questions").json()["runs"]] == compared(command, "compare")
    ticked = "&".join(f"run={one}" for one in sorted(AGES, key=AGES.__getitem__, reverse=True))
    for query, first in (
        (f"baseline=&{ticked}", "z-first"),
        (f"baseline=&baseline=b-second&{ticked}", "b-second"),
        (f"baseline=gone&{ticked}", "z-first"),
        ("run=b-second&run=z-first", "b-second"),
    ):
        assert client.get(f"/data/questions?{query}").json()["runs"][0]["id"] == first


def test_without_any_graded_run_names_are_asked_for(tmp_path: Path, command: Command) -> None:
    done = command(f"compare --results-dir {tmp_path / 'none'}")
    assert (done.code, "name a RUN" in done.stderr) == (2, True)


def test_runs_of_different_judges_are_refused_and_it_says_whose_scores_they_are(
    folders: Folders, command: Command
) -> None:
    graded_run(colours(folders.results_dir.parent / "d.json", 10), folders, "theirs", labels(1, 9), judge=LENIENT)
    done = command("compare z-first theirs")
    assert (done.code, done.stdout) == (2, "")
    said = " ".join(done.stderr.split())
    assert all(one in said for one in ("scored by different judges", f"z-first: {STRICT.id}", f"theirs: {LENIENT.id}"))
