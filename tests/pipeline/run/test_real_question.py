"""The whole pipeline on one real LongMemEval question and a real HTTP endpoint; a part with a real embedding model."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import real_file
from tests.models import PRESETS_HERE, minilm_folder
from tests.server import ModelServer
from tests.support import json_lines, longmemeval

EVIDENCE_TURN = "answer_280352e9:4"
ANSWER = "You graduated with a degree in Business Administration."
# The official template for this question's type, by its hash in the protocol.
DEFAULT_TEMPLATE_SHA256 = "fba020ba3d57982efdc9a937c1c01f897b789a608c7f88e60244121f6505e5bc"


def respond(body: dict[str, Any]) -> str:
    """Judge prompts get a yes when the answer is in them, all other prompts get the answer if they hold it."""
    prompt = body["messages"][-1]["content"]
    if "Is the model response correct?" in prompt:
        return "Yes." if ANSWER in prompt else "No."
    return ANSWER if "Business Administration" in prompt else "I don't know."


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the real question is prepared."""
    data = real_file("longmemeval_e47becba.json")
    folder = tmp_path_factory.mktemp("real")
    done = longmemeval(
        "prepare",
        "--dataset",
        data,
        *(word for preset in PRESETS_HERE for word in ("--memory", preset)),
        "--embedder",
        "hashing:384",
        cwd=folder,
    )
    assert "550 messages" in done.stdout
    return folder


@pytest.fixture(scope="module")
def served(workspace: Path) -> Iterator[ModelServer]:
    """The endpoint, after all presets were run and evaluated through it."""
    data = real_file("longmemeval_e47becba.json")
    with ModelServer(respond) as server:
        for preset in PRESETS_HERE:
            longmemeval(
                "run", "--dataset", data, "--memory", preset, "--model", "openai/gpt-4o-2024-08-06",
                "--api-base", server.url, "--run-id", preset, cwd=workspace,
            )  # fmt: skip
        longmemeval("evaluate", *PRESETS_HERE, "--api-base", server.url, cwd=workspace)
        yield server


def prompts(server: ModelServer) -> list[str]:
    return [message["content"] for request in server.chat_requests for message in request.body["messages"]]


def test_fixture_is_whole_and_readable(workspace: Path) -> None:
    folder = workspace / "prepared-data" / "longmemeval_e47becba" / "default" / "e47becba"
    db = json.loads((folder / "db.json").read_text())
    meta = json.loads((folder / "meta.json").read_text())
    vector = json.loads((folder / "vector.json").read_text())
    document = json.loads((folder / "working-memory.json").read_text())["document"]
    assert len(db["threads"]) == 53
    assert len(db["messages"]) == 550
    assert db["messages"][0]["created_at"] == "2023-05-20T02:21:00"
    assert "Business Administration" in document
    assert vector["index"]["dimension"] == 384
    assert vector["index"]["count"] == 550
    for part in ("db", "vector"):
        assert meta["parts"][part]["sha256"] == hashlib.sha256((folder / f"{part}.json").read_bytes()).hexdigest()


def test_nothing_prepared_holds_gold(workspace: Path) -> None:
    for path in (workspace / "prepared-data").rglob("*.json*"):
        text = path.read_text()
        assert "has_answer" not in text
        assert "single-session-user" not in text
        assert "answer_session_ids" not in text


def test_no_request_carries_a_label(served: ModelServer) -> None:
    assert len(served.chat_requests) == 2 * len(PRESETS_HERE)
    for request in served.chat_requests:
        body = json.dumps(request.body)
        assert set(request.body) <= {"model", "messages", "temperature", "max_tokens", "n", "tools", "tool_choice"}
        for label in ("answer_", "has_answer", "single-session", "e47becba", "sharegpt_", "ultrachat_"):
            assert label not in body, label


def test_question_date_reaches_every_reader(served: ModelServer) -> None:
    readers = [prompt for prompt in prompts(served) if "Is the model response correct?" not in prompt]
    assert len(readers) == len(PRESETS_HERE)
    assert all("2023/05/30 (Tue) 23:40" in prompt for prompt in readers)


