"""Whatever prints a figure makes it again first, and refuses files that are not those the figure was made from."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from longmemeval.core.files import sha256_file
from longmemeval.errors import HarnessError, IntegrityError
from longmemeval.judges.offline.lexical import LEXICAL_JUDGE
from longmemeval.pipeline.evaluate.evaluate import EvaluateOptions, evaluate
from longmemeval.pipeline.prepare.prepare import prepare
from longmemeval.pipeline.retrieval.retrieve import RetrievalOptions, retrieve
from longmemeval.pipeline.run.plan import RunOptions
from longmemeval.pipeline.run.run import run
from longmemeval.pipeline.verify.verify import verify
from longmemeval.report.write import ReportOptions, render_report
from longmemeval.results.formats.export import export_questions
from longmemeval.results.formats.export_trec import export_trec
from longmemeval.results.formats.hypotheses import export_official
from longmemeval.results.selection import Selection
from longmemeval.settings import Folders
from tests.pipeline.finished import RIGHT_AND_WRONG, finished
from tests.pipeline.helpers import answer_all, compare, manifest, prepared_colours
from tests.pipeline.verify.test_verify import changed, drop_last_line, only, remove, swap_labels
from tests.support import json_lines, longmemeval

OFFLINE = EvaluateOptions(judge=LEXICAL_JUDGE)
READERS: dict[str, Callable[[Folders], object]] = {
    "evaluate": lambda where: evaluate("r", options=OFFLINE, folders=where),
    "compare": lambda where: compare(["r"], folders=where),
    "report": lambda where: render_report(["r"], options=ReportOptions(format="md"), folders=where),
    "export csv": lambda where: export_questions("r", folders=where),
    "export official": lambda where: export_official("r", folders=where),
}


@pytest.fixture
def folders(tmp_path_factory: pytest.TempPathFactory, tmp_path: Path) -> Folders:
    """A graded run `r`: q0 and q2 right, q1 and q3 wrong."""
    return finished(tmp_path_factory, tmp_path, 4, "combined", said=RIGHT_AND_WRONG)[1]


def with_hash(folder: Path, name: str) -> str:
    """The manifest is changed to fit a file; the file's name."""
    path = folder / "run.json"
    document = json.loads(path.read_text())
    document["files"][name] = sha256_file(folder / name)
    path.write_text(json.dumps(document))
    return name


def with_scores(folder: Path) -> str:
    """A label is changed, and the scores to fit it: only what the judge said tells."""
    (file,) = (folder / "judgements").iterdir()
    changed(file, '"label":false', '"label":true')
    (scores,) = (folder / "metrics").iterdir()
    document = json.loads(scores.read_text())
    document["judgements_sha256"] = sha256_file(file)
    scores.write_text(json.dumps(document))
    return f"judgements/{file.name}: question"


CHANGES: dict[str, Callable[[Path], str]] = {
    "answer": lambda run: changed(run / "answers.jsonl", '"red"', '"mauve"'),
    "answer removed": lambda run: drop_last_line(run / "answers.jsonl"),
    "answer and its hash": lambda run: (
        changed(run / "answers.jsonl", '"red"', '"mauve"') and with_hash(run, "answers.jsonl") and "judgements/"
    ),
    "answers removed": lambda run: remove(run / "answers.jsonl"),
    "prompt": lambda run: changed(run / "prompts.jsonl", "bicycle2", "tricycle"),
    "prompts removed": lambda run: remove(run / "prompts.jsonl"),
    "label": lambda run: changed(only(run / "judgements"), '"label":true', '"label":false'),
    "label and scores": with_scores,
    "labels swapped": lambda run: swap_labels(run),
    "judgement removed": lambda run: drop_last_line(only(run / "judgements")),
    "judgements removed": lambda run: remove(only(run / "judgements")),
    "correct": lambda run: changed(only(run / "metrics"), '"correct": 2', '"correct": 3'),
    "accuracy": lambda run: changed(only(run / "metrics"), '"accuracy": 0.5', '"accuracy": 0.75'),
    "judge made official": lambda run: changed(only(run / "metrics"), '"official": false', '"official": true'),
    "judge's address": lambda run: changed(only(run / "metrics"), '"endpoint": null', '"endpoint": "http://x/v1"'),
    "scores spoilt": lambda run: changed(only(run / "metrics"), "{", "["),
    "totals": lambda run: changed(run / "run.json", '"answered": 4', '"answered": 5'),
}


@pytest.mark.slow
@pytest.mark.parametrize("change", CHANGES)
def test_nothing_is_printed_of_changed_files(folders: Folders, change: str) -> None:
    name = CHANGES[change](folders.results_dir / "r")
    for reader, read in READERS.items():
        with pytest.raises(IntegrityError) as caught:
            read(folders)
        assert name in str(caught.value), reader
    assert any(name in problem for problem in verify("r", folders=folders).problems)


