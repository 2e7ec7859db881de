"""`longmemeval sweep`: the shipped example with one command, offline; the second time it only shows."""

import json
import re
from pathlib import Path

import pytest

from longmemeval.benchmarks.registry import load_dataset
from longmemeval.pipeline.sweep.plan import plan
from longmemeval.pipeline.verify.verify import verify
from tests.pipeline.helpers import folders_in
from tests.support import ROOT, longmemeval, tree

EXAMPLE = ROOT / "examples" / "sweep.yaml"
COUNT = len(load_dataset("sample", ROOT / "data"))
RUNS = [run.run_id for run in plan(EXAMPLE).runs]
# The first run is what the others are compared with; other runs of a control come last.
SHOWN = sorted(RUNS, key=lambda run_id: run_id != RUNS[0] and "full-history" in run_id)


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, str]:
    """A folder after the sweep, with its two outputs."""
    folder = tmp_path_factory.mktemp("any folder")
    outcome = longmemeval("sweep", EXAMPLE, cwd=folder)
    return folder, outcome.stdout, outcome.stderr


def front_rows(output: str) -> list[tuple[str, bool, str]]:
    """Name, whether it is on the front, and accuracy in percent, of each row of the last table."""
    table = output.partition("Pareto front")[2]
    rows = re.findall(r"^ (\S.*?)  +(●?) *(\d+\.\d)%", table, re.MULTILINE)
    return [(name, bool(mark), accuracy) for name, mark, accuracy in rows]


@pytest.mark.thorough
def test_one_command_runs_grades_and_compares_eight_runs(done: tuple[Path, str, str]) -> None:
    folder, out, err = done
    assert len(RUNS) == 8
    assert "Details: longmemeval compare --sweep sample --judge " in out
    assert "judge offline/lexical (not official)" in out
    assert len({name for name, _, _ in front_rows(out)}) == 8
    assert "Remaining:" in err
    assert f"[8/8] {RUNS[7]}: answering {COUNT} questions" in err
    assert f"{8 * COUNT} questions answered and {8 * COUNT} answers graded" in err
    assert "\nRuns: results/sample_*\nNext steps:\n  longmemeval report --sweep sample " in out
    made = [path.name for path in (folder / "results").glob("sample_*")]
    assert sorted(made) == sorted([*RUNS, "sample_plan.json"])
    folders = folders_in(folder)
    assert [verify(run_id, folders=folders).problems for run_id in RUNS] == [()] * 8


@pytest.mark.thorough
def test_second_time_it_only_shows(done: tuple[Path, str, str]) -> None:
    folder, out, _ = done
    before = tree(folder)
    again = longmemeval("sweep", EXAMPLE, cwd=folder)
    assert again.stdout == out
    assert again.stderr.count("\n") == 1
    assert "Nothing was left to do" in again.stderr
    assert tree(folder) == before


@pytest.mark.thorough
def test_json_is_one_document_that_says_what_the_tables_say(done: tuple[Path, str, str]) -> None:
    folder, out, _ = done
    document = json.loads(longmemeval("sweep", EXAMPLE, "--json", cwd=folder).stdout)
    rows = front_rows(out)
    assert [run["run"] for run in document["runs"]] == SHOWN
    assert [f"{run['overall']['accuracy'] * 100:.1f}" for run in document["runs"]] == [row[2] for row in rows]
    assert document["pareto"] == [run_id for run_id, row in zip(SHOWN, rows, strict=True) if row[1]] != []
    assert document["failed"] == []
    assert (document["estimate"]["complete"], document["estimate"]["runs"]) == (8, [])


def test_dry_run_says_what_it_would_take_and_does_nothing(tmp_path: Path) -> None:
    shown = longmemeval("sweep", EXAMPLE, "--dry-run", cwd=tmp_path).stdout
    assert "8 runs: 0 complete, 8 left." in shown
    assert f"To prepare: {COUNT} of {COUNT} haystacks" in shown
    assert "The prompts of 6 runs are a range until they are prepared." in shown
    assert shown.count(f"Planning: {COUNT} questions give 80% power to detect ") == 1
    assert list(tmp_path.iterdir()) == []
    document = json.loads(longmemeval("sweep", EXAMPLE, "--dry-run", "--json", cwd=tmp_path).stdout)
    assert [run["run_id"] for run in document["estimate"]["runs"]] == RUNS
    assert document["estimate"]["planning"] in shown.replace("\n", " ")
    assert (document["runs"], document["pareto"]) == ([], [])


def test_what_failed_is_told_last_with_code_1(tmp_path: Path) -> None:
    (tmp_path / "answers.json").write_text('{"s0": "green"}')
    (tmp_path / "sweep.yaml").write_text(
        "name: f\ndataset: sample\nselection: {limit: 2}\nmemories: [none]\njudges: [offline/lexical]\n"
        "models: [{spec: 'offline/scripted:answers.json', name: script}, {spec: offline/extractive, name: offline}]\n"
    )
    failed = longmemeval("sweep", "sweep.yaml", cwd=tmp_path, code=1)
    assert "Pareto front" in failed.stdout
    lines = failed.stderr.splitlines()
    assert lines[-2].startswith("Failed: f_none_script_direct: 2 of 2 questions failed, the first: ")
    assert lines[-1] == "Rerun the command to retry what failed."


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("name: s\n", "Error: The field 'dataset' is missing (sweep.yaml, line 1: dataset)."),
        ("name: s\ndataset: sample\nmemoris: [none]\nmodels: [x]\n", "Did you mean 'memories'?"),
        ("name: s\ndataset: sample\nmemories: [none]\nmodel: [x]\n", "Unknown field 'model' in a sweep file"),
        ("name: s\ndataset: sample\nmemories: [none]\nmodels: [offline/x]\n", "Unknown offline model 'offline/x'"),
        ("name: [s", "Error: The sweep file is not YAML"),
    ],
)
def test_wrong_file_ends_with_one_paragraph(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "sweep.yaml").write_text(text)
    refused = longmemeval("sweep", "sweep.yaml", "--dry-run", cwd=tmp_path, code=2)
    assert told in refused.stderr
    assert "Traceback" not in refused.stderr
    assert refused.stdout == ""


def test_limit_of_the_command_goes_before_the_files(tmp_path: Path) -> None:
    (tmp_path / "sweep.yaml").write_text(
        "name: s\ndataset: sample\nmemories: [full-history]\nmodels: [openai/gpt-4o]\njudges: [offline/lexical]\n"
        "max_cost: 1000\n"
    )
    key = {"OPENAI_API_KEY": "sk-of-the-tests"}
    refused = longmemeval("sweep", "sweep.yaml", "--max-cost", "0.01", cwd=tmp_path, code=2, **key)
    assert "and --max-cost is $0.0100" in refused.stderr
    assert list(tmp_path.iterdir()) == [tmp_path / "sweep.yaml"]
