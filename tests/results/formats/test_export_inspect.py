"""`export --format inspect`: runs as logs of Inspect, read back by Inspect's own reader and equal."""

import json
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from longmemeval.benchmarks.longmemeval.loader import LongMemEvalDataset
from longmemeval.errors import HarnessError
from longmemeval.memory.products.pip_settings import pip_settings, uv_arguments, uv_variables
from longmemeval.records import Answer
from longmemeval.results.formats.inspect_log import export_inspect
from tests.pipeline.graded_runs import F1, LENIENT, STRICT, Credit, grade, graded_run
from tests.pipeline.helpers import colour_record, colours, folders_in
from tests.report.report_runs import full_run, memory, replace_answers, three_runs
from tests.support import clean_environment, json_lines, longmemeval, write_dataset

INSPECT = "inspect_ai==0.3.285"
"""Its requirements contradict those of the extra `s3`: it has an environment of its own."""
READ = """
import sys
from inspect_ai.log import read_eval_log, read_eval_log_sample, read_eval_log_sample_summaries

for file in sys.argv[1:]:
    log = read_eval_log(file)
    for summary in read_eval_log_sample_summaries(file):
        alone = read_eval_log_sample(file, summary.id, summary.epoch)
        assert alone.messages and summary.scores.keys() == alone.scores.keys()
        assert summary.message_count == len(alone.messages)
    assert read_eval_log(file, header_only=True).results == log.results
    print(log.model_dump_json(exclude_none=True))
"""


def entries(file: str) -> dict[str, Any]:
    with zipfile.ZipFile(file) as archive:
        return {name: json.loads(archive.read(name)) for name in archive.namelist()}


def test_a_question_is_a_sample_a_judge_a_scorer_a_repeat_an_epoch(tmp_path: Path) -> None:
    folders = three_runs(tmp_path)
    log, other = export_inspect(["good-again", "bad", "good"], tmp_path / "out", folders=folders)
    assert (log.runs, log.questions, other.runs) == (("good", "good-again"), 12, ("bad",))
    found = entries(log.file)
    header, sample = found["header.json"], found["samples/q0_epoch_1.json"]
    assert (header["version"], header["status"], header["eval"]["config"]["epochs"]) == (2, "success", 2)
    assert header["eval"]["solver"] == "semantic"
    assert len(found["summaries.json"]) == sum(name.startswith("samples/") for name in found) == 24
    assert found["_journal/start.json"]["eval"] == header["eval"]
    assert (sample["input"], sample["target"]) == ("What colour is my bicycle0?", "red")
    recalled, prompt, answer = sample["messages"]
    assert (recalled["role"], recalled["function"]) == ("tool", "recall")
    assert "[2023-05-21 10:00, user] I painted my bicycle0 red today. Any tips?" in recalled["content"]
    assert (prompt["role"], prompt["content"]) == ("user", "PROMPT good What colour is my bicycle0?")
    assert (answer["role"], answer["content"]) == ("assistant", "answer 0 of good")
    assert {judge: score["value"] for judge, score in sample["scores"].items()} == {STRICT.id: "C", LENIENT.id: "I"}
    assert sample["metadata"]["lost_at"] == "disputed"
    lenient, strict = header["results"]["scores"]
    assert (lenient["name"], lenient["metrics"]["accuracy"]["value"]) == (LENIENT.id, 10 / 12)
    mean = strict["metrics"]["accuracy"]
    assert mean["value"] == (11 / 12 + 3 / 12) / 2
    assert mean["metadata"]["runs"]["good-again"]["value"] == 3 / 12


def test_what_is_not_known_is_not_made_up(tmp_path: Path) -> None:
    """A failed answer, a missing one, scores that are fractions, a prompt that was not stored, a price not known."""
    dataset, folders = colours(tmp_path / "d.json", 4), folders_in(tmp_path)
    folder = graded_run(dataset, folders, "r", [0.5, None, 1.0, 0.0], judge=F1, status="interrupted")
    failed = Answer("q1", "", "error", error="the server hung up")
    replace_answers(folder, lambda name: failed if name == "q1" else Answer(name, "said", "ok", latency_ms=None))
    path = folder / "answers.jsonl"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:3]))
    grade(dataset, folders, "r", {"q0": 0.5, "q2": 1.0}, judge=F1)
    (log,) = export_inspect(["r"], folders=folders)
    found = entries(log.file)
    assert log.file == str(folder / "inspect" / "r.eval")
    assert found["header.json"]["status"] == "cancelled"
    assert found["header.json"]["results"]["completed_samples"] == 2
    samples = {name: found[f"samples/{name}_epoch_1.json"] for name in ("q0", "q1", "q2", "q3")}
    assert {name: one["scores"][F1.id]["value"] for name, one in samples.items()} == {
        "q0": 0.5,
        "q1": "N",
        "q2": 1.0,
        "q3": "N",
    }
    assert samples["q1"]["error"]["message"] == "the server hung up"
    assert [one["role"] for one in samples["q0"]["messages"]] == ["assistant"]
    assert (samples["q3"]["messages"], samples["q3"]["error"]) == ([], None)
    assert (samples["q0"]["total_time"], samples["q0"]["model_usage"]) == (None, {})