def test_a_run_goes_by_its_own_name_alone(folders: Folders, tmp_path: Path) -> None:
    folder = (folders.results_dir / "r").rename(folders.results_dir / "better")
    told = "The folder 'better' holds run 'r': it was renamed"
    for command in (
        ("evaluate", "better", "--judge", LEXICAL_JUDGE),
        ("compare", "better"),
        ("report", "better", "--format", "md", "-o", "-"),
        ("export", "better", "--format", "official"),
    ):
        done = longmemeval(*command, cwd=tmp_path, code=3)
        said = " ".join(done.stderr.split())
        assert told in said, command
        assert "Rename the folder back to 'r'" in said
    (problem,) = verify("better", folders=folders).problems
    assert problem.startswith("run.json: is of run 'r'; rename the folder back")
    folder.rename(folders.results_dir / "r")
    for read in READERS.values():
        read(folders)
    assert verify("r", folders=folders).problems == ()


def test_commands_end_with_3_and_name_the_file(folders: Folders, tmp_path: Path) -> None:
    changed(folders.results_dir / "r" / "prompts.jsonl", "bicycle2", "tricycle")
    commands = (
        ("evaluate", "r", "--judge", LEXICAL_JUDGE),
        ("compare", "r", "--json"),
        ("report", "r", "--format", "md", "-o", "-"),
        ("export", "r", "--format", "official"),
    )
    for command in commands:
        done = longmemeval(*command, cwd=tmp_path, code=3)
        assert "prompts.jsonl: was changed after the run ended" in " ".join(done.stderr.split())
        assert done.stdout == ""


@pytest.mark.slow
def test_rankings_that_were_changed_are_not_exported(folders: Folders, tmp_path: Path) -> None:
    dataset, _ = prepared_colours(tmp_path, 4, "combined")
    prepare(dataset, ["bm25"], folders=folders)
    retrieve(dataset, ["bm25"], options=RetrievalOptions(run_id="ranked"), folders=folders)
    export_trec("ranked", folders=folders)
    changed(folders.results_dir / "ranked" / "rankings.jsonl", '"score":', '"score":1')
    with pytest.raises(IntegrityError, match=r"rankings\.jsonl: was changed"):
        export_trec("ranked", folders=folders)


@pytest.mark.slow
def test_scores_older_than_the_answers_are_made_again_by_evaluate(folders: Folders, tmp_path: Path) -> None:
    """A run is graded before it is complete, and resumed."""
    dataset, _ = prepared_colours(tmp_path, 4, "combined")
    script = tmp_path / "half.json"
    model, options = f"offline/scripted:{script}", RunOptions(run_id="half")
    script.write_text(json.dumps({"q0": "red", "q2": "blue"}))
    run(dataset, "combined", model, options=options, folders=folders)
    assert evaluate("half", options=OFFLINE, folders=folders).metrics.overall.not_evaluated == 2
    script.write_text(json.dumps({"q0": "red", "q1": "green", "q2": "blue", "q3": "black"}))
    run(dataset, "combined", model, options=options, folders=folders)
    with pytest.raises(IntegrityError, match=r"is older than the last lines of answers\.jsonl") as caught:
        compare(["half"], folders=folders)
    assert caught.value.fix == "Run `longmemeval evaluate half --judge offline/lexical`"
    assert evaluate("half", options=OFFLINE, folders=folders).metrics.overall.correct == 4
    assert compare(["half"], folders=folders).runs[0].summary.metrics.overall.correct == 4


def edited(folders: Folders, run_id: str, **fields: object) -> None:
    path = folders.results_dir / run_id / "run.json"
    path.write_text(json.dumps(manifest(folders, run_id) | fields))


SELECTIONS: dict[str, tuple[Selection, str]] = {
    "limit": (Selection(limit=2), "2 of 4 questions, the first ones"),
    "sample": (Selection(sample=2, seed=7), "2 of 4 questions, a sample by type with seed 7"),
    "ids": (Selection(question_ids=("q0", "q3")), "2 of 4 questions, chosen by id"),
}


