"""`run` asks each question once, keeps every answer, says what failed, and goes on only as it was begun."""

import errno
import json
import os
import resource
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from longmemeval.core.files import sha256_file
from longmemeval.errors import FatalModelError, FixtureError, HarnessError, IntegrityError
from longmemeval.llm.options import ModelOptions
from longmemeval.memory.configuration import resolve_configuration
from longmemeval.pipeline.prepare.prepare import PrepareOptions, prepare
from longmemeval.pipeline.run.plan import RunOptions
from longmemeval.pipeline.run.run import run
from longmemeval.pipeline.verify.verify import verify
from longmemeval.reading.configuration import reading_configuration
from longmemeval.results.selection import Selection
from tests.pipeline.helpers import (
    MODEL,
    answer_all,
    answers,
    ask,
    colours,
    folders_in,
    manifest,
    prepared_colours,
    start,
    stop_when,
)
from tests.server import Fault, ModelServer, Refusal
from tests.support import json_lines, longmemeval, tree

KEY = "sk-this-key-must-never-be-written-0123456789"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with ModelServer(lambda body: "green") as server:
        yield server


def test_manifest_says_what_the_run_was(tmp_path: Path) -> None:
    dataset, folders = prepared_colours(tmp_path, 4, "combined")
    report = answer_all(dataset, folders, memory="combined", selection=Selection(limit=3))
    document = manifest(folders)
    assert (report.answered, report.failed, report.newly_answered) == (3, 0, 3)
    assert document["format"] == 2
    assert document["status"] == "completed"
    assert document["dataset"]["sha256"] == dataset.sha256
    assert document["dataset"]["content_sha256"] == dataset.content_sha256
    assert document["question_ids"] == ["q0", "q1", "q2"]
    settings = document["settings"]
    assert settings["memory"]["parameters"]["top_k"] == 5
    assert settings["model"] == {"spec": MODEL, "api_base": None, "temperature": 0.0, "max_tokens": 500}
    assert len(settings["reading"]["template"]) == 64
    assert settings["embedder"] == {"spec": "hashing:512", "fingerprint": "hashing-v1:512"}
    parts = folders.prepared_dir / "colours" / "default" / "q1"
    assert document["fixtures"]["q1"] == {
        part: sha256_file(parts / f"{part}.json") for part in ("db", "vector", "vector-graph", "working-memory")
    }
    assert document["totals"]["answered"] == 3
    assert document["files"]["answers.jsonl"] == sha256_file(folders.results_dir / "r" / "answers.jsonl")
    assert {"packages", "python", "platform", "git", "command"} <= set(document["environment"])


def test_finished_run_is_not_touched_by_the_same_command(tmp_path: Path) -> None:
    dataset, folders = prepared_colours(tmp_path)
    answer_all(dataset, folders)
    before = tree(folders.results_dir)
    again = answer_all(dataset, folders)
    assert (again.answered, again.newly_answered) == (4, 0)
    assert tree(folders.results_dir) == before


@pytest.mark.slow
def test_runs_without_a_name_never_meet(tmp_path: Path) -> None:
    dataset, folders = prepared_colours(tmp_path)
    names = {run(dataset, "last-k", MODEL, folders=folders).run_id for _ in range(3)}
    assert len(names) == 3


def test_prompts_are_kept_as_they_were_sent(tmp_path: Path, server: ModelServer) -> None:
    dataset, folders = prepared_colours(tmp_path, 3, "combined")
    ask(dataset, folders, server, "combined")
    prompts = json_lines(folders.results_dir / "r" / "prompts.jsonl")
    sent = [request.body["messages"] for request in server.chat_requests]
    assert [prompt["messages"] for prompt in prompts] == sent
    assert [prompt["sha256"] for prompt in prompts] == [answer["prompt_sha256"] for answer in answers(folders)]
    assert all("2023/05/30 (Tue) 23:40" in prompt["messages"][-1]["content"] for prompt in prompts)
    assert verify("r", folders=folders).problems == ()


