"""`longmemeval demo`: the whole pipeline in any folder, once; the second time it only shows."""

import json
from pathlib import Path

import pytest

from longmemeval.benchmarks.registry import load_dataset
from longmemeval.memory.definition import MEMORIES
from longmemeval.pipeline.demo import run_demo
from longmemeval.pipeline.verify.verify import verify
from tests.pipeline.helpers import folders_in
from tests.support import ROOT, longmemeval, tree

CONTROLS = ("refuse", "parrot", "last-session")
RUNS = [*MEMORIES.built_in, *CONTROLS]
ROWS = [*MEMORIES.built_in, *(f"offline/{name}" for name in CONTROLS)]


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, str]:
    """A folder after a demo, with its two outputs."""
    folder = tmp_path_factory.mktemp("any folder")
    done = longmemeval("demo", cwd=folder)
    return folder, done.stdout, done.stderr


def row(output: str, preset: str) -> list[str]:
    """The cells of a preset's line in the table."""
    (line,) = [line for line in output.splitlines() if line.startswith(f" {preset} ")]
    return line.replace("(control)", "").split()[1:]


def test_table_has_every_preset_and_says_what_it_is_worth(demo: tuple[Path, str, str]) -> None:
    _, out, err = demo
    count = len(load_dataset("sample"))
    assert f"Prepared {count} haystacks in " in out
    assert f"sample, {count} questions, model offline/extractive" in out
    assert all(row(out, name)[1] == "%" for name in ROWS)
    assert "NOT the official judge" in out
    assert "oracle reads the gold evidence" in out
    assert f"{count * len(RUNS)} questions answered" in err


def test_evidence_helps_and_no_memory_does_not(demo: tuple[Path, str, str]) -> None:
    _, out, _ = demo
    accuracy = {preset: float(row(out, preset)[0]) for preset in MEMORIES.built_in}
    assert accuracy["oracle"] == max(accuracy.values())
    assert accuracy["none"] == min(accuracy.values())


def test_controls_are_set_apart_and_the_sentence_about_the_best_is_right(demo: tuple[Path, str, str]) -> None:
    _, out, _ = demo
    marked = [place for place, line in enumerate(out.splitlines()) if "(control)" in line]
    assert len(marked) == 3 + len(CONTROLS)
    assert marked == list(range(marked[0], marked[0] + len(marked)))
    assert not out.splitlines()[marked[0] - 1].strip()
    # What repeats everything is right by words alone: the offline judge does not tell it from an answer.
    best = max(("none", *ROWS[-3:]), key=lambda name: float(row(out, name)[0]))
    assert best == "offline/parrot"
    score = f"{row(out, best)[0]} %"
    systems = [name for name in MEMORIES.built_in if MEMORIES.get(name).control is None]
    assert all(float(row(out, name)[0]) < float(row(out, best)[0]) for name in systems)
    floor = f"demo-parrot (offline/parrot with memory hybrid, {score})"
    assert f"NO run is significantly better than the best control that knows nothing, {floor}." in out


def test_second_time_nothing_is_done_again(demo: tuple[Path, str, str]) -> None:
    folder, out, _ = demo
    before = tree(folder)
    again = longmemeval("demo", cwd=folder)
    assert "Nothing to do, everything is prepared" in again.stdout
    assert "every question was already answered" in again.stderr
    assert [row(again.stdout, preset) for preset in MEMORIES.built_in] == [
        row(out, preset) for preset in MEMORIES.built_in
    ]
    assert tree(folder) == before


def test_what_it_leaves_behind_is_whole(demo: tuple[Path, str, str]) -> None:
    folder, _, _ = demo
    where = folders_in(folder)
    assert {path.name for path in folder.iterdir()} == {"prepared-data", "results"}
    assert verify("sample", where=where).problems == ()
    for name in RUNS:
        assert verify(f"demo-{name}", where=where).problems == ()


def test_json_is_one_document(demo: tuple[Path, str, str]) -> None:
    folder, out, _ = demo
    done = longmemeval("demo", "--json", cwd=folder)
    document = json.loads(done.stdout)
    assert [run["run"] for run in document["runs"]] == [f"demo-{name}" for name in RUNS]
    assert document["prepare"]["prepared"] == 0
    shown = [f"{run['overall']['accuracy'] * 100:.1f}" for run in document["runs"]]
    assert shown == [row(out, name)[0] for name in ROWS]


def test_hints_can_be_followed(demo: tuple[Path, str, str]) -> None:
    folder, _, err = demo
    hints = [line.removeprefix("Next: ") for line in err.splitlines() if line.startswith("Next: ")]
    assert len(hints) == 2
    for hint in hints:
        assert longmemeval(*hint.split()[1:], cwd=folder).stdout


def test_exact_search_needs_no_hnswlib_and_finds_the_same(demo: tuple[Path, str, str], tmp_path: Path) -> None:
    (tmp_path / "without").mkdir()
    (tmp_path / "without" / "hnswlib.py").write_text("raise ImportError('hnswlib is not installed')\n")
    path = f"{tmp_path / 'without'}:{ROOT}"
    done = longmemeval("demo", "--index", "exact", cwd=tmp_path, PYTHONPATH=path)
    assert [row(done.stdout, preset) for preset in MEMORIES.built_in] == [
        row(demo[1], preset) for preset in MEMORIES.built_in
    ]
    refused = longmemeval("demo", cwd=tmp_path, code=2, PYTHONPATH=path)
    assert "--index exact" in refused.stderr


def test_demo_of_python_is_the_demo_of_the_command(demo: tuple[Path, str, str], tmp_path: Path) -> None:
    folder, _, _ = demo
    outcome = run_demo("hnsw", folders_in(folder))
    assert outcome.newly_answered == 0
    elsewhere = run_demo("hnsw", folders_in(tmp_path))
    assert [one.metrics for one in elsewhere.evaluations] == [one.metrics for one in outcome.evaluations]
