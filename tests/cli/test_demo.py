"""`longmemeval demo`: the whole pipeline in any folder, once; the second time it only shows."""

import json
import re
import shlex
import shutil
from pathlib import Path

import pytest

from longmemeval.benchmarks.registry import load_dataset
from longmemeval.judges.offline.lexical import LEXICAL_JUDGE
from longmemeval.memory.configuration import MEMORIES
from longmemeval.pipeline.demo import SHOWN, run_demo
from longmemeval.pipeline.verify.verify import verify
from scripts.demo_block import COLUMNS, FIGURES, demo_block, pictures
from tests.cli.terminal import row
from tests.made_once import sample_demo, sample_prepared
from tests.models import PRESETS_HERE
from tests.pipeline.helpers import folders_in
from tests.support import ROOT, longmemeval, next_steps, tree

PRESETS = [name for name in MEMORIES.built_in if name in SHOWN]
RUNS = [*PRESETS, "parrot"]
ROWS = [*PRESETS, "parrot on hybrid"]


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, str]:
    """A copy of a folder after a demo, with its two outputs."""
    made = sample_demo(tmp_path_factory)
    return shutil.copytree(made.folder, tmp_path_factory.mktemp("any folder") / "demo"), made.stdout, made.stderr


def _without_time(cells: list[str]) -> list[str]:
    """The cells but for the time that recall took, which no two runs share."""
    return [cells[0], *(cell for cell in cells[1:] if not re.fullmatch(r"\d+\.\d", cell))]


def test_table_has_every_preset_and_says_what_it_is_worth(demo: tuple[Path, str, str]) -> None:
    _, out, err = demo
    count = len(load_dataset("sample"))
    assert f"Prepared {count} haystacks in " in out
    assert f"sample, {count} questions, judge offline/lexical (not official)" in out
    assert all(len(row(out, name)) >= 3 for name in ROWS)
    assert "oracle (reads gold)" in out
    verdict = r"^(No significant difference between [\w-]+ |[\w-]+ \([\d.]+%\) is significantly (better|worse) than )"
    assert re.search(verdict, out, re.MULTILINE)
    assert f"Answered {count * len(RUNS)} questions in" in err


def test_evidence_helps_and_no_memory_does_not(demo: tuple[Path, str, str]) -> None:
    _, out, _ = demo
    accuracy = {preset: float(row(out, preset)[0]) for preset in PRESETS}
    assert accuracy["oracle"] == max(accuracy.values())


def test_it_ends_with_the_path_of_a_report_that_opens(demo: tuple[Path, str, str]) -> None:
    folder, out, _ = demo
    last = out.splitlines()[-1]
    assert last == "Report: results/demo-report.html"
    assert "longmemeval report" in (folder / last.removeprefix("Report: ")).read_text()


def test_controls_are_set_apart_and_the_sentence_about_the_best_is_right(demo: tuple[Path, str, str]) -> None:
    folder, out, _ = demo
    lines = out.splitlines()
    (base,) = [line for line in lines if "(baseline)" in line]
    assert base.split()[0] == "full-history"
    head = next(place for place, line in enumerate(lines) if line.strip() == "controls")
    assert [line.split()[0] for line in lines[head + 1 : head + 3]] == ["oracle", "parrot"]
    assert not lines[head - 1].strip()
    document = json.loads(longmemeval("compare", "demo-*", "--json", cwd=folder).stdout)
    (floor,) = [one for one in document["sentences"] if one["code"] == "all-better"]
    systems = [name for name in PRESETS if MEMORIES.get(name).control is None]
    assert (floor["runs"], floor["values"]["m"]) == ({"C": ["demo-parrot"]}, len(systems))


def test_what_repeats_all_it_recalled_is_below_every_memory(demo: tuple[Path, str, str]) -> None:
    """A text that holds the gold somewhere is no answer."""
    _, out, _ = demo
    systems = [name for name in PRESETS if MEMORIES.get(name).control is None]
    parrot = float(row(out, "parrot on hybrid")[0])
    shown = [float(row(out, name)[0]) for name in systems]
    assert all(parrot < score < float(row(out, "oracle")[0]) for score in shown)


