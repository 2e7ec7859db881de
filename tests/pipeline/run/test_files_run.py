"""`files` over real HTTP: calls of tools on the wire, what is counted and stored, and what becomes of a killed run."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from longmemeval.errors import HarnessError
from longmemeval.llm.options import ModelOptions
from longmemeval.memory.configuration import as_configuration
from longmemeval.pipeline.evaluate.evaluate import evaluate
from longmemeval.pipeline.options import BatchOptions, EvaluateOptions
from longmemeval.pipeline.run.estimate import estimate_run
from longmemeval.pipeline.run.plan import RunOptions, RunPlan
from longmemeval.pipeline.run.run import run
from longmemeval.pipeline.verify.verify import verify
from longmemeval.reading.configuration import reading_configuration
from longmemeval.results.graded.graded_run import load_graded
from longmemeval.settings import Folders
from tests.pipeline.helpers import answer_all, answers, ask, manifest, prepared_colours, start, stop_when
from tests.pipeline.sweeps import OFFLINE, swept
from tests.server import ModelServer
from tests.support import fewer, json_lines, longmemeval

LOCAL = ModelOptions("http://127.0.0.1:1/v1")


def searching(body: dict[str, Any]) -> dict[str, Any]:
    """Searches for the bicycle, reads the file it is in, and quotes what it read."""
    told = [message["content"] for message in body["messages"] if message["role"] == "tool"]
    if not told:
        return _call("search_files", {"query": "painted bicycle"})
    if len(told) == 1:
        return _call("read_file", {"name": told[0].partition(",")[0]})
    return {"content": told[1].partition("user: ")[2].partition("\n")[0]}


def _call(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"content": None, "tool_calls": [{"id": "call_x", "type": "function", "function": function}]}


def by_id(folders: Folders, run_id: str = "r") -> dict[str, dict[str, Any]]:
    return {answer["question_id"]: answer for answer in answers(folders, run_id)}


def test_tools_on_the_wire_and_in_the_files(tmp_path: Path) -> None:
    dataset, folders = prepared_colours(tmp_path, 4, "files")
    with ModelServer() as server:
        server.message = searching
        report = ask(dataset, folders, server, memory="files")
        bodies = [request.body for request in server.chat_requests]
    assert (report.answered, report.usage.calls, len(bodies)) == (4, 12, 12)
    assert [tool["function"]["name"] for tool in bodies[0]["tools"]] == ["list_files", "search_files", "read_file"]
    assert [body["tool_choice"] for body in bodies] == ["auto"] * 12
    assert bodies[1]["messages"][1]["tool_calls"][0]["function"]["name"] == "search_files"
    assert bodies[1]["messages"][2]["tool_call_id"] == bodies[1]["messages"][1]["tool_calls"][0]["id"]
    sent = json.dumps(bodies)
    histories = {one.question_id: dataset.haystack(one.haystack_id) for one in dataset.questions()}
    ids = [*histories, *(session.session_id for one in histories.values() for session in one.sessions)]
    assert not [label for label in ids if f'"{label}"' in sent]
    assert "answer_" not in sent
    found = by_id(folders)
    assert all("painted" in answer["hypothesis"] for answer in found.values())
    assert [step["tool"] for step in found["q0"]["steps"]] == ["search_files", "read_file"]
    assert found["q0"]["recall_ids"][0].startswith("answer")
    prompts = json_lines(folders.results_dir / "r" / "prompts.jsonl")
    assert [prompt["purpose"] for prompt in prompts] == ["step"] * 12
    reading = manifest(folders)["settings"]["reading"]
    assert (reading["method"], reading["steps"]) == ("files", 12)
    assert len(reading["tools"]) == 64
    evaluate("r", options=EvaluateOptions(judge="offline/lexical"), folders=folders)
    assert verify("r", folders=folders).problems == ()
    (graded,) = load_graded(["r"], folders)
    assert (graded.summary.control, graded.summary.calls_per_question, graded.score) == (None, 3.0, 1.0)


def test_concurrency_gives_the_same_answers(tmp_path: Path) -> None:
    count = fewer(70, 20)
    dataset, folders = prepared_colours(tmp_path, count, "files")
    with ModelServer() as server:
        server.message = searching
        for run_id, concurrency in (("one", 1), ("many", 64)):
            ask(dataset, folders, server, memory="files", run_id=run_id, concurrency=concurrency)
    kept = ("hypothesis", "recall_ids", "steps", "prompt_tokens", "prompt_sha256")
    one, many = (by_id(folders, run_id) for run_id in ("one", "many"))
    assert len(one) == count
    assert all(one[name][key] == many[name][key] for name in one for key in kept)


def test_killed_in_the_middle_of_a_question_it_is_asked_again_from_its_beginning(tmp_path: Path) -> None:
    _, folders = prepared_colours(tmp_path, 4, "files")
    with ModelServer() as server:
        server.message = searching
        # The second call of the third question gets no reply.
        server.plan = lambda: "hang" if len(server.chat_requests) == 8 else None
        line = ["run", "--dataset", "colours.json", "--memory", "files", "--model", "openai/local", "--run-id", "r"]
        line += ["--api-base", server.url, "--concurrency", "1"]
        stop_when(start(*line, cwd=tmp_path), lambda: len(server.chat_requests) == 8, signal.SIGKILL)
        before = by_id(folders)
        assert list(before) == ["q0", "q1"]
        longmemeval(*line, cwd=tmp_path)
        bodies = [request.body for request in server.chat_requests]
    assert [len(body["messages"]) for body in bodies] == [1, 3, 5, 1, 3, 5, 1, 3, 1, 3, 5, 1, 3, 5]
    found = by_id(folders)
    assert {name: found[name] for name in before} == before
    assert [len(answer["steps"]) for answer in found.values()] == [2] * 4
    assert verify("r", folders=folders).problems == ()


@pytest.mark.slow
def test_offline_and_beside_other_memories_in_a_sweep(tmp_path: Path) -> None:
    report = swept(tmp_path, memories=["bm25", "files"], readings=["direct", "con"])
    assert report.runs == ("s_bm25_m_direct", "s_bm25_m_con", "s_files_m_files")
    assert report.failures == ()
    (_, _, files) = report.comparisons[0].comparison.runs
    assert files.summary.control is None
    assert files.summary.metrics.overall.accuracy == 1


def test_an_estimate_counts_the_steps(tmp_path: Path) -> None:
    dataset, folders = prepared_colours(tmp_path, 4, "files")
    found = estimate_run(
        RunPlan(data=dataset, configuration=as_configuration("files"), model="openai/gpt-4o-mini", folders=folders)
    )
    stage = found.stages[0]
    assert stage.work.calls is not None
    assert stage.work.calls >= 12
    assert "up to 12 steps" in stage.work.basis


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (RunOptions(model_options=LOCAL, reading=reading_configuration("con")), "meant to be read with tools"),
        (RunOptions(model_options=LOCAL, batch=BatchOptions()), "Leave out --batch"),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_is_asked(tmp_path: Path, options: RunOptions, told: str) -> None:
    dataset, folders = prepared_colours(tmp_path, 2, "files")
    with pytest.raises(HarnessError, match=told):
        run(dataset, "files", "openai/local", options=options, folders=folders)
    assert not folders.results_dir.exists()


@pytest.mark.slow
def test_any_memory_can_be_read_by_tools(tmp_path: Path) -> None:
    dataset, folders = prepared_colours(tmp_path, 4, "last-k")
    options = RunOptions(run_id="r", reading=reading_configuration("files"))
    run(dataset, "last-k", OFFLINE, options=options, folders=folders)
    assert all(answer["steps"] for answer in answers(folders))
    answer_all(dataset, folders, "direct")
    assert not any("steps" in answer for answer in answers(folders, "direct"))
