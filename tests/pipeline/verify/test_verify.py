"""`verify` finds whatever was changed, names the file, and is content with what was left alone."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from longmemeval.dataset import Dataset
from longmemeval.errors import DataError, HarnessError
from longmemeval.judges.offline.lexical import LEXICAL_JUDGE
from longmemeval.measures.metrics import Metrics
from longmemeval.pipeline.evaluate.evaluate import EvaluateOptions, evaluate
from longmemeval.pipeline.verify.verify import verify
from longmemeval.results.manifest import read_manifest
from longmemeval.results.run_files import RunFiles
from longmemeval.results.run_questions import RunQuestions
from longmemeval.results.scores.checked import write_metrics
from longmemeval.settings import Folders
from tests.pipeline.finished import RIGHT_AND_WRONG, finished
from tests.pipeline.helpers import answer_all, compare, manifest
from tests.support import longmemeval, tree

PREPARATION = "colours/default"


@pytest.fixture(name="finished")
def made(tmp_path_factory: pytest.TempPathFactory, tmp_path: Path) -> tuple[Dataset, Folders]:
    """A preparation, a run `r` on it, and its grades: q0 and q2 right, q1 and q3 wrong."""
    return finished(tmp_path_factory, tmp_path, 4, "combined", said=RIGHT_AND_WRONG)


def changed(path: Path, old: str, new: str) -> str:
    """Replace `old` in a file; the file's name."""
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    return path.name


def only(folder: Path) -> Path:
    (path,) = folder.iterdir()
    return path


def swap_labels(folder: Path) -> str:
    """Two labels change places: no figure tells."""
    path = only(folder / "judgements")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    lines[0]["label"], lines[1]["label"] = lines[1]["label"], lines[0]["label"]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path.name


def drop_last_line(path: Path) -> str:
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))
    return path.name


def remove(path: Path) -> str:
    path.unlink()
    return path.name


def forgotten(run: Path, name: str, *, and_file: bool = False) -> str:
    """The manifest no longer has the hash of a journal; the journal's name."""
    path = run / "run.json"
    document = json.loads(path.read_text())
    del document["files"][name]
    path.write_text(json.dumps(document))
    if and_file:
        (run / name).unlink()
    return name


RUN_CHANGES: dict[str, Callable[[Path], str]] = {
    "answer": lambda run: changed(run / "answers.jsonl", '"red"', '"mauve"'),
    "answer removed": lambda run: drop_last_line(run / "answers.jsonl"),
    "answers removed": lambda run: remove(run / "answers.jsonl"),
    "label": lambda run: changed(only(run / "judgements"), '"label":true', '"label":false'),
    "labels swapped": swap_labels,
    "judgement removed": lambda run: drop_last_line(only(run / "judgements")),
    "judgement of another answer": lambda run: changed(
        only(run / "judgements"), '"answer_sha256":"', '"answer_sha256":"0'
    ),
    "judgements removed": lambda run: remove(only(run / "judgements")),
    "accuracy": lambda run: changed(only(run / "metrics"), '"accuracy": 0.5', '"accuracy": 0.75'),
    "interval": lambda run: changed(only(run / "metrics"), '"not_evaluated": 0', '"not_evaluated": 1'),
    "metrics spoilt": lambda run: changed(only(run / "metrics"), "{", "["),
    "prompt": lambda run: changed(run / "prompts.jsonl", "bicycle2", "tricycle"),
    "prompt removed": lambda run: drop_last_line(run / "prompts.jsonl"),
    "prompts and their hash removed": lambda run: forgotten(run, "prompts.jsonl", and_file=True),
    "hash of the answers removed": lambda run: forgotten(run, "answers.jsonl") and "run.json: has no sha256",
    "metrics removed": lambda run: remove(only(run / "metrics")),
    "totals": lambda run: changed(run / "run.json", '"answered": 4', '"answered": 5'),
    "run of another name": lambda run: changed(run / "run.json", '"run_id": "r"', '"run_id": "s"'),
    "memory renamed": lambda run: changed(run / "run.json", '"name": "combined"', '"name": "better"') and "index.jsonl",
    "model renamed": lambda run: changed(run / "run.json", '"spec": "offline/', '"spec": "openai/') and "index.jsonl",
    "judge made official": lambda run: changed(only(run / "metrics"), '"official": false', '"official": true'),
    "judge renamed": lambda run: changed(only(run / "metrics"), f'"model": "{LEXICAL_JUDGE}"', '"model": "openai/x"'),
    "index": lambda run: changed(run.parent / "index.jsonl", '"accuracy":0.5', '"accuracy":0.75'),
}


@pytest.mark.slow
@pytest.mark.parametrize("change", RUN_CHANGES)
def test_change_of_a_run_is_found_and_its_file_named(finished: tuple[Dataset, Folders], change: str) -> None:
    _, folders = finished
    assert verify("r", folders=folders).problems == ()
    name = RUN_CHANGES[change](folders.results_dir / "r")
    problems = verify("r", folders=folders).problems
    assert any(name in problem for problem in problems), problems