@pytest.mark.variants
@pytest.mark.parametrize("kind", SELECTIONS)
def test_tables_say_which_part_of_the_questions_they_are_about(tmp_path: Path, kind: str) -> None:
    selection, part = SELECTIONS[kind]
    dataset, folders = prepared_colours(tmp_path, 4)
    answer_all(dataset, folders, "p", selection=selection)
    assert manifest(folders, "p")["selection"] == {
        "limit": selection.limit,
        "sample": selection.sample,
        "seed": selection.seed,
        "shard": "",
        "question_ids": list(selection.question_ids),
    }
    commands = (
        ("evaluate", "p", "--judge", LEXICAL_JUDGE),
        ("compare", "p"),
        ("compare", "p", "--across"),
        ("report", "p", "--format", "md", "-o", "-"),
        ("report", "p", "--format", "latex", "-o", "-"),
        ("export", "p", "--format", "csv"),
    )
    for command in commands:
        assert part in " ".join(longmemeval(*command, cwd=tmp_path).stdout.split()), command
    assert f"Subset: {part}." in longmemeval("export", "p", "--format", "official", cwd=tmp_path).stderr
    longmemeval("report", "p", cwd=tmp_path)
    assert f" {part} " in (tmp_path / "report.html").read_text()
    document = json.loads(longmemeval("evaluate", "p", "--judge", LEXICAL_JUDGE, "--json", cwd=tmp_path).stdout)
    assert document["part"] == part
    (compared,) = json.loads(longmemeval("compare", "p", "--json", cwd=tmp_path).stdout)["runs"]
    assert compared["part"] == part
    assert [line["part"] for line in json_lines(folders.results_dir / "index.jsonl")] == [part]
    assert verify("p", folders=folders).problems == ()


def test_the_whole_data_set_needs_no_words(folders: Folders, tmp_path: Path) -> None:
    assert manifest(folders)["selection"] == {"limit": None, "sample": None, "seed": 0, "question_ids": [], "shard": ""}
    shown = longmemeval("compare", "r", "--tables", "--notes", cwd=tmp_path).stdout
    assert "colours, 4 questions, judge" in shown
    assert "whole data set" not in shown


def test_tables_of_retrieval_say_so_too(folders: Folders, tmp_path: Path) -> None:
    prepare(prepared_colours(tmp_path, 4, "combined")[0], ["bm25"], folders=folders)
    command = ("retrieval", "--dataset", tmp_path / "colours.json", "--memory", "bm25", "--question-id", "q1")
    assert "1 of 4 questions, chosen by id" in longmemeval(*command, cwd=tmp_path).stdout
    assert json.loads(longmemeval(*command, "--json", cwd=tmp_path).stdout)["part"] == "1 of 4 questions, chosen by id"


@pytest.mark.slow
@pytest.mark.parametrize("selection", [Selection(), *(selection for selection, _ in SELECTIONS.values())])
def test_questions_cannot_be_dropped_unnoticed(folders: Folders, tmp_path: Path, selection: Selection) -> None:
    dataset, _ = prepared_colours(tmp_path, 4, "combined")
    script = tmp_path / "one.json"
    script.write_text(json.dumps({"q0": "red", "q2": "red"}))  # Each selection has one of them, and one of the others.
    run(
        dataset,
        "combined",
        f"offline/scripted:{script}",
        selection=selection,
        options=RunOptions(run_id="s"),
        folders=folders,
    )
    evaluate("s", options=OFFLINE, folders=folders)
    # Whoever takes out what failed, answers and hash included, still has the selection against him.
    answers = folders.results_dir / "s" / "answers.jsonl"
    kept = [line for line in answers.read_text().splitlines() if '"status":"ok"' in line]
    answers.write_text("".join(line + "\n" for line in kept))
    document = manifest(folders, "s")
    ids = [json.loads(line)["question_id"] for line in kept]
    files = document["files"] | {"answers.jsonl": sha256_file(answers)}
    totals = document["totals"] | {"failed": 0}
    (folders.results_dir / "s" / "run.json").write_text(
        json.dumps(document | {"question_ids": ids, "files": files, "totals": totals})
    )
    remove(only(folders.results_dir / "s" / "metrics"))
    for read in (
        lambda: evaluate("s", options=OFFLINE, folders=folders),
        lambda: export_official("s", folders=folders),
    ):
        with pytest.raises(IntegrityError, match="does not have the questions that its selection gives"):
            read()


@pytest.mark.slow
def test_scores_of_a_newer_version_are_refused(folders: Folders) -> None:
    changed(only(folders.results_dir / "r" / "metrics"), '"format": 4', '"format": 9')
    with pytest.raises(HarnessError, match="The file of scores has format 9") as caught:
        compare(["r"], folders=folders)
    assert caught.value.fix == "Upgrade longmemeval"


@pytest.mark.slow
def test_agreement_in_a_report_is_that_of_each_run(folders: Folders, tmp_path: Path) -> None:
    """Runs of one data set share its questions; their judgements are their own."""
    dataset, _ = prepared_colours(tmp_path, 4, "combined")
    answer_all(dataset, folders, "s", memory="combined")
    evaluate("s", options=OFFLINE, folders=folders)
    assert [one.summary.run_id for one in compare(["r", "s"], folders=folders).runs] == ["r", "s"]
    assert [one.summary.metrics.run for one in compare(["r", "s"], folders=folders).runs] == ["r", "s"]
