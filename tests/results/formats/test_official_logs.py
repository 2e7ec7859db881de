"""Judged logs of the official repository, both ways: nothing is dropped in silence, every figure is the script's."""

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from longmemeval.benchmarks.longmemeval.loader import LongMemEvalDataset
from longmemeval.core.files import sha256_file
from longmemeval.dataset import Dataset
from longmemeval.errors import HarnessError
from longmemeval.judges.offline.lexical import LEXICAL_JUDGE
from longmemeval.pipeline.evaluate.evaluate import EvaluateOptions, evaluate
from longmemeval.pipeline.verify.verify import verify
from longmemeval.results.formats.hypotheses import export_official, import_official
from tests.pipeline.helpers import answer_all, compare, folders_in, manifest, prepared_colours
from tests.support import json_lines, longmemeval, record, tree, write_dataset

COUNTS = {
    "single-session-user": 70,
    "single-session-preference": 30,
    "single-session-assistant": 56,
    "multi-session": 133,
    "temporal-reasoning": 133,
    "knowledge-update": 78,
}
MODEL = "gpt-4o-2024-08-06"


@pytest.fixture(scope="module")
def references(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """The 500 questions of the real proportions, 30 of them unanswerable, without haystacks."""
    empty: dict[str, list[str]] = {
        "haystack_sessions": [],
        "haystack_dates": [],
        "haystack_session_ids": [],
        "answer_session_ids": [],
    }
    records = []
    for name, count in COUNTS.items():
        for number in range(count):
            suffix = "_abs" if number < 6 and name != "single-session-assistant" else ""
            records.append(record(f"{name}-{number}{suffix}", question_type=name, **empty))
    path = tmp_path_factory.mktemp("references") / "reference.json"
    return LongMemEvalDataset(write_dataset(path, *records))


def log_of(dataset: Dataset, seed: int) -> list[dict[str, Any]]:
    draw = random.Random(seed)
    return [
        {
            "question_id": question.question_id,
            "hypothesis": f"answer {number}",
            "autoeval_label": {"model": MODEL, "label": draw.random() < 0.7},
        }
        for number, question in enumerate(dataset.questions())
    ]


def write_log(path: Path, lines: Sequence[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def as_the_script_prints(lines: Sequence[dict[str, Any]], dataset: Dataset) -> dict[str, float]:
    """Straight from the description of `print_qa_metrics.py`: means over the entries, rounded at the end."""
    by_type: dict[str, list[bool]] = {name: [] for name in COUNTS}
    for line in lines:
        by_type[dataset.gold(line["question_id"]).question_type].append(line["autoeval_label"]["label"])
    everything = [label for labels in by_type.values() for label in labels]
    refusals = [line["autoeval_label"]["label"] for line in lines if "_abs" in line["question_id"]]
    return {
        **{name: round(float(np.mean(labels)), 4) for name, labels in by_type.items()},
        "task": round(float(np.mean([np.mean(labels) for labels in by_type.values()])), 4),
        "overall": round(float(np.mean(everything)), 4),
        "abstention": round(float(np.mean(refusals)), 4),
    }


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_a_judged_log_gives_the_scripts_figures(references: Dataset, tmp_path: Path, seed: int) -> None:
    lines = log_of(references, seed)
    folders = folders_in(tmp_path)
    imported = import_official(write_log(tmp_path / "log.jsonl", lines), references, run_id="theirs", folders=folders)
    assert imported.metrics is not None
    figures = imported.metrics.official_figures
    assert figures is not None
    ours = {
        **figures.by_type,
        "task": figures.task_averaged,
        "overall": figures.overall,
        "abstention": figures.abstention,
    }
    assert ours == as_the_script_prints(lines, references)
    # With every question judged, our own figures are the same before rounding.
    assert round(imported.metrics.overall.accuracy, 4) == figures.overall
    assert imported.metrics.abstention is not None
    assert round(imported.metrics.abstention.accuracy, 4) == figures.abstention
    assert verify("theirs", folders=folders).problems == ()


def test_what_does_not_fit_is_named_and_counted(references: Dataset, tmp_path: Path) -> None:
    lines = log_of(references, 1)
    left_out, unlabelled = lines[7]["question_id"], lines[9]["question_id"]
    del lines[9]["autoeval_label"]
    stranger = {"question_id": "nobody", "hypothesis": "x", "autoeval_label": {"model": MODEL, "label": True}}
    file = write_log(tmp_path / "log.jsonl", [*lines[:7], *lines[8:], stranger, lines[0]])
    done = longmemeval("import", file, "--dataset", references.path, "--run-id", "theirs", cwd=tmp_path)
    assert f"1 question is without a hypothesis, counted as not evaluated: {left_out}" in done.stderr
    assert f"1 answer is without a label, counted as not evaluated: {unlabelled}" in done.stderr
    assert "1 line is ignored: the dataset does not have the question: nobody" in done.stderr
    assert f"this run counts them once: {lines[0]['question_id']}" in done.stderr
    # The script looks every line up in the reference, and its label.
    stops = "stop at this log: 1 line has no label; 1 question is not in the dataset."
    assert stops in done.stdout
    assert "official script prints" not in done.stdout
    imported = import_official(file, references, run_id="theirs", folders=folders_in(tmp_path))
    assert imported.metrics is not None
    assert (imported.metrics.overall.n, imported.metrics.overall.not_evaluated) == (500, 2)
    # The first question stands there twice: the script counts it twice.
    labels = [line["autoeval_label"]["label"] for line in [lines[0], *lines[:7], *lines[8:9], *lines[10:]]]
    assert imported.metrics.official_figures is not None
    assert imported.metrics.official_figures.overall == round(sum(labels) / 499, 4)
    assert verify("theirs", folders=folders_in(tmp_path)).problems == ()


def test_the_script_is_quoted_where_it_would_run(references: Dataset, tmp_path: Path) -> None:
    lines = log_of(references, 6)
    command = ("--dataset", references.path)
    whole = longmemeval("import", write_log(tmp_path / "whole.jsonl", lines), *command, cwd=tmp_path).stdout
    assert (
        f"The official script prints for this log: task-averaged {as_the_script_prints(lines, references)['task']}"
        in whole
    )
    for line in lines:
        line["autoeval_label"]["model"] = "gpt-4o-mini"
    other = longmemeval("import", write_log(tmp_path / "other.jsonl", lines), *command, cwd=tmp_path).stdout
    assert "stop at this log: its judge is gpt-4o-mini, and the script accepts only gpt-4o-2024-08-06." in other
    assert "script prints" not in other
    listed = tmp_path / "list.json"
    listed.write_text(json.dumps(log_of(references, 6)))
    assert (
        "stop at this log: not every line is one record."
        in longmemeval("import", listed, *command, cwd=tmp_path).stdout
    )


def test_figures_of_the_official_script_are_not_those_of_another_judge(tmp_path: Path) -> None:
    dataset, folders = prepared_colours(tmp_path)
    answer_all(dataset, folders, "mine")
    assert (
        evaluate("mine", options=EvaluateOptions(judge=LEXICAL_JUDGE), folders=folders).metrics.official_figures is None
    )


def test_two_logs_of_one_judge_compare(references: Dataset, tmp_path: Path) -> None:
    folders = folders_in(tmp_path)
    for run_id, seed in (("a", 7), ("b", 8)):
        import_official(
            write_log(tmp_path / f"{run_id}.jsonl", log_of(references, seed)),
            references,
            run_id=run_id,
            folders=folders,
        )
    found = compare(["a", "b"], folders=folders)
    (judge,) = {run.summary.metrics.judge.id for run in found.runs}
    assert judge.startswith("imported-gpt-4o-2024-08-06-")
    assert len(found.pairs) == 1
    # Which log it was stands beside the judge, in the manifest.
    hashes = {manifest(folders, run_id)["settings"]["hypotheses"]["sha256"] for run_id in ("a", "b")}
    assert hashes == {sha256_file(tmp_path / f"{run_id}.jsonl") for run_id in ("a", "b")}
    told = longmemeval("compare", "a", "b", "--notes", cwd=tmp_path).stdout
    assert "Judge: gpt-4o-2024-08-06, taken over from a log. Not the official judge" in " ".join(told.split())
    other = [line | {"autoeval_label": {"model": "gpt-4o-mini", "label": True}} for line in log_of(references, 9)]
    import_official(write_log(tmp_path / "c.jsonl", other), references, run_id="c", folders=folders)
    with pytest.raises(HarnessError, match="different judges"):
        compare(["a", "c"], folders=folders)


def test_imported_labels_are_never_official(references: Dataset, tmp_path: Path) -> None:
    file = write_log(tmp_path / "log.jsonl", log_of(references, 2))
    imported = import_official(file, references, folders=folders_in(tmp_path))
    assert imported.metrics is not None
    assert not imported.metrics.judge.official
    assert imported.metrics.judge.model == MODEL


def test_labels_of_a_model_without_a_name_say_so(references: Dataset, tmp_path: Path) -> None:
    lines = [line | {"autoeval_label": {"label": True}} for line in log_of(references, 2)]
    imported = import_official(write_log(tmp_path / "log.jsonl", lines), references, folders=folders_in(tmp_path))
    assert imported.metrics is not None
    assert imported.metrics.judge.model == "unnamed model"


def test_importing_twice_changes_nothing(references: Dataset, tmp_path: Path) -> None:
    file, folders = write_log(tmp_path / "log.jsonl", log_of(references, 3)), folders_in(tmp_path)
    first = import_official(file, references, folders=folders)
    before = tree(folders.results_dir)
    assert import_official(file, references, folders=folders) == first
    assert tree(folders.results_dir) == before


@pytest.mark.slow
def test_hypotheses_alone_become_a_run_to_evaluate(references: Dataset, tmp_path: Path) -> None:
    lines = [{"question_id": question.question_id, "hypothesis": "green"} for question in references.questions()]
    folders = folders_in(tmp_path)
    imported = import_official(write_log(tmp_path / "h.jsonl", lines), references, run_id="h", folders=folders)
    assert imported.metrics is None
    graded = evaluate("h", options=EvaluateOptions(judge=LEXICAL_JUDGE), folders=folders).metrics
    # Every record's answer is "green"; the unanswerable ones ask for a refusal.
    assert (graded.overall.correct, graded.overall.n) == (470, 500)


def test_labels_of_two_models_are_refused(references: Dataset, tmp_path: Path) -> None:
    lines = log_of(references, 4)
    lines[3]["autoeval_label"]["model"] = "another"
    with pytest.raises(HarnessError, match="judged by several models: another, gpt-4o-2024-08-06"):
        import_official(write_log(tmp_path / "log.jsonl", lines), references, folders=folders_in(tmp_path))


def test_a_changed_label_is_caught(references: Dataset, tmp_path: Path) -> None:
    folders = folders_in(tmp_path)
    import_official(write_log(tmp_path / "log.jsonl", log_of(references, 5)), references, run_id="r", folders=folders)
    [file] = (folders.results_dir / "r" / "judgements").glob("*.jsonl")
    file.write_text(file.read_text().replace('"label":false', '"label":true', 1))
    problems = verify("r", folders=folders).problems
    assert any(problem.startswith(f"judgements/{file.name}: was changed after it was scored") for problem in problems)


def test_export_and_import_are_inverse(tmp_path: Path) -> None:
    dataset, folders = prepared_colours(tmp_path)
    answer_all(dataset, folders, "mine")
    graded = evaluate("mine", options=EvaluateOptions(judge=LEXICAL_JUDGE), folders=folders).metrics
    written = export_official("mine", folders=folders)
    assert (written.answers, written.unanswered, written.unofficial) == (4, (), (LEXICAL_JUDGE,))
    [log] = written.logs
    assert [set(line) for line in json_lines(Path(log))] == [{"question_id", "hypothesis", "autoeval_label"}] * 4
    back = import_official(Path(log), dataset, run_id="back", folders=folders)
    assert back.metrics is not None
    assert back.metrics.overall == graded.overall
    assert back.metrics.by_type == graded.by_type
    hypotheses = import_official(Path(written.hypotheses), dataset, run_id="plain", folders=folders)
    assert hypotheses.metrics is None
    assert (
        evaluate("plain", options=EvaluateOptions(judge=LEXICAL_JUDGE), folders=folders).metrics.overall
        == graded.overall
    )


def test_an_audit_of_an_imported_run_uses_its_own_judge(references: Dataset, tmp_path: Path) -> None:
    folders, log = folders_in(tmp_path), tmp_path / "log.jsonl"
    log.write_text("".join(json.dumps(line) + "\n" for line in log_of(references, 1)))
    import_official(log, references, run_id="theirs", folders=folders)
    audit = tmp_path / "audit.json"
    audit.write_text(json.dumps([{"question_id": "multi-session-7"}]))
    done = longmemeval("evaluate", "theirs", "--audit", audit, "--json", cwd=tmp_path, OPENAI_API_KEY="")
    document = json.loads(done.stdout)
    (audited,) = document["audit"]
    assert audited["judge"].startswith(f"imported-{MODEL}-")
    assert (audited["score"]["n"], audited["score"]["undisputed_n"]) == (500, 499)
    # Without an audit the answers are graded again, by the benchmark's own judge.
    assert "OPENAI_API_KEY" in longmemeval("evaluate", "theirs", cwd=tmp_path, code=2, OPENAI_API_KEY="").stderr