def test_prompts_need_not_be_kept(tmp_path: Path) -> None:
    dataset, folders = prepared_colours(tmp_path)
    options = RunOptions(run_id="r", save_prompts=False)
    run(dataset, "last-k", MODEL, options=options, folders=folders)
    assert not (folders.results_dir / "r" / "prompts.jsonl").exists()
    assert verify("r", folders=folders).problems == ()
    with pytest.raises(HarnessError, match=r"settings\.save_prompts: was False, now True"):
        answer_all(dataset, folders)


def test_keys_are_never_written(tmp_path: Path, server: ModelServer) -> None:
    dataset, folders = prepared_colours(tmp_path, 1)
    with_password = server.url.replace("http://", "http://user:secret-word@")
    server.faults.append(Refusal(400, message=f"your key {KEY} may not do that"))
    command = (
        "run", "--dataset", dataset.path, "--memory", "last-k", "--model", "openai/local", "--max-attempts", "1",
    )  # fmt: skip
    # The refusal hits the first run; a password in the address is sent as a header, and the second one works.
    for run_id, base, code in (("key", server.url, 1), ("password", with_password, 0)):
        address = f"--api-base={base}"
        done = longmemeval(*command, "--run-id", run_id, address, cwd=tmp_path, code=code, OPENAI_API_KEY=KEY)
        assert KEY not in done.stdout + done.stderr
        assert "secret-word" not in done.stdout + done.stderr
        assert manifest(folders, run_id)["settings"]["model"]["api_base"] == server.url
    assert server.chat_requests[0].headers["authorization"] == f"Bearer {KEY}"
    written = b"".join(tree(folders.results_dir).values())
    assert KEY.encode() not in written
    assert b"secret-word" not in written


@pytest.mark.parametrize("fault", [429, 500, 503, "drop", Refusal(429, retry_after="0")])
def test_passing_faults_are_retried(tmp_path: Path, server: ModelServer, fault: Fault) -> None:
    dataset, folders = prepared_colours(tmp_path, 2)
    server.faults.append(fault)
    report = ask(dataset, folders, server)
    assert (report.answered, report.failed) == (2, 0)
    assert [answer["attempts"] for answer in answers(folders)] == [2, 1]
    assert len(server.chat_requests) == 3


def test_failed_question_is_recorded_counted_and_asked_again_on_resume(tmp_path: Path, server: ModelServer) -> None:
    dataset, folders = prepared_colours(tmp_path, 4)
    server.faults.extend([500, 500, 500, 400])
    report = ask(dataset, folders, server)
    assert (report.answered, report.failed) == (2, 2)
    assert [answer["status"] for answer in answers(folders)] == ["error", "error", "ok", "ok"]
    assert "500" in answers(folders)[0]["error"]
    assert "400" in answers(folders)[1]["error"]
    assert manifest(folders)["status"] == "incomplete"
    assert manifest(folders)["totals"]["failed"] == 2
    before, asked = answers(folders), len(server.chat_requests)
    again = ask(dataset, folders, server, must_exist=True)
    assert (again.answered, again.failed, again.newly_answered) == (4, 0, 2)
    assert manifest(folders)["status"] == "completed"
    assert len(server.chat_requests) - asked == 2
    assert answers(folders)[:4] == before
    assert [answer["question_id"] for answer in answers(folders)[4:]] == ["q0", "q1"]
    assert len(json_lines(folders.results_dir / "r" / "prompts.jsonl")) == 4
    assert verify("r", folders=folders).problems == ()


def test_refused_key_stops_the_run_at_once(tmp_path: Path, server: ModelServer) -> None:
    dataset, folders = prepared_colours(tmp_path, 4)
    ask(dataset, folders, server, run_id="first")
    server.faults.extend([401] * 50)
    asked = len(server.chat_requests)
    with pytest.raises(FatalModelError, match="401") as caught:
        ask(dataset, folders, server)
    assert caught.value.exit_code == 2
    assert KEY not in str(caught.value)
    assert len(server.chat_requests) - asked == 1
    assert answers(folders) == []
    assert manifest(folders)["status"] == "failed"
    server.faults.clear()
    assert ask(dataset, folders, server).answered == 4