def test_judge_prompts_are_the_official_ones_byte_for_byte(served: ModelServer, workspace: Path) -> None:
    judged = [request.body for request in served.chat_requests if "Is the model response" in str(request.body)]
    assert len(judged) == len(PRESETS_HERE)
    for body, preset in zip(judged, PRESETS_HERE, strict=True):
        hypothesis = json_lines(workspace / "results" / preset / "answers.jsonl")[0]["hypothesis"]
        prompt = body["messages"][0]["content"]
        # Taking the three values out again leaves the template itself.
        template = (
            prompt.replace(f"Model Response: {hypothesis}\n", "Model Response: {}\n")
            .replace("Question: What degree did I graduate with?", "Question: {}")
            .replace("Correct Answer: Business Administration\n", "Correct Answer: {}\n")
        )
        assert hashlib.sha256(template.encode()).hexdigest() == DEFAULT_TEMPLATE_SHA256
        assert body["model"] == "gpt-4o-2024-08-06"
        assert (body["temperature"], body["max_tokens"], body["n"]) == (0, 10, 1)


def test_semantic_recall_finds_the_evidence_turn(served: ModelServer, workspace: Path) -> None:
    answer = json_lines(workspace / "results" / "semantic-recall" / "answers.jsonl")[0]
    assert EVIDENCE_TURN in answer["recall_ids"]
    assert len(answer["recall_ids"]) < 100


@pytest.mark.thorough
@pytest.mark.parametrize("memory", ["semantic-recall", "hybrid"])
def test_a_real_model_finds_the_evidence_turn_in_a_tenth_of_the_sessions(embedded: Path, memory: str) -> None:
    with ModelServer(respond) as server:
        longmemeval(
            "run", "--dataset", embedded / "part.json", "--memory", memory, "--model", "openai/gpt-4o-2024-08-06",
            "--api-base", server.url, "--run-id", memory, cwd=embedded,
        )  # fmt: skip
    answer = json_lines(embedded / "results" / memory / "answers.jsonl")[0]
    assert EVIDENCE_TURN in answer["recall_ids"]
    assert answer["hypothesis"] == ANSWER
    vector = json.loads((embedded / "prepared-data" / "part" / "default" / "e47becba" / "vector.json").read_text())
    assert (vector["index"]["dimension"], vector["index"]["count"]) == (384, 81)


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which every tenth session, and the one with the evidence, is prepared with the real model."""
    (record,) = json.loads(real_file("longmemeval_e47becba.json").read_text())
    sessions = record["haystack_session_ids"]
    chosen = [place for place, name in enumerate(sessions) if place % 10 == 0 or name in record["answer_session_ids"]]
    for name in ("haystack_session_ids", "haystack_sessions", "haystack_dates"):
        record[name] = [record[name][place] for place in chosen]
    folder = tmp_path_factory.mktemp("embedded")
    (folder / "part.json").write_text(json.dumps([record]))
    model = f"fastembed:{minilm_folder()}"
    longmemeval("prepare", "-d", "part.json", "-m", "semantic-recall", "-m", "hybrid", "--embedder", model, cwd=folder)
    return folder


def test_scores_follow_from_what_was_recalled(served: ModelServer, workspace: Path) -> None:
    scores = {}
    for preset in PRESETS_HERE:
        (metrics,) = (workspace / "results" / preset / "metrics").glob("*.json")
        document = json.loads(metrics.read_text())
        # The official prompts, but served by the tests: only the provider's own address is official.
        assert document["judge"]["official"] is False
        assert document["overall"]["n"] == 1
        scores[preset] = document["overall"]["accuracy"]
    # This model asks no tool for a file, so that it has read none.
    assert scores == dict.fromkeys(PRESETS_HERE, 1.0) | {"none": 0.0, "files": 0.0}


def test_full_history_holds_every_message(served: ModelServer, workspace: Path) -> None:
    answer = json_lines(workspace / "results" / "full-history" / "answers.jsonl")[0]
    assert len(answer["recall_ids"]) == 550
    assert answer["prompt_tokens"] > 100_000
    assert answer["notes"] == []


def test_the_lean_engine_uses_at_most_an_eighth_of_the_full_history(served: ModelServer, workspace: Path) -> None:
    lean, full = (
        json_lines(workspace / "results" / preset / "answers.jsonl")[0] for preset in ("engram-lean", "full-history")
    )
    assert 0 < lean["prompt_tokens"] <= full["prompt_tokens"] / 8
    assert EVIDENCE_TURN in lean["recall_ids"]


def test_verify_holds_for_runs_and_preparation(served: ModelServer, workspace: Path) -> None:
    for subject in ("combined", "none", "longmemeval_e47becba/default"):
        assert "checks passed" in longmemeval("verify", subject, cwd=workspace).stdout
