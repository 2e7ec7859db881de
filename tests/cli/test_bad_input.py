"""Whatever a user gets wrong ends with code 2 and one paragraph: what, where, what to do. Nothing is harmed."""

import gzip
import json
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from longmemeval.judges.offline.lexical import LEXICAL_JUDGE
from longmemeval.pipeline.evaluate.evaluate import EvaluateOptions, evaluate
from tests.cli.conftest import Command, Outcome
from tests.pipeline.helpers import answer_all, colour_record, colours, prepared_colours
from tests.support import clean_environment, longmemeval, next_steps, write_dataset

DEEP = "[" * 20_000 + "]" * 20_000
PREPARE = "prepare --dataset colours.json --memory combined"
RUN = "run --dataset colours.json --memory combined --model offline/extractive --run-id new"


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data set, prepared, answered (run `r`) and graded."""
    folder = tmp_path_factory.mktemp("finished")
    dataset, folders = prepared_colours(folder, 4, "combined")
    answer_all(dataset, folders, memory="combined")
    evaluate("r", options=EvaluateOptions(judge=LEXICAL_JUDGE), folders=folders)
    return folder


@pytest.fixture
def workspace(finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it as the current folder, without keys in the environment."""
    folder = tmp_path / "workspace"
    shutil.copytree(finished, folder)
    # Fixtures are made of the bytes of this very file, wherever it is.
    run = folder / "results" / "r" / "run.json"
    run.write_text(run.read_text().replace(str(finished), str(folder)))
    monkeypatch.chdir(folder)
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_API_BASE", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    return folder


def content(folder: Path) -> dict[str, bytes]:
    """Every file, hidden ones included; caches hold nothing that is missed."""
    files = (path for path in folder.rglob("*") if path.is_file() and ".cache" not in path.parts)
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def records(change: Callable[[list[dict[str, Any]]], object]) -> Callable[[], object]:
    """Write `bad.json`: four good records after `change`."""

    def write() -> None:
        four = [colour_record(number) for number in range(4)]
        change(four)
        write_dataset(Path("bad.json"), *four)

    return write


def bytes_of_bad(change: Callable[[bytes], bytes]) -> Callable[[], object]:
    """Write `bad.json`: the good file after `change`."""
    return lambda: Path("bad.json").write_bytes(change(Path("colours.json").read_bytes()))


def spoil(path: str, old: str, new: str) -> Callable[[], object]:
    def write() -> None:
        text = Path(path).read_text()
        assert old in text
        Path(path).write_text(text.replace(old, new, 1))

    return write


def text(path: str, content: str) -> Callable[[], object]:
    return lambda: Path(path).write_text(content)


def linked(name: str, target: str) -> Callable[[], object]:
    """Put a symbolic link in the place of a file or folder, which goes beside it under `<name>.was`."""

    def link() -> None:
        path = Path(name)
        if path.exists():
            path.rename(path.with_name(f".{path.name}.was"))
        path.symlink_to(target)

    return link


def folder(path: str) -> Callable[[], object]:
    return lambda: Path(path).mkdir()


def other_data() -> None:
    Path("elsewhere").mkdir()
    colours(Path("elsewhere/colours.json"), 5)