@pytest.mark.thorough
def test_all_adds_the_other_presets_and_controls(
    demo: tuple[Path, str, str], tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    _, out, _ = demo
    shutil.copytree(sample_prepared(tmp_path_factory) / "prepared-data", tmp_path / "prepared-data")
    whole = longmemeval("demo", "--all", cwd=tmp_path).stdout
    names = [*PRESETS_HERE, "refuse on none", "parrot on hybrid", "last-session on full-history"]
    # One of them reads by another method, so that each row says how it was read.
    read = {name: name if " on " in name else f"{name}, {'files' if name == 'files' else 'direct'}" for name in names}
    accuracy = {name: float(row(whole, shown)[0]) for name, shown in read.items()}
    assert accuracy["none"] == min(accuracy[name] for name in PRESETS_HERE)
    assert all(row(whole, read[name])[:3] == row(out, name)[:3] for name in PRESETS)


@pytest.mark.thorough
def test_whatever_was_recalled_repeating_it_is_no_answer(
    demo: tuple[Path, str, str], tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder, out, _ = demo
    systems = [name for name in PRESETS_HERE if MEMORIES.get(name).control is None]
    shutil.copytree(sample_prepared(tmp_path_factory) / "prepared-data", tmp_path / "prepared")
    plan = {"name": "repeated", "dataset": "sample", "memories": [*systems, "oracle", "full-history"]}
    (tmp_path / "repeated.yaml").write_text(
        json.dumps(plan | {"models": ["offline/parrot"], "judges": [LEXICAL_JUDGE]})
    )
    own = ("--prepared-dir", str(tmp_path / "prepared"), "--results-dir", str(tmp_path / "results"))
    done = longmemeval("sweep", str(tmp_path / "repeated.yaml"), *own, "--json", cwd=folder)
    runs = json.loads(done.stdout)["runs"]
    assert len(runs) == len(systems) + 2
    scores = {run["run"]: run["overall"]["accuracy"] for run in runs}
    # The oracle recalls the evidence and nothing else: repeated, it is often short enough to be an answer.
    (evidence,) = (name for name in scores if "oracle" in name)
    assert scores.pop(evidence) < float(row(out, "oracle")[0]) / 100 / 2
    assert {name: score for name, score in scores.items() if score > 0.15} == {}


def test_second_time_nothing_is_done_again_and_readme_shows_it(demo: tuple[Path, str, str]) -> None:
    folder, out, _ = demo
    before = tree(folder)
    again = longmemeval("demo", cwd=folder, COLUMNS=COLUMNS)
    assert "Already prepared" in again.stdout
    assert "All questions were already answered" in again.stderr
    assert [row(again.stdout, preset)[0] for preset in PRESETS] == [row(out, preset)[0] for preset in PRESETS]
    assert tree(folder) == before
    stale = "Stale: README.md. Run scripts/make_docs"
    assert demo_block(again.stdout) in (ROOT / "README.md").read_text(), stale


def test_readme_has_the_picture_of_the_demo(demo: tuple[Path, str, str], tmp_path: Path) -> None:
    shutil.copytree(demo[0] / "results", tmp_path / "results")
    longmemeval(*FIGURES, cwd=tmp_path)
    drawn = pictures(tmp_path)
    assert {path: (ROOT / path).read_text() for path in drawn} == drawn, "Stale. Run scripts/make_docs"


@pytest.mark.thorough
def test_what_it_leaves_behind_is_whole(demo: tuple[Path, str, str]) -> None:
    folder, _, _ = demo
    folders = folders_in(folder)
    assert {path.name for path in folder.iterdir()} == {"prepared-data", "results"}
    assert verify("sample", folders=folders).problems == ()
    for name in RUNS:
        assert verify(f"demo-{name}", folders=folders).problems == ()


def test_json_is_one_document(demo: tuple[Path, str, str]) -> None:
    folder, out, _ = demo
    done = longmemeval("demo", "--json", cwd=folder)
    document = json.loads(done.stdout)
    assert [run["run"] for run in document["runs"]] == [f"demo-{name}" for name in RUNS]
    assert document["prepare"]["prepared"] == 0
    assert (document["verdict"]["baseline"], document["verdict"]["run"]) == ("demo-full-history", "demo-hybrid")
    shown = [f"{run['overall']['accuracy'] * 100:.1f}" for run in document["runs"]]
    assert shown == [row(out, name)[0] for name in ROWS]


def test_hints_can_be_followed(demo: tuple[Path, str, str]) -> None:
    folder, _, err = demo
    *hints, view = next_steps(err)
    assert [hint[0] for hint in hints] == ["inspect", "compare"]
    for hint in hints:
        assert longmemeval(*hint, cwd=folder).stdout
    assert view == ["view"]


def test_terminal_and_report_have_one_baseline(demo: tuple[Path, str, str]) -> None:
    folder, out, err = demo
    (details,) = [line for line in out.splitlines() if line.startswith("Details: ")]
    given = shlex.split(details.removeprefix("Details: longmemeval ").partition(" --tables")[0])
    for line in (given, next_steps(err)[1]):
        (base,) = [row for row in longmemeval(*line, cwd=folder).stdout.splitlines() if "(baseline)" in row]
        assert base.split()[0] == "full-history"
    page = (folder / "results/demo-report.html").read_text()
    (marked,) = re.findall(r'<tr class="is-baseline">.*?</tr>', page, re.DOTALL)
    assert "full-history" in marked


@pytest.fixture
def without_hnswlib(tmp_path: Path) -> str:
    """A PYTHONPATH on which hnswlib cannot be imported."""
    (tmp_path / "without").mkdir()
    (tmp_path / "without" / "hnswlib.py").write_text("raise ImportError('hnswlib is not installed')\n")
    return f"{tmp_path / 'without'}:{ROOT}"


@pytest.mark.thorough
def test_without_hnswlib_search_is_exact_finds_the_same_and_says_so_in_one_line(
    demo: tuple[Path, str, str], tmp_path: Path, without_hnswlib: str
) -> None:
    done = longmemeval("demo", cwd=tmp_path, PYTHONPATH=without_hnswlib)
    (said,) = [line for line in done.stderr.splitlines() if "hnswlib" in line]
    assert said.endswith(f"install -e '{ROOT}[hnsw]'")
    found, known = ([_without_time(row(out, preset)) for preset in PRESETS] for out in (done.stdout, demo[1]))
    assert found == known
    # Where there is hnswlib again, it goes on with what was prepared.
    again = longmemeval("demo", cwd=tmp_path)
    assert "Already prepared" in again.stdout
    assert "All questions were already answered" in again.stderr
    assert "hnswlib" not in again.stderr


@pytest.mark.thorough
def test_a_chosen_index_names_the_runs_that_the_next_commands_name(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    shutil.copytree(sample_demo(tmp_path_factory).folder, tmp_path, dirs_exist_ok=True)
    done = longmemeval("demo", "--index", "exact", cwd=tmp_path)
    inspect, compare, _ = next_steps(done.stderr)
    assert longmemeval(*inspect, cwd=tmp_path).stdout
    document = json.loads(longmemeval(*compare, "--json", cwd=tmp_path).stdout)
    assert {run["run"] for run in document["runs"]} == {f"demo-{name}-exact" for name in RUNS}


@pytest.mark.thorough
def test_demo_of_python_is_the_demo_of_the_command(demo: tuple[Path, str, str]) -> None:
    folder, out, _ = demo
    outcome = run_demo(None, folders_in(folder))
    assert outcome.newly_answered == 0
    shown = [f"{one.metrics.overall.accuracy * 100:.1f}" for one in outcome.evaluations]
    assert shown == [row(out, name)[0] for name in ROWS]
