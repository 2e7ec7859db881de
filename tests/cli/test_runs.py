"""`longmemeval runs`, patterns and sweeps wherever runs are named, and completion."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from longmemeval.core.text_files import decode_json
from longmemeval.results import listing
from longmemeval.results.index import INDEX, read_index
from longmemeval.results.listing import RunFilter, list_runs, named_runs
from longmemeval.results.manifest import read_manifest
from tests.cli.conftest import Command
from tests.pipeline.graded_runs import grade, graded_run, labels
from tests.pipeline.helpers import colours, folders_in
from tests.support import COMMAND, clean_environment


@pytest.fixture(autouse=True)
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Graded runs over 10 questions, one of them of a sweep called `grid`, and a damaged one."""
    dataset, folders = colours(tmp_path / "d.json", 10), folders_in(tmp_path)
    hybrid = {"memory": {"name": "hybrid", "parameters": {}}}
    for run_id, right, settings in (("demo-a", 8, {}), ("demo-b", 5, hybrid), ("grid_hybrid_m_direct", 6, hybrid)):
        sweep = "grid" if run_id.startswith("grid") else None
        graded_run(dataset, folders, run_id, labels(right, 10 - right), settings=settings, sweep=sweep)
    graded_run(dataset, folders, "grid-like", labels(1, 9), settings=hybrid, status="interrupted")
    (folders.results_dir / "torn").mkdir()
    (folders.results_dir / "torn" / "run.json").write_text("{")
    monkeypatch.chdir(tmp_path)
    return folders.results_dir


def names(command: Command, line: str) -> list[str]:
    return sorted(one["run"] for one in json.loads(command(f"runs {line} --json").stdout)["runs"])


def test_all_runs_are_listed_with_their_score(command: Command) -> None:
    document = json.loads(command("runs --json").stdout)
    by_name = {one["run"]: one for one in document["runs"]}
    assert set(by_name) == {"demo-a", "demo-b", "grid_hybrid_m_direct", "grid-like", "torn"}
    assert (by_name["demo-a"]["scores"][0]["value"], by_name["demo-a"]["memory"]) == (0.8, "last-k")
    assert by_name["torn"]["status"] == "damaged"
    shown = command("runs").stdout
    assert "5 runs" in shown
    assert "80.0%" in shown


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("--memory hybrid", ["demo-b", "grid-like", "grid_hybrid_m_direct"]),
        ("--memory 'h*' --status completed", ["demo-b", "grid_hybrid_m_direct"]),
        ("--sweep grid", ["grid_hybrid_m_direct"]),
        ("--dataset other", []),
        ("--status damaged", ["torn"]),
        ("--model 'offline/*' --status interrupted", ["grid-like"]),
        ("--since 2000-01-01 --memory last-k", ["demo-a"]),
        ("--since 2999-01-01", []),
    ],
)
def test_filters(command: Command, line: str, found: list[str]) -> None:
    assert names(command, line) == found


@pytest.mark.slow
def test_mistakes_end_with_2(command: Command) -> None:
    for line, said in (
        ("runs --since yesterday", "is not a date"),
        ("runs --status done", "--status"),
        ("compare 'no*'", "No runs match 'no*'"),
        ("compare --sweep gird", "Unknown sweep 'gird'"),
        ("report", "--sweep"),
        ("evaluate", "No run is named"),
        ("view nope --no-open", "Unknown run 'nope'"),
        ("verify", "name a RUN"),
        ("export --format csv", "name a RUN"),
    ):
        done = command(line)
        assert (done.code, done.stdout) == (2, "")
        assert said in done.stderr