BAD = "prepare --dataset bad.json --memory last-k"
DATA: dict[str, tuple[Callable[[], object], list[str]]] = {
    "truncated": (bytes_of_bad(lambda data: data[: len(data) // 2]), ["bad.json", "truncated"]),
    "not JSON": (bytes_of_bad(lambda data: b"nothing" + data), ["bad.json", "not JSON"]),
    "web page": (bytes_of_bad(lambda data: b"<html>" + data), ["bad.json", "a web page", "Download the file itself"]),
    "gzip": (bytes_of_bad(gzip.compress), ["bad.json", "compressed (gzip)", "Decompress it"]),
    "JSON Lines": (bytes_of_bad(lambda data: b'{"a": 1}\n{"a": 2}'), ["bad.json", "JSON Lines"]),
    "no list": (bytes_of_bad(lambda data: b'{"data": 1}'), ["bad.json", "is not in the format of any known benchmark"]),
    "empty file": (bytes_of_bad(lambda data: b""), ["bad.json", "is empty"]),
    "empty list": (bytes_of_bad(lambda data: b"[]"), ["bad.json", "empty array"]),
    "folder": (folder("bad.json"), ["bad.json", "The folder is not in the format of any known benchmark"]),
    "absent": (lambda: None, ["bad.json", "cannot be read: No such file"]),
    "lists of unequal length": (
        records(lambda four: four[1]["haystack_dates"].pop()),
        ["record 2", "'q1'", "2 dates, 3 session ids and 3 sessions"],
    ),
    "bad date": (
        records(lambda four: four[2].update(question_date="30 May 2023")),
        ["record 3", "question_date", "'30 May 2023' is not a date", "YYYY/MM/DD"],
    ),
    "bad date of a session": (
        records(lambda four: four[2]["haystack_dates"].__setitem__(1, "2023/02/30 (Thu) 10:00")),
        ["record 3", "haystack_dates[1]", "2023/02/30"],
    ),
    "duplicate id": (
        records(lambda four: four[3].update(question_id="q0")),
        ["record 4", "The same question id is in record 1"],
    ),
    "id with a path": (
        records(lambda four: four[1].update(question_id="../../x")),
        ["record 2", "question_id", "begins with a dot"],
    ),
    "missing field": (records(lambda four: four[1].pop("answer")), ["record 2", "The field 'answer' is missing"]),
    "unknown type": (
        records(lambda four: four[1].update(question_type="multi-sesion")),
        ["record 2", "Did you mean 'multi-session'?"],
    ),
    "unknown role": (
        records(lambda four: four[1]["haystack_sessions"][0][0].update(role="system")),
        ["record 2", "haystack_sessions[0][0].role", "'system' is not a role"],
    ),
}

INPUT: dict[str, tuple[Callable[[], object], str, list[str]]] = {
    "configuration": (lambda: None, RUN.replace("combined", "combned"), ["'combned'", "Did you mean 'combined'?"]),
    "configuration at prepare": (lambda: None, f"{PREPARE} --memory last_k", ["Did you mean 'last-k'?"]),
    "parameter": (lambda: None, f"{RUN} --set topk=3", ["no parameter 'topk'", "Did you mean 'top_k'?"]),
    "parameter's value": (lambda: None, f"{RUN} --set top_k=many", ["top_k = 'many'", "integer"]),
    "parameter out of range": (lambda: None, f"{RUN} --set top_k=0", ["top_k = 0", "greater than or equal to 1"]),
    "parameter without value": (lambda: None, f"{RUN} --set top_k", ["'top_k'", "key=value"]),
    "model": (lambda: None, RUN.replace("extractive", "extractiv"), ["Did you mean 'offline/extractive'?"]),
    "provider": (lambda: None, RUN.replace("offline/extractive", "opnai/gpt-4o"), ["opnai"]),
    "script": (lambda: None, RUN.replace("extractive", "scripted:no.jsonl"), ["no.jsonl", "cannot be read"]),
    "data set": (lambda: None, PREPARE.replace("colours.json", "samle"), ["'samle'", "Did you mean 'sample'?"]),
    "data set that is not there": (
        lambda: None,
        PREPARE.replace("colours.json", "longmemeval_s"),
        ["is not downloaded", "`longmemeval datasets download longmemeval_s`"],
    ),
    "embedder": (lambda: None, f"{PREPARE} --name n --embedder hashng", ["'hashng'", "Did you mean 'hashing'?"]),
    "dimension": (lambda: None, f"{PREPARE} --name n --embedder hashing:many", ["hashing:many", "hashing:512"]),
    "model folder": (lambda: None, f"{PREPARE} --name n --embedder fastembed:./no", ["./no"]),
    "key for embeddings": (
        lambda: None,
        f"{PREPARE} --name n --embedder openai:text-embedding-3-small",
        ["OPENAI_API_KEY", "--api-base"],
    ),
    "key": (
        lambda: None,
        RUN.replace("offline/extractive", "openai/gpt-4o"),
        ["openai/gpt-4o", "Set OPENAI_API_KEY", "--api-base"],
    ),
    "key for the judge": (lambda: None, "evaluate r", ["openai/gpt-4o-2024-08-06", "Set OPENAI_API_KEY"]),
    "endpoint": (
        lambda: None,
        RUN.replace("offline/extractive", "openai/x --api-base localhost:8000"),
        ["'localhost:8000'", "http://localhost:8000/v1"],
    ),
    "judge": (lambda: None, "evaluate r --judge offline/lexcal", ["Did you mean 'offline/lexical'?"]),
    "question id": (lambda: None, f"{PREPARE} --question-id q11", ["no question 'q11'", "Did you mean 'q1'?"]),
    "question id with a path": (lambda: None, f"{PREPARE} --question-id ../../x", ["no question '../../x'"]),
    "selection": (lambda: None, f"{PREPARE} --limit 1 --sample 1", ["--sample and --question-id cannot be combined"]),
    "no questions": (lambda: None, f"{RUN} --limit 0", ["--limit must be at least 1, not 0"]),
    "run id with a path": (lambda: None, RUN.replace("new", "../../x"), ["'../../x' cannot be a run id"]),
    "resume of nothing": (lambda: None, f"{RUN} --resume new", ["Unknown run 'new'", "Valid: r"]),
    "resume with a path": (lambda: None, RUN.replace("--run-id new", "--resume ../x"), ["cannot be a run id"]),
    "grading with a path": (lambda: None, "evaluate ../../x", ["cannot be a run id"]),
    "grading of nothing": (lambda: None, "evaluate q", ["Unknown run 'q'", "Valid: r"]),
    "verifying with a path": (lambda: None, "verify ../../x", ["Unknown run or preparation '../../x'"]),
    "preparation": (lambda: None, f"{RUN} --prepared othr", ["'q0' is not prepared", "othr"]),
    "preparation from other data": (
        other_data,
        RUN.replace("colours.json", "elsewhere/colours.json"),
        ["made from other data", "--prepared NAME"],
    ),
    "preparing other data": (
        other_data,
        PREPARE.replace("colours.json", "elsewhere/colours.json"),
        ["made from other data", "--prepared NAME", "--force"],
    ),
    "another embedder": (
        lambda: None,
        f"{PREPARE} --embedder hashing:64",
        ["embedder: was 'hashing-v1:512', now 'hashing-v1:64'", "--prepared NAME"],
    ),
    "newer fixture": (
        spoil("prepared-data/colours/default/q1/meta.json", '"format": 2', '"format": 3'),
        RUN,
        ["format 3 is newer", "q1/meta.json", "upgrade"],
    ),
    "newer fixture at prepare": (
        spoil("prepared-data/colours/default/q1/meta.json", '"format": 2', '"format": 3'),
        PREPARE,
        ["format 3 is newer", "q1/meta.json", "upgrade"],
    ),
    "newer run": (
        spoil("results/r/run.json", '"format": 2', '"format": 3'),
        f"evaluate r --judge {LEXICAL_JUDGE}",
        ["has format 3", "results/r/run.json", "Upgrade"],
    ),
    "fixture of format 0": (
        spoil("prepared-data/colours/default/q1/meta.json", '"format": 2', '"format": 0'),
        RUN,
        ["Unknown fixture format 0", "q1/meta.json", "`longmemeval prepare --force`"],
    ),
    "fixture of a format that is no number": (
        spoil("prepared-data/colours/default/q1/meta.json", '"format": 2', '"format": "2"'),
        RUN,
        ["Expected `int`, got `str`", "q1/meta.json", "`longmemeval prepare --force`"],
    ),
    "fixture without a format": (
        spoil("prepared-data/colours/default/q1/meta.json", '"format": 2,', ""),
        RUN,
        ["missing required field `format`", "q1/meta.json", "`longmemeval prepare --force`"],
    ),
    "fixture folder that is a link to nowhere": (
        linked("prepared-data/colours/default/q1", "gone"),
        RUN,
        ["broken link", "default/q1", "prepare again"],
    ),
    "fixture folder that is a link to nowhere at prepare": (
        linked("prepared-data/colours/default/q1", "gone"),
        PREPARE,
        ["broken link", "default/q1", "prepare again"],
    ),
    "fixture folder that is a link to another": (
        linked("prepared-data/colours/default/q1", "q2"),
        RUN,
        ["is a link to the fixture of haystack 'q2'", "default/q1"],
    ),
    "fixture folder that is a link to another at prepare": (
        linked("prepared-data/colours/default/q1", "q2"),
        f"{PREPARE} --memory working-memory",
        ["is a link to the fixture of haystack 'q2'", "default/q1"],
    ),
    "fixture folder that is a link to another at prepare --force": (
        linked("prepared-data/colours/default/q1", "q2"),
        f"{PREPARE} --force",
        ["is a link to the fixture of haystack 'q2'", "default/q1"],
    ),
    "run folder that is a link to nowhere": (
        linked("results/new", "gone"),
        RUN,
        ["link is broken", "results/new"],
    ),
    "run folder that is a link to another run": (
        linked("results/new", "r"),
        RUN,
        ["The folder of run 'new' holds run 'r'", "--run-id r"],
    ),
    "data that was changed": (
        spoil("colours.json", "green", "mauve"),
        f"evaluate r --judge {LEXICAL_JUDGE}",
        ["The run answered other data", "--dataset"],
    ),
    "template that is a folder": (folder("t"), f"{RUN} --template t", ["The template cannot be read", "(t)"]),
    "template without a question": (text("t", "{history}"), f"{RUN} --template t", ["does not show {question}"]),
    "template with an unknown place": (text("t", "{histry}"), f"{RUN} --template t", ["Did you mean 'history'?"]),
    "empty template": (text("t", ""), f"{RUN} --template t", ["{question}", "(t)"]),
    "memory template that is a folder": (
        folder("t"),
        f"{PREPARE} --name n --working-memory-template t",
        ["working-memory template cannot be read", "/t)"],
    ),
    "empty memory template": (text("t", ""), f"{PREPARE} --name n --working-memory-template t", ["is empty", "/t)"]),
    "no configuration file": (lambda: None, RUN.replace("combined", "m.yaml"), ["m.yaml", "cannot be read"]),
    "configuration file that is a folder": (folder("m.yaml"), RUN.replace("combined", "m.yaml"), ["cannot be read"]),
    "configuration file that is empty": (text("m.yaml", ""), RUN.replace("combined", "m.yaml"), ["`preset: NAME`"]),
    "configuration file that is no YAML": (text("m.yaml", "a: [b"), RUN.replace("combined", "m.yaml"), ["not YAML"]),
    "configuration file that is nested too deeply": (
        text("m.yaml", f"preset: last-k\nparameters: {DEEP}"),
        RUN.replace("combined", "m.yaml"),
        ["not YAML: it is nested too deeply", "(m.yaml)"],
    ),
    "configuration file in UTF-16": (
        lambda: Path("m.yaml").write_bytes("preset: last-k".encode("utf-16")),
        RUN.replace("combined", "m.yaml"),
        ["save it as UTF-8", "(m.yaml)"],
    ),
    "override that is nested too deeply": (
        lambda: None,
        f"{RUN} --set top_k={'[' * 3000}",
        ["The value in --set 'top_k=[[[", "[…' cannot be read"],
    ),
    "judge that is nested too deeply": (
        text("j.yaml", f"name: x\ntemplates: {DEEP}"),
        "evaluate r --judge j.yaml@offline/scripted:s",
        ["not YAML: it is nested too deeply", "(j.yaml)"],
    ),
    "judge in JSON that is nested too deeply": (
        text("j.json", f'{{"name": {DEEP}}}'),
        "evaluate r --judge j.json@offline/scripted:s",
        ["not JSON: it is nested too deeply", "(j.json)"],
    ),
    "sweep that is nested too deeply": (
        text("s.yaml", f"name: {DEEP}"),
        "sweep s.yaml",
        ["not YAML: it is nested too deeply", "(s.yaml)"],
    ),
    "hypotheses that are nested too deeply": (
        text("h", f'{{"question_id": "q0", "hypothesis": "x", "more": {DEEP}}}\n'),
        "evaluate --hypotheses h --dataset colours.json",
        ["it is nested too deeply", "h, line 1"],
    ),
    "scripted answers that are nested too deeply": (
        text("s", f'{{"question_id": "q0", "hypothesis": "x", "more": {DEEP}}}'),
        RUN.replace("extractive", "scripted:s"),
        ["it is nested too deeply", "s, line 1"],
    ),
    "baseline of format 0": (
        text("b.json", '{"format": 0}'),
        "compare r --against b.json",
        ["unknown format 0", "(b.json)", "--save-baseline"],
    ),
    "baseline without a format": (
        text("b.json", "{}"),
        "compare r --against b.json",
        ["missing required field `format`", "(b.json)", "--save-baseline"],
    ),
    "baseline that is nested too deeply": (
        text("b.json", f'{{"format": 1, "credits": {DEEP}}}'),
        "compare r --against b.json",
        ["not a baseline", "(b.json)", "--save-baseline"],
    ),
    "key in a configuration file": (
        text("m.yaml", "preset: last-k\nparametrs: {}"),
        RUN.replace("combined", "m.yaml"),
        ["'parametrs'", "Did you mean 'parameters'?"],
    ),
    "hypotheses that are a folder": (
        folder("h"),
        "evaluate --hypotheses h --dataset colours.json",
        ["The hypothesis file cannot be read", "(h)"],
    ),
    "results folder that is a file": (
        text("f", ""),
        f"{RUN} --results-dir f",
        ["A folder was expected, but this is a file", "--results-dir"],
    ),
    "prepared folder that is a file": (
        text("f", ""),
        f"{PREPARE} --prepared-dir f",
        ["A folder was expected, but this is a file", "--prepared-dir"],
    ),
}  # fmt: skip


def is_one_paragraph(outcome: Outcome, told: list[str]) -> None:
    assert outcome.code == 2, outcome
    assert outcome.stdout == ""
    assert "Traceback" not in outcome.stderr
    paragraph = outcome.stderr.splitlines()[-1]
    # Nothing but a warning about the model may come before it.
    assert all(line.startswith("Note: ") for line in outcome.stderr.splitlines()[:-1])
    assert paragraph.startswith("Error: ")
    assert paragraph.endswith(".")
    assert [fragment for fragment in told if fragment not in paragraph] == [], paragraph


@pytest.mark.slow
@pytest.mark.parametrize("name", DATA)
def test_bad_data(name: str, workspace: Path, command: Command) -> None:
    spoil_it, told = DATA[name]
    spoil_it()
    before = content(workspace)
    is_one_paragraph(command(BAD), told)
    made = {path for path in content(workspace).keys() - before.keys() if not path.startswith("prepared-data/bad/")}
    assert made == set()
    assert {path: content(workspace)[path] for path in before} == before


@pytest.mark.slow
@pytest.mark.parametrize("name", INPUT)
def test_bad_input(name: str, workspace: Path, command: Command) -> None:
    spoil_it, line, told = INPUT[name]
    spoil_it()
    before = content(workspace)
    is_one_paragraph(command(line), told)
    assert content(workspace) == before


@pytest.mark.slow
def test_damaged_vectors_stop_the_run(workspace: Path, command: Command) -> None:
    spoil("prepared-data/colours/default/q0/vector.json", '"vectors":"', '"vectors":"AAAA')()
    before = content(workspace)
    is_one_paragraph(command(RUN), ["Part 'vector' is damaged", "q0/vector.json", "`longmemeval prepare --force`"])
    assert {path: content(workspace)[path] for path in before} == before
    assert not Path("results/new").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "told"),
    [
        (f"{RUN} --reading con-seperate", "--reading"),
        (f"{RUN} --history-format xml", "--history-format"),
        (f"{PREPARE} --index hnws", "--index"),
        (f"{PREPARE} --jobs 0", "--jobs"),
        (f"{RUN} --concurrency none", "--concurrency"),
        (f"{RUN} --memry none", "--memory"),
        ("prepare --dataset colours.json", "--memory"),
        ("evaluate", "--hypotheses"),
        ("evaluate r --limit 2", "questions were selected when it was run"),
        ("evaluate --hypotheses h", "--dataset"),
        ("evaluat r", "evaluate"),
    ],
)
def test_misspelt_options_are_told_by_name(line: str, told: str, workspace: Path, command: Command) -> None:
    before = content(workspace)
    outcome = command(line)
    assert outcome.code == 2
    assert "Traceback" not in outcome.stderr
    assert told in " ".join(outcome.stderr.replace("│", " ").split())
    assert content(workspace) == before


@pytest.mark.slow
@pytest.mark.parametrize(
    ("prepared", "memory", "options"),
    [
        (None, "last-k", ""),
        ("last-k", "semantic-recall", ""),
        ("semantic-recall", "combined", ""),
        (None, "none", "--prepared 'my own'"),
        (None, "combined", "--prepared-dir 'else where'"),
    ],
)
def test_what_is_not_prepared_is_mended_by_the_command_in_the_message(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: Command,
    prepared: str | None,
    memory: str,
    options: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    colours(Path("my colours.json"))
    if prepared:
        assert command(f"prepare --dataset 'my colours.json' --memory {prepared}").code == 0
    run = f"run --dataset 'my colours.json' --memory {memory} --model offline/extractive --run-id new {options}"
    refused = command(run)
    is_one_paragraph(refused, ["`longmemeval prepare "])
    assert not Path("results").exists()
    remedy = refused.stderr.split("`")[1].removeprefix("longmemeval ")
    assert command(remedy).code == 0
    assert command(run).code == 0


def test_what_is_not_prepared_of_the_sample_is_asked_for_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Command
) -> None:
    monkeypatch.chdir(tmp_path)
    told = ["`longmemeval prepare --dataset sample --memory last-k`"]
    is_one_paragraph(command("run --dataset sample --memory last-k --model offline/extractive"), told)


def test_debug_shows_the_traceback(workspace: Path) -> None:
    done = longmemeval("--debug", *shlex.split(f"{RUN} --set topk=3"), cwd=workspace, code=2)
    assert "Error: Memory configuration 'combined' has no parameter 'topk'" in done.stderr
    assert "Traceback (most recent call last)" in done.stderr


def test_names_from_data_are_shown_escaped(workspace: Path, command: Command) -> None:
    records(lambda four: four[1].update(question_id="a\x1b[31m/[red]b"))()
    outcome = command(BAD)
    assert outcome.code == 2
    assert "\x1b" not in outcome.stderr
    assert "[red]b" in outcome.stderr


def test_windows_is_refused_in_a_sentence(tmp_path: Path) -> None:
    as_there = (
        "import signal, sys; sys.platform = 'win32'; del signal.SIGHUP; from longmemeval.__main__ import main; main()"
    )
    command = [sys.executable, "-c", as_there, "--help"]
    done = subprocess.run(command, cwd=tmp_path, env=clean_environment(), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "Error: longmemeval runs on Linux and macOS. On Windows, run it in WSL.\n"


def test_bad_input_as_json_prints_no_document(workspace: Path, command: Command) -> None:
    outcome = command("evaluate q --json")
    assert (outcome.code, outcome.stdout) == (2, "")


def test_failed_questions_end_with_1(workspace: Path, command: Command) -> None:
    Path("script.json").write_text(json.dumps({"q0": "red", "q1": "green"}))
    outcome = command(RUN.replace("offline/extractive", "offline/scripted:script.json"))
    assert outcome.code == 1
    assert "2 of 4 questions answered" in outcome.stdout
    assert "2 of 4 questions failed: No answer for question '…'" in outcome.stderr
    assert next_steps(outcome.stdout)[0][-2:] == ["--resume", "new"]