def of_fixture(name: str, change: Callable[[dict[str, Any]], object]) -> Callable[[Path], str]:
    """A change of one JSON file of fixture q1."""

    def apply(preparation: Path) -> str:
        path = preparation / "q1" / name
        document = json.loads(path.read_text())
        change(document)
        path.write_text(json.dumps(document))
        return f"q1/{name}"

    return apply


def part_removed(name: str) -> Callable[[Path], str]:
    def apply(preparation: Path) -> str:
        (preparation / "q1" / name).unlink()
        return f"q1/{name}"

    return apply


PREPARATION_CHANGES: dict[str, Callable[[Path], str]] = {
    "vectors damaged": lambda root: f"q1/{changed(root / 'q1' / 'vector.json', 'A', 'B')}",
    "vectors cut off": lambda root: f"q1/{drop_last_line(root / 'q1' / 'vector.json')}",
    "vectors removed": part_removed("vector.json"),
    "message": lambda root: f"q1/{changed(root / 'q1' / 'db.json', 'rivers', 'floods')}",
    "hash": of_fixture("meta.json", lambda meta: meta["parts"]["db"].update(sha256="0" * 64)),
    "threads": of_fixture("meta.json", lambda meta: meta["thread_ids"].reverse()),
    "resource": of_fixture("meta.json", lambda meta: meta.update(resource_id="resource_q2")),
    "haystack": of_fixture("meta.json", lambda meta: meta.update(haystack_id="q2", resource_id="resource_q2")),
    "data set": of_fixture("meta.json", lambda meta: meta["dataset"].update(sha256="0" * 64)),
    "embedder": of_fixture("meta.json", lambda meta: meta["parts"]["vector"]["recipe"].update(embedder="other")),
    "index": of_fixture("meta.json", lambda meta: meta["parts"]["vector-graph"]["recipe"].update(index="exact")),
    "working memory": of_fixture(
        "meta.json", lambda meta: meta["parts"]["db"]["recipe"].update(working_memory={"version": 1})
    ),
    "newer format": of_fixture("meta.json", lambda meta: meta.update(format=9)),
    "meta spoilt": lambda root: f"q1/{changed(root / 'q1' / 'meta.json', '{', '[')}",
}


@pytest.mark.slow
@pytest.mark.parametrize("change", PREPARATION_CHANGES)
def test_change_of_a_preparation_is_found_and_its_place_named(finished: tuple[Dataset, Folders], change: str) -> None:
    _, folders = finished
    assert verify(PREPARATION, folders=folders).problems == ()
    name = PREPARATION_CHANGES[change](folders.prepared_dir / "colours" / "default")
    problems = verify(PREPARATION, folders=folders).problems
    # Parts and contradictions are told with their file, mixtures with the fixture that differs.
    assert any(name in problem or f"default/{name.split('/')[0]}" in problem for problem in problems), problems
    if not name.endswith("meta.json"):
        assert any(name in problem for problem in problems), problems


def test_command_ends_with_3_and_names_the_file(finished: tuple[Dataset, Folders], tmp_path: Path) -> None:
    _, folders = finished
    assert "checks passed" in longmemeval("verify", "r", cwd=tmp_path).stdout
    assert "checks passed" in longmemeval("verify", "colours", cwd=tmp_path).stdout
    changed(folders.results_dir / "r" / "answers.jsonl", '"red"', '"mauve"')
    before = tree(tmp_path)
    done = longmemeval("verify", "r", cwd=tmp_path, code=3)
    assert done.stderr.startswith("answers.jsonl: was changed after the run ended")
    assert "checks failed" in done.stderr.splitlines()[-1]
    document = json.loads(longmemeval("verify", "r", "--json", cwd=tmp_path, code=3).stdout)
    assert document["problems"]
    changed(folders.prepared_dir / "colours/default/q2/vector.json", "A", "B")
    assert "q2/vector.json" in longmemeval("verify", PREPARATION, cwd=tmp_path, code=3).stderr
    assert {name for name, data in tree(tmp_path).items() if before[name] != data} == {
        "prepared-data/colours/default/q2/vector.json"
    }


def test_damaged_manifest_ends_with_3(finished: tuple[Dataset, Folders], tmp_path: Path) -> None:
    _, folders = finished
    changed(folders.results_dir / "r" / "run.json", '"run_id": "r"', '"run_id": 7')
    assert "The manifest is damaged" in longmemeval("verify", "r", cwd=tmp_path, code=3).stderr


def test_lost_manifest_ends_with_3(finished: tuple[Dataset, Folders], tmp_path: Path) -> None:
    _, folders = finished
    (folders.results_dir / "r" / "run.json").unlink()
    told = longmemeval("verify", "r", cwd=tmp_path, code=3).stderr
    assert "Run 'r' has no run.json" in told
    with pytest.raises(HarnessError, match=r"Valid: colours/default\."):
        verify("s", folders=folders)