def test_each_manifest_is_read_once(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[bytes] = []

    def decode(data: bytes, kind: type[object]) -> object:
        read.append(data)
        return decode_json(data, kind)

    monkeypatch.setattr(listing, "decode_json", decode)
    assert len(list_runs(workspace, RunFilter(memory="hybrid"))) == 3
    assert len(read) == 5


def test_a_line_of_the_index_that_a_kill_cut_short_is_dropped_and_written_again(
    command: Command, workspace: Path
) -> None:
    index = workspace / INDEX
    lines = index.read_bytes().splitlines(keepends=True)
    assert (index.read_bytes().count(b"grid-like"), len(lines)) == (1, 4)
    index.write_bytes(b"".join(lines)[:-20])
    assert command("runs --json").code == 0
    dataset, folders = colours(workspace.parent / "d.json", 10), folders_in(workspace.parent)
    graded_run(dataset, folders, "next", labels(7, 3))
    assert json.loads(command("runs --json").stdout)["runs"]
    assert [entry.run for entry in read_index(workspace)] == ["demo-a", "demo-b", "grid_hybrid_m_direct", "next"]
    grade(
        dataset,
        folders,
        "grid-like",
        dict(zip(read_manifest(workspace / "grid-like").question_ids, labels(1, 9), strict=True)),
    )
    assert read_index(workspace)[-1].run == "grid-like"


@pytest.mark.slow
def test_patterns_and_sweeps_name_runs(command: Command, workspace: Path) -> None:
    assert named_runs(["demo-*", "demo-a"], workspace) == ["demo-a", "demo-b", "demo-a"]
    assert named_runs(["demo-b", "demo-*"], workspace) == ["demo-b", "demo-a"]
    assert named_runs([], workspace, sweep="grid") == ["grid_hybrid_m_direct"]
    compared = json.loads(command("compare 'demo-*' --sweep grid --json").stdout)
    assert [run["run"] for run in compared["runs"]] == ["demo-a", "demo-b", "grid_hybrid_m_direct"]
    assert command("report 'demo-*' --format md -o r.md").code == 0
    exported = json.loads(command("export 'demo-*' --format csv --output out --json").stdout)
    assert len(exported["runs"]) == 2
    assert sorted(path.parent.name for path in Path("out").rglob("*.csv")) == ["demo-a", "demo-b"]
    evaluated = json.loads(command("evaluate 'demo-*' --judge offline/lexical --json").stdout)
    assert [one["run"] for one in evaluated["runs"]] == ["demo-a", "demo-b"]
    assert "subjects" in json.loads(command("verify 'demo-*' --json").stdout)


@pytest.mark.slow
def test_a_sweep_is_the_runs_that_record_it(command: Command, workspace: Path) -> None:
    """Another sweep whose name begins with `grid`, and a run begun by hand under an id of its kind, are not of it."""
    dataset, folders = colours(workspace.parent / "d.json", 10), folders_in(workspace.parent)
    hybrid = {"memory": {"name": "hybrid", "parameters": {}}}
    for run_id, sweep in (("grid_hybrid_v2_hybrid_m_direct", "grid_hybrid_v2"), ("grid_hybrid_own", None)):
        graded_run(dataset, folders, run_id, labels(4, 6), settings=hybrid, sweep=sweep)
    left_out = "1 run begins with 'grid_' and no sweep is recorded"
    assert names(command, "--sweep grid") == ["grid_hybrid_m_direct"]
    assert names(command, "--sweep grid_hybrid_v2") == ["grid_hybrid_v2_hybrid_m_direct"]
    assert listing.sweep_names(workspace) == ["grid", "grid_hybrid_v2"]
    compared = command("compare --sweep grid --json")
    assert [run["run"] for run in json.loads(compared.stdout)["runs"]] == ["grid_hybrid_m_direct"]
    for done in (compared, command("verify --sweep grid"), command("runs --sweep grid")):
        assert left_out in " ".join(done.stderr.split())
    assert "no sweep" not in command("compare --sweep grid_hybrid_v2 --json").stderr


def test_runs_of_an_earlier_version_are_named_by_a_pattern(command: Command, workspace: Path) -> None:
    edited = workspace / "grid_hybrid_m_direct" / "run.json"
    document = json.loads(edited.read_text())
    del document["sweep"]
    edited.write_text(json.dumps(document))
    done = command("compare --sweep grid --json")
    said = " ".join(done.stderr.split())
    assert (done.code, "Unknown sweep 'grid'" in said) == (2, True)
    assert "started outside a sweep, or by an earlier version. Name them, or the pattern 'grid_*'" in said
    assert [run["run"] for run in json.loads(command("compare 'grid_*' --json").stdout)["runs"]] == [edited.parent.name]


@pytest.mark.variants
@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("compare demo-", ["demo-a", "demo-b"]),
        ("run --memory hyb", ["hybrid"]),
        ("prepare --dataset locomo1", ["locomo10"]),
        ("evaluate demo-a --judge offline/lex", ["offline/lexical"]),
        ("comp", ["compare"]),
        ("compare --sweep gr", ["grid"]),
        ("runs --sweep g", ["grid"]),
    ],
)
def test_completion(words: str, found: list[str], tmp_path: Path) -> None:
    line = f"longmemeval {words}"
    asked = {"_LONGMEMEVAL_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(line.split()) - 1)}
    environment = clean_environment(LONGMEMEVAL_RESULTS_DIR=str(folders_in(tmp_path).results_dir), **asked)
    done = subprocess.run(COMMAND, env=environment, cwd=os.curdir, capture_output=True, text=True, check=False)
    assert sorted(done.stdout.split()) == found