def test_prompt_that_does_not_fit_fails_its_question(tmp_path: Path) -> None:
    dataset, folders = prepared_colours(tmp_path)
    reading = reading_configuration(max_tokens=50, context_window=1051)
    options = RunOptions(run_id="r", reading=reading)
    report = run(dataset, "last-k", MODEL, options=options, folders=folders)
    assert (report.answered, report.failed) == (0, 4)
    assert all("tokens, 1 fit the model's window" in answer["error"] for answer in answers(folders))
    assert all(answer["prompt_sha256"] == "" for answer in answers(folders))
    assert verify("r", folders=folders).problems == ()


def test_shortened_contexts_are_noted_and_counted(tmp_path: Path) -> None:
    dataset, folders = prepared_colours(tmp_path)
    whole = answer_all(dataset, folders, "whole")
    tokens = min(answer["prompt_tokens"] for answer in answers(folders, "whole"))
    reading = reading_configuration(max_tokens=50, context_window=1050 + tokens - 5, on_overflow="drop-oldest")
    report = run(dataset, "last-k", MODEL, options=RunOptions(run_id="r", reading=reading), folders=folders)
    assert (whole.shortened, report.shortened) == (0, 4)
    assert manifest(folders)["totals"]["shortened"] == 4
    for answer in answers(folders):
        assert answer["notes"][-1].startswith("drop-oldest: ")
        assert answer["prompt_tokens"] <= tokens - 5
        assert len(answer["recall_ids"]) < 6


def changed_runs(tmp_path: Path) -> dict[str, tuple[str, dict[str, Any]]]:
    """What was changed -> what the refusal must name, and the changes."""
    template = tmp_path / "own.txt"
    template.write_text("{history}\n{question_date}\n{question}")
    memory = resolve_configuration("last-k", ["last_messages=3"])
    return {
        "parameter": ("settings.memory.parameters.last_messages: was 50, now 3", {"memory": memory}),
        "configuration": ("settings.memory.preset: was 'last-k', now 'none'", {"memory": "none"}),
        "model": (f"settings.model.spec: was '{MODEL}'", {"model_spec": f"offline/scripted:{tmp_path / 's.json'}"}),
        "endpoint": (
            "settings.model.api_base: was not set, now 'http://localhost:1/v1'",
            {"options": RunOptions(run_id="r", model_options=ModelOptions(api_base="http://localhost:1/v1"))},
        ),
        "template": (
            "settings.reading.template: was '",
            {"options": RunOptions(run_id="r", reading=reading_configuration(template=template))},
        ),
        "method": (
            "settings.reading.method: was 'direct', now 'con'",
            {"options": RunOptions(run_id="r", reading=reading_configuration("con"))},
        ),
        "questions": ("questions: was ['q0', 'q1', 'q2', 'q3'], now ['q0']", {"selection": Selection(limit=1)}),
        "preparation": (
            "settings.preparation: was 'default', now 'other'",
            {"options": RunOptions(run_id="r", prepared="other")},
        ),
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    "change", ["parameter", "configuration", "model", "endpoint", "template", "method", "questions", "preparation"]
)
def test_resume_under_other_settings_is_refused(tmp_path: Path, change: str) -> None:
    dataset, folders = prepared_colours(tmp_path)
    (tmp_path / "s.json").write_text(json.dumps({"q0": "green"}))
    prepare(dataset, ["last-k"], options=PrepareOptions(name="other"), folders=folders)
    usual: dict[str, Any] = {"memory": "last-k", "model_spec": MODEL, "options": RunOptions(run_id="r")}
    run(dataset, **usual, folders=folders)
    before = tree(folders.results_dir)
    named, changes = changed_runs(tmp_path)[change]
    with pytest.raises(HarnessError) as caught:
        run(dataset, **usual | changes, folders=folders)
    assert named in str(caught.value)
    assert "another --run-id" in caught.value.fix
    assert tree(folders.results_dir) == before


