"""Rerankers on the command line: a model that is not here, and one behind a server, by LiteLLM's rerank call."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.pipeline.helpers import prepared_colours
from tests.server import Fault, ModelServer, Refusal
from tests.support import json_lines, longmemeval, tree

NAMED = "Xenova/ms-marco-MiniLM-L-6-v2"
BEST = "Seven minutes in boiling water."
RUN = ("run", "-d", "colours.json", "-m", "rag-rerank", "--model", "offline/extractive", "--run-id", "r")


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reranked")
    prepared_colours(folder, 16, "rag-rerank")
    return folder


@pytest.fixture
def folder(prepared: Path, tmp_path: Path) -> Path:
    return shutil.copytree(prepared, tmp_path / "work")


@pytest.fixture
def server() -> Iterator[ModelServer]:
    """Its reranker finds eggs, whatever the question."""
    with ModelServer() as server:
        server.relevance = lambda query, text: float(text == BEST)
        yield server


def at(server: ModelServer) -> tuple[str, str]:
    return "--set", f"reranker=litellm:hosted_vllm/small@{server.url}"


def best(folder: Path) -> dict[str, str]:
    """The id of the message that this reranker likes, by question."""
    found = {}
    for entry in json.loads((folder / "colours.json").read_text()):
        sessions = zip(entry["haystack_session_ids"], entry["haystack_sessions"], strict=True)
        texts = {f"{name}:{at}": turn["content"] for name, turns in sessions for at, turn in enumerate(turns)}
        found[entry["question_id"]] = next(name for name, text in texts.items() if text == BEST)
    return found


@pytest.mark.parametrize("verb", ["run --model offline/extractive", "retrieval"])
def test_a_reranker_that_is_not_here_is_told_before_anything_is_written(folder: Path, verb: str) -> None:
    pytest.importorskip("fastembed")
    before = tree(folder)
    done = longmemeval(*verb.split(), "-d", "colours.json", "-m", "rag-rerank", cwd=folder, code=2)
    said, error = done.stderr.splitlines()
    assert said == f"Downloading the model {NAMED} (0.08 GB), once"
    assert error.startswith(f"Error: The model '{NAMED}' is not on this machine and cannot be downloaded: ")
    assert error.endswith("Name a folder with the model: --set reranker=fastembed:FOLDER.")
    assert (done.stdout, tree(folder)) == ("", before)


def test_what_lists_presets_downloads_nothing_and_asks_no_server(folder: Path, server: ModelServer) -> None:
    pytest.importorskip("fastembed")
    done = longmemeval("inspect", "q1", "-d", "colours.json", cwd=folder)
    assert done.stderr == ""
    (row,) = (line for line in done.stdout.splitlines() if line.strip().startswith("rag-rerank"))
    assert "not on this machine" in " ".join(row.split())
    assert "not reranked" in longmemeval(*RUN, "--dry-run", cwd=folder).stdout
    shown = longmemeval("inspect", "q1", "-d", "colours.json", "-m", "rag-rerank", *at(server), cwd=folder).stdout
    assert "'hosted_vllm/small' reranks on a server, and none is called here" in shown
    assert "not reranked" in longmemeval(*RUN, *at(server), "--dry-run", cwd=folder).stdout
    assert server.requests == []


def test_questions_wait_for_their_scores_together(folder: Path, server: ModelServer) -> None:
    """No reply comes before all 16 requests have arrived: one question after the other would wait for ever."""
    server.rerank_faults.extend(["together:16"] * 16)
    longmemeval(*RUN, *at(server), "--set", "top_k=1", "--concurrency", "16", cwd=folder, HOSTED_VLLM_API_KEY="s3cr3t")
    answers = json_lines(folder / "results/r/answers.jsonl")
    assert {answer["question_id"]: answer["recall_ids"] for answer in answers} == {
        question: [message] for question, message in best(folder).items()
    }
    assert [request.headers["authorization"] for request in server.requests] == ["Bearer s3cr3t"] * 16
    manifest = json.loads((folder / "results/r/run.json").read_text())
    assert manifest["settings"]["reranker"] == f"litellm:hosted_vllm/small@{server.url}"
    calls = manifest["totals"]["memory_calls"]
    assert (calls["calls"], calls["unpriced_calls"], calls["failed_calls"]) == (16, 16, 0)
    lines = json_lines(folder / "results/r/model-calls.jsonl")
    assert {line["haystack_id"] for line in lines} == set(best(folder))
    assert not any(b"s3cr3t" in data for data in tree(folder).values())
    longmemeval("retrieval", "-d", "colours.json", "-m", "rag-rerank", *at(server), "--run-id", "found", cwd=folder)
    first = {line["question_id"]: line["ranked"][0] for line in json_lines(folder / "results/found/rankings.jsonl")}
    assert {name: one["id"] for name, one in first.items()} == {
        name: message.partition(":")[0] for name, message in best(folder).items()
    }


@pytest.mark.parametrize("fault", [Refusal(429, retry_after="0"), 500, "drop", "garbage"], ids=str)
def test_a_failure_that_passes_is_tried_again(folder: Path, server: ModelServer, fault: Fault) -> None:
    server.rerank_faults.append(fault)
    longmemeval(*RUN, *at(server), "--limit", "1", cwd=folder)
    assert len(server.requests) == 2
    assert [answer["status"] for answer in json_lines(folder / "results/r/answers.jsonl")] == ["ok"]


@pytest.mark.parametrize(
    ("scores", "told"),
    [
        ("[[0, 0.5]]", "The reranker returned 1 score, not one for each of 6 texts"),
        ("[[0, 1], [1, 1], [2, 1], [3, 1], [4, 1], [4, 1]]", "The reranker returned 6 scores, not one for each of 6"),
        ("[[0, 1], [1, 1], [2, 1], [3, 1], [4, 1], [9, 1]]", "The reranker returned 6 scores, not one for each of 6"),
        ("[[0, 1], [1, 1], [2, 1], [3, 1], [4, 1], [5, NaN]]", "The reranker returned scores that are not finite"),
        ("[[0, 1], [1, 1], [2, 1], [3, 1], [4, 1], [5, 1e999]]", "The reranker returned scores that are not finite"),
    ],
)
def test_a_reply_without_a_score_for_each_text_fails_its_question_alone(
    folder: Path, server: ModelServer, scores: str, told: str
) -> None:
    results = [{"index": place, "relevance_score": score} for place, score in json.loads(scores)]
    server.rerank_faults.append(json.dumps({"results": results}).encode())
    longmemeval(*RUN, *at(server), "--limit", "3", "--concurrency", "1", cwd=folder, code=1)
    failed, *others = json_lines(folder / "results/r/answers.jsonl")
    assert failed["error"].startswith(told)
    assert [answer["status"] for answer in others] == ["ok", "ok"]
    assert len(server.requests) == 3
    longmemeval(*RUN, *at(server), "--limit", "3", cwd=folder)
    assert len(server.requests) == 4


def test_a_refused_key_ends_the_run(folder: Path, server: ModelServer) -> None:
    server.rerank_faults.append(401)
    done = longmemeval(*RUN, *at(server), "--limit", "3", "--concurrency", "1", cwd=folder, code=2)
    assert "The server refused the call, 401" in done.stderr
    assert len(server.requests) == 1


def test_what_it_costs_is_counted_and_limited(folder: Path, server: ModelServer) -> None:
    """One query of rerank-v3.5 costs $0.002, by LiteLLM's table."""
    place = f"reranker=litellm:cohere/rerank-v3.5@{server.url.removesuffix('/v1')}"
    own = ("--set", place, "--concurrency", "1", "--max-cost", "0.005")
    done = longmemeval(*RUN, *own, cwd=folder, code=1, COHERE_API_KEY="c")
    assert "Spending limit reached" in done.stderr
    calls = json.loads((folder / "results/r/run.json").read_text())["totals"]["memory_calls"]
    assert (calls["calls"], calls["cost_usd"], calls["unpriced_calls"]) == (2, pytest.approx(0.004), 0)


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ("litellm:cohere/rerank-v3.5", "needs a key, or the address of your own server (environment: COHERE_API_KEY)"),
        ("litellm:jina_ai/jina-reranker-v2-base-multilingual", "(environment: JINA_AI_API_KEY)"),
        ("litellm:hosted_vllm/x", "write --set reranker=litellm:hosted_vllm/x@http://HOST:PORT"),
        ("litellm:nonsense/x", "Unknown model provider 'nonsense'"),
        ("litellm:openai/gpt-4o@http://localhost:1", "openai/gpt-4o is a chat model, not a rerank model"),
        ("litellm:hosted_vllm/x@http://u:s3cr3t@h/v1", "The address of the reranker holds a password"),
        ("litellm:hosted_vllm/x@http://h/v1?key=s3cr3t", "The address of the reranker has a query or a fragment"),
        ("litellm", "The reranker 'litellm' needs a model"),
        ("litelm:x", "Did you mean 'litellm'?"),
    ],
)
def test_a_server_that_cannot_be_called_is_told_before_anything_is_written(folder: Path, spec: str, told: str) -> None:
    before = tree(folder)
    done = longmemeval(*RUN, "--set", f"reranker={spec}", cwd=folder, code=2)
    assert told in " ".join(done.stderr.split())
    assert "s3cr3t" not in done.stderr
    assert tree(folder) == before