def test_question_that_the_data_does_not_have_ends_with_3(finished: tuple[Dataset, Folders], tmp_path: Path) -> None:
    _, folders = finished
    path = folders.results_dir / "r" / "run.json"
    document = json.loads(path.read_text())
    path.write_text(json.dumps(document | {"question_ids": [*document["question_ids"], "q9"]}))
    told = longmemeval("verify", "r", cwd=tmp_path, code=3).stderr
    assert "questions that its dataset does not have: q9" in told
    assert "Traceback" not in told


@pytest.mark.slow
def test_labels_after_the_scores_are_told_from_changed_ones(finished: tuple[Dataset, Folders]) -> None:
    """Grading that was interrupted has appended labels; the scores are still the old ones."""
    dataset, folders = finished
    judgements = only(folders.results_dir / "r" / "judgements")
    scores = only(folders.results_dir / "r" / "metrics")
    whole = judgements.read_bytes()
    drop_last_line(judgements)
    graded = RunQuestions(read_manifest(folders.results_dir / "r"), dataset)
    judge = msgspec.json.decode(scores.read_bytes(), type=Metrics).judge
    write_metrics(folders.results_dir, RunFiles(folders.results_dir / "r"), graded, judge)
    assert verify("r", folders=folders).problems == ()
    judgements.write_bytes(whole)
    (problem,) = verify("r", folders=folders).problems
    assert problem.startswith(f"metrics/{scores.name}: is older than the last lines of judgements/{judgements.name}")


@pytest.mark.slow
def test_abstentions_counted_by_earlier_rules_are_not_counted_again(finished: tuple[Dataset, Folders]) -> None:
    _, folders = finished
    file = only(folders.results_dir / "r" / "metrics")
    document = json.loads(file.read_text())
    assert document["abstaining"]["abstained"] == 1  # q1: "no idea"
    document["abstaining"] |= {"abstained": 2, "method": "offline-lexical-00000000"}
    file.write_text(json.dumps(document))
    assert verify("r", folders=folders).problems == ()
    document["overall"]["accuracy"] = 1.0
    file.write_text(json.dumps(document))
    assert "gives other figures" in verify("r", folders=folders).problems[0]


@pytest.mark.slow
def test_figures_of_an_earlier_version_are_told_with_what_makes_them_again(finished: tuple[Dataset, Folders]) -> None:
    _, folders = finished
    (file,) = (folders.results_dir / "r" / "metrics").glob("*.json")
    document = json.loads(file.read_bytes())
    document["overall"]["interval"] = [0.1, 0.9]
    document["format"] = 2
    file.write_text(json.dumps(document))
    (problem,) = verify("r", folders=folders).problems
    assert problem.startswith(
        f"metrics/{file.name}: holds figures as an earlier version computed them (overall.interval:"
    )
    assert f"`longmemeval evaluate r --judge {file.stem}` writes it again" in problem
    # Shown are the figures as they are computed now.
    assert compare(["r"], folders=folders).runs[0].summary.metrics.overall.interval != (0.1, 0.9)
    evaluate("r", options=EvaluateOptions(judge=LEXICAL_JUDGE), folders=folders)
    assert verify("r", folders=folders).problems == ()


@pytest.mark.slow
def test_killed_run_is_no_changed_run(finished: tuple[Dataset, Folders]) -> None:
    """A run under way promises no hash of its journals."""
    dataset, folders = finished
    answer_all(dataset, folders, "killed", memory="combined")
    path = folders.results_dir / "killed" / "run.json"
    path.write_text(json.dumps(manifest(folders, "killed") | {"status": "running", "files": {}}))
    drop_last_line(folders.results_dir / "killed" / "answers.jsonl")
    assert verify("killed", folders=folders).problems == ()


@pytest.mark.slow
def test_run_is_verified_without_its_fixtures_but_not_without_its_data(
    finished: tuple[Dataset, Folders], tmp_path: Path
) -> None:
    dataset, folders = finished
    folders.prepared_dir.rename(tmp_path / "gone")
    assert verify("r", folders=folders).problems == ()
    moved = dataset.path.rename(tmp_path / "moved.json")
    with pytest.raises(DataError, match="has moved"):
        verify("r", folders=folders)
    assert verify("r", dataset=str(moved), folders=folders).problems == ()


@pytest.mark.slow
@pytest.mark.parametrize("subject", ["rr", "colour", "colours/other", "../../x", "", "colours/../.."])
def test_unknown_subject_is_refused(finished: tuple[Dataset, Folders], subject: str) -> None:
    _, folders = finished
    with pytest.raises(HarnessError, match="Unknown run or preparation"):
        verify(subject, folders=folders)