def test_endpoint_of_the_environment_is_part_of_the_settings(
    tmp_path: Path, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset, folders = prepared_colours(tmp_path, 1)
    options = RunOptions(run_id="r", model_options=ModelOptions(max_attempts=1))
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    assert run(dataset, "last-k", "openai/local", options=options, folders=folders).answered == 1
    assert manifest(folders)["settings"]["model"]["api_base"] == server.url
    monkeypatch.setenv("OPENAI_BASE_URL", "http://localhost:1/v1")
    with pytest.raises(HarnessError, match=r"api_base: was '.*', now 'http://localhost:1/v1'"):
        run(dataset, "last-k", "openai/local", options=options, folders=folders)


@pytest.mark.slow
def test_resume_on_changed_data_or_fixtures_is_refused(tmp_path: Path) -> None:
    dataset, folders = prepared_colours(tmp_path, memory="semantic-recall")
    answer_all(dataset, folders, memory="semantic-recall")
    before = tree(folders.results_dir)
    prepare(dataset, ["semantic-recall"], options=PrepareOptions(index="exact", force=True), folders=folders)
    with pytest.raises(HarnessError, match=r"fixtures\.q0\.vector-graph: was '[0-9a-f]{64}', now"):
        answer_all(dataset, folders, memory="semantic-recall")
    changed = colours(tmp_path / "colours.json", 4, answer="another")
    prepare(changed, ["last-k"], options=PrepareOptions(name="other"), folders=folders)
    options = RunOptions(run_id="r", prepared="other")
    with pytest.raises(HarnessError, match="dataset content: was '"):
        run(changed, "last-k", MODEL, options=options, folders=folders)
    assert tree(folders.results_dir) == before


def test_answers_that_were_taken_out_are_not_asked_for_again(tmp_path: Path) -> None:
    dataset, folders = prepared_colours(tmp_path)
    answer_all(dataset, folders)
    journal = folders.results_dir / "r" / "answers.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(lines[1:]))
    with pytest.raises(IntegrityError, match="changed after the run ended"):
        answer_all(dataset, folders)
    (folders.results_dir / "r" / "run.json").unlink()
    with pytest.raises(IntegrityError, match=r"no run\.json"):
        answer_all(dataset, folders)
    assert journal.read_bytes() == b"".join(lines[1:])


def test_resume_of_nothing_is_refused_with_the_nearest(tmp_path: Path) -> None:
    dataset, folders = prepared_colours(tmp_path)
    answer_all(dataset, folders, "baseline")
    with pytest.raises(HarnessError, match="Did you mean 'baseline'"):
        run(dataset, "last-k", MODEL, options=RunOptions(run_id="baselin", must_exist=True), folders=folders)
    assert [path.name for path in folders.results_dir.iterdir()] == ["baseline"]


@pytest.mark.parametrize("run_id", ["../up", "a/b", ".hidden", "", "a b", "x" * 121, "a\nb"])
def test_run_id_that_is_no_folder_name_is_refused(tmp_path: Path, run_id: str) -> None:
    dataset, folders = prepared_colours(tmp_path)
    before = tree(tmp_path)
    if run_id:
        with pytest.raises(HarnessError, match="cannot be a run id"):
            answer_all(dataset, folders, run_id)
        assert tree(tmp_path) == before


def test_run_on_fixtures_of_other_data_is_refused(tmp_path: Path) -> None:
    dataset, folders = prepared_colours(tmp_path)
    changed = colours(tmp_path / "colours.json", 4, question_date="2024/01/01 (Mon) 10:00")
    with pytest.raises(FixtureError, match="made from other data") as caught:
        answer_all(changed, folders)
    assert dataset.sha256[:12] in str(caught.value)
    assert changed.sha256[:12] in str(caught.value)
    assert not folders.results_dir.exists()


def test_damaged_fixture_stops_the_run_and_leaves_a_manifest(tmp_path: Path) -> None:
    dataset, folders = prepared_colours(tmp_path)
    part = folders.prepared_dir / "colours" / "default" / "q2" / "db.json"
    whole = part.read_bytes()
    part.write_bytes(whole.replace(b"rivers", b"floods"))
    one_by_one = RunOptions(run_id="r", concurrency=1)
    with pytest.raises(FixtureError, match="Part 'db' is damaged"):
        run(dataset, "last-k", MODEL, options=one_by_one, folders=folders)
    assert manifest(folders)["status"] == "failed"
    kept = [answer["question_id"] for answer in answers(folders)]
    assert kept == ["q0", "q1"]
    part.write_bytes(whole)
    assert answer_all(dataset, folders).newly_answered == 4 - len(kept)


@pytest.mark.slow
def test_embedder_may_have_moved_but_not_changed(tmp_path: Path) -> None:
    dataset, folders = prepared_colours(tmp_path, 4, "semantic-recall")
    with pytest.raises(FixtureError, match=r"embedded by hashing:512.*this is hashing:64"):
        run(dataset, "semantic-recall", MODEL, options=RunOptions(run_id="r", embedder="hashing:64"), folders=folders)
    options = RunOptions(run_id="r", embedder="hashing")
    assert run(dataset, "semantic-recall", MODEL, options=options, folders=folders).answered == 4


def test_chat_and_embeddings_may_be_served_from_two_places(
    tmp_path: Path, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset, folders = colours(tmp_path / "d.json", 2), folders_in(tmp_path)
    with ModelServer() as embeddings:
        monkeypatch.setenv("OPENAI_BASE_URL", embeddings.url)
        prepare(dataset, ["semantic-recall"], options=PrepareOptions(embedder="openai:local"), folders=folders)
        assert ask(dataset, folders, server, "semantic-recall").answered == 2
        assert {request.path for request in embeddings.requests} == {"/v1/embeddings"}
    assert {request.path for request in server.requests} == {"/v1/models", "/v1/chat/completions"}


def test_second_process_on_a_run_is_refused_and_changes_nothing(tmp_path: Path, server: ModelServer) -> None:
    dataset, folders = prepared_colours(tmp_path, 6)
    server.faults.extend(["slow:0.3"] * 6)
    command = (
        "run", "--dataset", dataset.path, "--memory", "last-k", "--model", "openai/local", "--run-id", "r",
        "--api-base", server.url, "--concurrency", "1",
    )  # fmt: skip
    first = start(*command, cwd=tmp_path, OPENAI_API_KEY=KEY)

    def second_is_refused() -> bool:
        if not server.chat_requests:
            return False
        with pytest.raises(HarnessError, match="is writing to this journal"):
            ask(dataset, folders, server)
        assert manifest(folders)["status"] == "running"
        return True

    stop_when(first, second_is_refused, 0)
    assert first.returncode == 0
    assert Counter(answer["question_id"] for answer in answers(folders)) == Counter(f"q{n}" for n in range(6))
    assert len(server.chat_requests) == 6
    assert manifest(folders)["status"] == "completed"


def test_full_disk_is_one_paragraph_and_the_run_goes_on_afterwards(tmp_path: Path) -> None:
    dataset, folders = prepared_colours(tmp_path, 12)
    answer_all(dataset, folders, "whole")
    size = (folders.results_dir / "whole" / "prompts.jsonl").stat().st_size
    command = ("run", "--dataset", dataset.path, "--memory", "last-k", "--model", MODEL, "--run-id", "r")
    process = start(*command, cwd=tmp_path)
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (size // 2, size // 2))
    _, told = process.communicate(timeout=200)
    assert process.returncode == 2
    announced, paragraph = told.splitlines()
    assert announced.startswith("Planning: 12 questions give 80% power")
    assert paragraph.startswith("Error: The record cannot be written: File too large (results/r/prompts.jsonl).")
    kept = answers(folders)
    assert 0 < len(kept) < 12
    assert manifest(folders)["status"] in ("failed", "running")
    assert answer_all(dataset, folders).newly_answered == 12 - len(kept)
    assert answers(folders)[: len(kept)] == kept
    assert verify("r", folders=folders).problems == ()


def test_manifest_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    dataset, folders = prepared_colours(tmp_path)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    try:
        with pytest.raises(HarnessError, match=r"The manifest cannot be written: File too large .*results/r/run\.json"):
            answer_all(dataset, folders)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert [path.name for path in (folders.results_dir / "r").iterdir()] == ["answers.jsonl"]
    assert answer_all(dataset, folders).newly_answered == 4


def test_disk_that_is_full_to_the_last_byte_hides_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset, folders = prepared_colours(tmp_path)
    part = folders.prepared_dir / "colours" / "default" / "q2" / "db.json"
    part.write_bytes(b"{}")
    real, writes = os.fsync, Counter[str]()

    def full_after_the_first(descriptor: int) -> None:
        writes["any"] += 1
        if writes["any"] > 1:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", full_after_the_first)
    with pytest.raises(FixtureError, match="Part 'db' is damaged"):
        answer_all(dataset, folders)
    assert writes["any"] == 2
    assert manifest(folders)["status"] == "running"