def test_the_same_run_gives_the_same_bytes_in_either_form(tmp_path: Path) -> None:
    folders = three_runs(tmp_path)
    (zipped,) = export_inspect(["good"], tmp_path / "a", folders=folders)
    (again,) = export_inspect(["good"], tmp_path / "b", folders=folders)
    assert Path(zipped.file).read_bytes() == Path(again.file).read_bytes()
    (document,) = export_inspect(["good"], tmp_path / "a", format="inspect-json", folders=folders)
    whole, found = json.loads(Path(document.file).read_bytes()), entries(zipped.file)
    samples = whole.pop("samples")
    assert whole == found["header.json"]
    assert samples == [found[f"samples/{one['id']}_epoch_1.json"] for one in samples]


def test_an_ungraded_run_is_refused_and_the_command_says_where_the_log_is(tmp_path: Path) -> None:
    folders = three_runs(tmp_path)
    done = longmemeval("export", "good*", "--format", "inspect", "--output", "out", cwd=tmp_path)
    assert done.stdout == "12 questions, 2 repeats, 2 judges: out/good.eval\n"
    for file in (folders.results_dir / "bad" / "metrics").iterdir():
        file.unlink()
    with pytest.raises(HarnessError, match="'bad' is not graded"):
        export_inspect(["bad"], folders=folders)


@pytest.fixture(scope="module")
def inspect_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment with Inspect, installed from the index that pip uses."""
    at, settings = tmp_path_factory.mktemp("inspect") / "venv", pip_settings()
    uv, variables = str(Path(sys.executable).with_name("uv")), uv_variables(settings) | clean_environment()
    subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, str(at)], check=True, env=variables)
    install = [uv, "pip", "install", "--quiet", "--python", str(at / "bin" / "python"), *uv_arguments(settings)]
    done = subprocess.run([*install, INSPECT], env=variables, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"{INSPECT} cannot be installed here: {done.stderr[-300:]}")
    return at / "bin" / "python"


@pytest.mark.thorough
def test_inspect_reads_500_questions_by_three_judges_and_they_are_equal(inspect_python: Path, tmp_path: Path) -> None:
    records = [colour_record(number, answer=f"colour {number}") for number in range(500)]
    dataset, folders = LongMemEvalDataset(write_dataset(tmp_path / "d.json", *records)), folders_in(tmp_path)
    ids = [question.question_id for question in dataset.questions()]
    labels: dict[int, dict[str, Mapping[str, Credit]]] = {}
    for epoch, run in ((1, "one"), (2, "two")):
        strict: dict[str, Credit] = {name: (place + epoch) % 3 == 0 for place, name in enumerate(ids)}
        lenient: dict[str, Credit] = {name: None if place % 50 == 0 else True for place, name in enumerate(ids)}
        fractions: dict[str, Credit] = {name: (place % 11) / 10 for place, name in enumerate(ids)}
        full_run(dataset, folders, run, strict, settings=memory("semantic", repeat=epoch))
        grade(dataset, folders, run, lenient, judge=LENIENT)
        grade(dataset, folders, run, fractions, judge=F1)
        labels[epoch] = {STRICT.id: strict, LENIENT.id: lenient, F1.id: fractions}
    (zipped,) = export_inspect(["one", "two"], tmp_path / "out", folders=folders)
    (document,) = export_inspect(["one", "two"], tmp_path / "out", format="inspect-json", folders=folders)
    command = [str(inspect_python), "-c", READ, zipped.file, document.file]
    done = subprocess.run(command, env=clean_environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    read = [json.loads(line) for line in done.stdout.splitlines()]
    for log in read:
        log["samples"].sort(key=lambda one: (one["epoch"], one["id"]))
    assert len(read) == 2
    assert read[0] == read[1]
    log = read[0]
    assert len(log["samples"]) == 1000
    answers = {
        (epoch, one["question_id"]): one
        for epoch, run in ((1, "one"), (2, "two"))
        for one in json_lines(folders.results_dir / run / "answers.jsonl")
    }
    for sample in log["samples"]:
        place = sample["epoch"], sample["id"]
        given = {judge: score["value"] for judge, score in sample["scores"].items()}
        assert given == {judge: _value(of[sample["id"]]) for judge, of in labels[sample["epoch"]].items()}
        assert sample["target"] == dataset.gold(sample["id"]).answer
        assert sample["output"]["completion"] == sample["messages"][-1]["content"] == answers[place]["hypothesis"]
        assert sample["messages"][0]["metadata"]["message_ids"] == answers[place]["recall_ids"]
        assert sample["model_usage"]["offline/extractive"]["input_tokens"] == 100
    for scores in log["results"]["scores"]:
        for run in ("one", "two"):
            stored = json.loads((folders.results_dir / run / "metrics" / f"{scores['name']}.json").read_bytes())
            (figure,) = scores["metrics"].values()
            assert figure["metadata"]["runs"][run]["value"] == stored["overall"]["accuracy"]


def _value(credit: Credit) -> str | float:
    if credit is None:
        return "N"
    return ("C" if credit else "I") if isinstance(credit, bool) else credit
