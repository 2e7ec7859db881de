"""A chat model that analyses the questions before a run: what it says is used, paid for once, and stood in for."""

import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from longmemeval.benchmarks.registry import load_dataset
from longmemeval.dataset import Dataset
from longmemeval.errors import FatalModelError, HarnessError, SpendingLimitError
from longmemeval.llm.costs import SPENDING, spent_in
from longmemeval.llm.options import ModelOptions, SpendingLimit
from longmemeval.memory.configuration import MemoryConfiguration, resolve_configuration
from longmemeval.pipeline.inspect.inspect import inspect
from longmemeval.pipeline.prepare.prepare import PrepareOptions, prepare
from longmemeval.pipeline.retrieval.retrieve import RetrievalOptions, retrieve
from longmemeval.pipeline.run.answering import RunReport
from longmemeval.pipeline.run.plan import RunOptions
from longmemeval.pipeline.run.question_analysis import QueryModel
from longmemeval.pipeline.run.run import run
from longmemeval.pipeline.verify.verify import verify
from longmemeval.settings import Folders
from tests.pipeline.helpers import MODEL, answers, colours, folders_in, manifest, start, stop_when
from tests.server import ModelServer, Refusal
from tests.support import json_lines, longmemeval, record, tree, write_dataset


def memory(*overrides: str) -> MemoryConfiguration:
    return resolve_configuration("bm25", ["last_messages=0", "message_range=0", "top_k=3", *overrides])


SESSIONS = {
    "march": ("2023/03/02 (Thu) 10:00", "I went to a concert with Ada."),
    "april": ("2023/04/14 (Fri) 10:00", "I went to a concert alone."),
    "may": ("2023/05/27 (Sat) 10:00", "I baked bread at home."),
}
BY_MODEL = ("time_range=filter", "time_range_by=model", "decompose=model")
ASKED_ABOUT = memory(*BY_MODEL)


def respond(body: dict[str, Any]) -> str:
    """A range for the first question, parts for the second."""
    prompt = str(body["messages"])
    if "search query" in prompt:
        return '["concert alone", "bread home"]' if "the second thing" in prompt else "[]"
    return '{"start": "2023-03-01", "end": "2023-03-31"}' if "the first thing" in prompt else "null"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-a-key")
    with ModelServer(respond) as server:
        yield server


@pytest.fixture
def workspace(tmp_path: Path) -> tuple[Dataset, Folders]:
    """Two questions on three sessions; the rules find neither a time nor parts in them."""
    shared = {
        "haystack_dates": [date for date, _ in SESSIONS.values()],
        "haystack_session_ids": list(SESSIONS),
        "haystack_sessions": [[{"role": "user", "content": text}] for _, text in SESSIONS.values()],
        "answer_session_ids": ["march"],
    }
    data = [record(f"q{name}", question=f"What of the {name} thing?", **shared) for name in ("first", "second")]
    dataset, folders = load_dataset(write_dataset(tmp_path / "small.json", *data)), folders_in(tmp_path)
    prepare(dataset, [ASKED_ABOUT], folders=folders)
    return dataset, folders


Ask = Callable[..., RunReport]


@pytest.fixture
def ask(workspace: tuple[Dataset, Folders], server: ModelServer) -> Ask:
    """A run whose answering model is offline, and whose questions are analysed one at a time over HTTP."""
    dataset, folders = workspace

    def ask(run_id: str = "r", configuration: MemoryConfiguration = ASKED_ABOUT) -> RunReport:
        patience = ModelOptions(api_base=server.url, max_attempts=1)
        options = RunOptions(run_id=run_id, query_model="openai/local", concurrency=1, model_options=patience)
        return run(dataset, configuration, MODEL, options=options, folders=folders)

    return ask


def test_ranges_and_parts_are_used(workspace: tuple[Dataset, Folders], server: ModelServer, ask: Ask) -> None:
    _, folders = workspace
    report = ask(configuration=memory(*BY_MODEL, "top_k=2"))
    assert (report.answered, report.usage.calls) == (2, 2 + 4)
    # One by its time; two by its parts, one of which only "alone" tells from another message.
    assert [answer["recall_ids"] for answer in answers(folders)] == [["march:0"], ["april:0", "may:0"]]
    assert [answer["notes"] for answer in answers(folders)] == [[], []]
    ask("rules", memory("time_range=filter", "top_k=2"))
    assert [answer["recall_ids"] for answer in answers(folders, "rules")] == [["march:0", "april:0"]] * 2
    for request in server.chat_requests:
        assert "qfirst" not in str(request.body)
        assert "2023-05-30 (Tuesday)" in str(request.body) or "search query" in str(request.body)


def test_manifest_tells_who_was_asked_how_and_what_it_took(
    workspace: tuple[Dataset, Folders], server: ModelServer, ask: Ask
) -> None:
    _, folders = workspace
    ask()
    document = manifest(folders)
    told = document["settings"]["query_model"]
    assert (told["spec"], told["api_base"], set(told["templates"])) == (
        "openai/local", server.url, {"decompose", "time_range"}
    )  # fmt: skip
    took = document["totals"]["query_model"]
    assert (took["questions"], took["by_rules"], took["usage"]["calls"], took["usage"]["cached_calls"]) == (2, 0, 4, 0)
    assert took["usage"]["prompt_tokens"] > 0
    # Answering was offline: its own usage is not mixed up with that.
    assert document["totals"]["usage"]["prompt_tokens"] != took["usage"]["prompt_tokens"]
    assert verify("r", folders=folders).problems == ()


def test_a_second_run_asks_nothing_anew(workspace: tuple[Dataset, Folders], server: ModelServer, ask: Ask) -> None:
    _, folders = workspace
    ask()
    asked = len(server.chat_requests)
    ask("again")
    assert len(server.chat_requests) == asked == 4
    took = manifest(folders, "again")["totals"]["query_model"]["usage"]
    assert (took["calls"], took["cached_calls"], took["cost_usd"]) == (4, 4, 0.0)
    first, second = answers(folders), answers(folders, "again")
    assert [one["recall_ids"] for one in first] == [one["recall_ids"] for one in second]


def test_a_finished_run_is_not_touched(workspace: tuple[Dataset, Folders], server: ModelServer, ask: Ask) -> None:
    _, folders = workspace
    ask()
    before = tree(folders.results_dir)
    assert ask().newly_answered == 0
    assert tree(folders.results_dir) == before
    assert len(server.chat_requests) == 4


def test_garbage_leaves_the_whole_question_and_the_time_by_rules_with_a_note(
    workspace: tuple[Dataset, Folders], server: ModelServer, ask: Ask
) -> None:
    _, folders = workspace
    server.responder = lambda body: "I would rather not say."
    assert ask().answered == 2
    for answer in answers(folders):
        time, parts = answer["notes"]
        assert time.startswith("the time by rules: the model's time range cannot be read")
        assert parts == "the whole question is searched: the model's reply holds no JSON list of texts"
        assert len(answer["recall_ids"]) == 3
    took = manifest(folders)["totals"]["query_model"]
    assert (took["by_rules"], took["usage"]["calls"]) == (2, 4)


def test_a_call_that_fails_is_one_questions_trouble(
    workspace: tuple[Dataset, Folders], server: ModelServer, ask: Ask
) -> None:
    _, folders = workspace
    server.faults.append(Refusal(400, message="too odd"))
    assert ask().answered == 2
    first, second = answers(folders)
    assert len(first["recall_ids"]) == 3
    assert first["notes"][0].startswith("the time by rules: the model's call failed: ")
    assert second["notes"] == []
    assert manifest(folders)["totals"]["query_model"]["by_rules"] == 1


def test_an_error_that_ends_everything_comes_before_the_first_answer(
    workspace: tuple[Dataset, Folders], server: ModelServer, ask: Ask
) -> None:
    _, folders = workspace
    server.faults.append(Refusal(401, message="no such key"))
    with pytest.raises(FatalModelError):
        ask()
    assert answers(folders) == []
    assert manifest(folders)["status"] == "failed"
    assert ask().answered == 2
    assert manifest(folders)["totals"]["query_model"]["questions"] == 2


def test_the_answering_model_is_asked_unless_another_is_named(
    workspace: tuple[Dataset, Folders], server: ModelServer
) -> None:
    dataset, folders = workspace
    patience = ModelOptions(api_base=server.url, max_attempts=1)
    options = RunOptions(run_id="r", model_options=patience)
    run(dataset, memory("decompose=model"), "openai/answering", options=options, folders=folders)
    assert manifest(folders)["settings"]["query_model"]["spec"] == "openai/answering"
    assert set(manifest(folders)["settings"]["query_model"]["templates"]) == {"decompose"}
    assert len(server.chat_requests) == 2 + 2


def test_nobody_is_asked_where_rules_do(workspace: tuple[Dataset, Folders], server: ModelServer, ask: Ask) -> None:
    _, folders = workspace
    ask(configuration=memory("time_range=filter"))
    assert "query_model" not in manifest(folders)["settings"]
    assert "query_model" not in manifest(folders)["totals"]
    assert server.requests == []


def ranked(folders: Folders, run_id: str = "r") -> dict[str, list[str]]:
    lines = json_lines(folders.results_dir / run_id / "rankings.jsonl")
    return {line["question_id"]: [item["id"] for item in line["ranked"]] for line in lines}


def test_retrieval_asks_too(workspace: tuple[Dataset, Folders], server: ModelServer) -> None:
    dataset, folders = workspace
    base = ModelOptions(api_base=server.url, max_attempts=1)
    options = RetrievalOptions(run_id="r", granularity="turn", query_model="openai/local", model_options=base)
    retrieve(dataset, [ASKED_ABOUT], options=options, folders=folders)
    assert ranked(folders)["qfirst"] == ["march:0"]
    assert len(ranked(folders)["qsecond"]) == 3
    assert manifest(folders)["settings"]["query_model"]["spec"] == "openai/local"
    took = manifest(folders)["totals"]["query_model"]
    assert (took["questions"], took["usage"]["calls"], took["usage"]["cached_calls"]) == (2, 4, 0)
    before = tree(folders.results_dir)
    retrieve(dataset, [ASKED_ABOUT], options=options, folders=folders)
    assert tree(folders.results_dir) == before
    assert len(server.chat_requests) == 4


def test_retrieval_that_goes_on_asks_what_is_left_and_adds_up(
    workspace: tuple[Dataset, Folders], server: ModelServer
) -> None:
    dataset, folders = workspace
    base = ModelOptions(api_base=server.url, max_attempts=1)
    options = RetrievalOptions(run_id="r", granularity="turn", query_model="openai/local", model_options=base)
    retrieve(dataset, [ASKED_ABOUT], options=options, folders=folders)
    folder = folders.results_dir / "r"
    first, _ = (folder / "rankings.jsonl").read_bytes().splitlines(keepends=True)
    (folder / "rankings.jsonl").write_bytes(first)
    (folder / "run.json").write_text(json.dumps(manifest(folders) | {"status": "running", "files": {}}))
    retrieve(dataset, [ASKED_ABOUT], options=options, folders=folders)
    took = manifest(folders)["totals"]["query_model"]
    assert (took["questions"], took["usage"]["calls"], took["usage"]["cached_calls"]) == (3, 6, 2)
    assert len(ranked(folders)) == 2


MANY = memory("time_range=filter", "time_range_by=model")
PRICED = "openai/gpt-4o-mini"


def many(folder: Path, count: int) -> tuple[Dataset, Folders]:
    dataset, folders = colours(folder / "colours.json", count), folders_in(folder)
    prepare(dataset, [MANY], options=PrepareOptions(jobs=1), folders=folders)
    return dataset, folders


def asking(server: ModelServer, spending: SpendingLimit | None = None) -> RetrievalOptions:
    model = ModelOptions(api_base=server.url, max_attempts=1)
    return RetrievalOptions(run_id="r", query_model=PRICED, model_options=model, spending=spending, jobs=1)


def test_a_limit_holds_for_the_questions_of_all_memories_over_all_starts(tmp_path: Path, server: ModelServer) -> None:
    dataset, folders = many(tmp_path, 12)
    memories = [MANY, memory("decompose=model").model_copy(update={"name": "parts"})]
    server.responder = lambda body: "null" if "search query" not in str(body["messages"]) else "[]"
    for _ in range(3):
        with pytest.raises(SpendingLimitError, match=r"--max-cost") as caught:
            retrieve(dataset, memories, options=asking(server, SpendingLimit(0.0004)), folders=folders)
        assert "0 of 12 rankings are kept" in caught.value.where
    runs = [folders.results_dir / f"r-{name}" for name in ("bm25", "parts")]
    assert 0.0 < sum(spent_in(folder / SPENDING) for folder in runs) <= 0.0004
    assert {manifest(folders, folder.name)["status"] for folder in runs} == {"incomplete"}
    retrieve(dataset, memories, options=asking(server), folders=folders)
    assert {manifest(folders, folder.name)["status"] for folder in runs} == {"completed"}
    # Everything was asked once, and the second memory's calls are on its own account.
    assert len(server.chat_requests) == 24
    assert all(spent_in(folder / SPENDING) > 0 for folder in runs)


def test_a_limit_holds_for_the_embedding_of_questions(tmp_path: Path, server: ModelServer) -> None:
    dataset, folders = colours(tmp_path / "d.json", 6), folders_in(tmp_path)
    embedder = "openai:text-embedding-3-small"
    prepare(
        dataset,
        ["semantic-recall"],
        options=PrepareOptions(embedder=embedder, api_base=server.url, jobs=1),
        folders=folders,
    )
    before = len(server.requests)
    with pytest.raises(SpendingLimitError):
        retrieve(dataset, ["semantic-recall"], options=asking(server, SpendingLimit(1e-9)), folders=folders)
    assert len(server.requests) == before
    retrieve(dataset, ["semantic-recall"], options=asking(server, SpendingLimit(1.0)), folders=folders)
    cost = manifest(folders)["totals"]["query_embeddings"]["cost_usd"]
    assert 0 < cost == pytest.approx(spent_in(folders.results_dir / "r" / SPENDING))


def test_retrieval_that_was_interrupted_counts_what_it_had_asked_by_then(tmp_path: Path, server: ModelServer) -> None:
    dataset, folders = many(tmp_path, 12)
    server.responder = lambda body: "null"
    command = (
        "retrieval", "--dataset", dataset.path, "--memory", "bm25", "--set", "time_range=filter",
        "--set", "time_range_by=model", "--query-model", "openai/local", "--api-base", server.url, "--run-id", "r",
    )  # fmt: skip
    server.plan = lambda: "slow:25" if len(server.chat_requests) > 4 else None
    process = start(*command, cwd=tmp_path, OPENAI_API_KEY="sk-not-a-key")
    # Eight at a time: the last is asked about when four are done.
    told = stop_when(process, lambda: len(server.chat_requests) == 12, signal.SIGINT)
    assert (process.returncode, "Traceback" in told) == (130, False)
    assert manifest(folders)["status"] == "interrupted"
    took = manifest(folders)["totals"]["query_model"]
    assert (took["questions"], took["usage"]["calls"]) == (4, 4)
    server.plan = lambda: None
    longmemeval(*command, cwd=tmp_path, OPENAI_API_KEY="sk-not-a-key")
    took = manifest(folders)["totals"]["query_model"]
    # Four of the first start; now twelve, four of them remembered.
    assert (took["usage"]["calls"], took["usage"]["cached_calls"]) == (16, 4)
    assert manifest(folders)["status"] == "completed"
    assert verify("r", folders=folders).problems == ()


def test_retrieval_says_what_to_give_when_no_model_is_named(workspace: tuple[Dataset, Folders]) -> None:
    dataset, folders = workspace
    with pytest.raises(HarnessError, match=r"but none is named: decompose=model\..*--query-model"):
        retrieve(dataset, [memory("decompose=model")], options=RetrievalOptions(), folders=folders)
    options = RetrievalOptions(protocol="official", query_model="openai/local")
    with pytest.raises(HarnessError, match="official protocol uses no chat model"):
        retrieve(dataset, ["bm25"], options=options, folders=folders)
    assert not folders.results_dir.exists()


def test_retrieval_begins_nothing_when_nobody_can_be_asked(
    workspace: tuple[Dataset, Folders], server: ModelServer
) -> None:
    dataset, folders = workspace
    server.faults.append(Refusal(401, message="no such key"))
    base = ModelOptions(api_base=server.url, max_attempts=1)
    options = RetrievalOptions(run_id="r", query_model="openai/local", model_options=base)
    with pytest.raises(FatalModelError):
        retrieve(dataset, [ASKED_ABOUT], options=options, folders=folders)
    assert tree(folders.results_dir) == {}
    retrieve(dataset, [ASKED_ABOUT], options=structs.replace(options, granularity="turn"), folders=folders)
    assert ranked(folders)["qfirst"] == ["march:0"]


def test_inspect_shows_what_it_does(workspace: tuple[Dataset, Folders], server: ModelServer) -> None:
    dataset, folders = workspace
    model = QueryModel("openai/local", ModelOptions(api_base=server.url, max_attempts=1))
    shown = inspect(dataset, "qfirst", [ASKED_ABOUT], preparation="default", folders=folders, query_model=model)
    (recalled,) = shown.recalled
    assert recalled.recall is not None
    assert [item.message_ids for item in recalled.recall.items] == [("march:0",)]
    shown = inspect(dataset, "qfirst", [ASKED_ABOUT], preparation="default", folders=folders)
    assert "--query-model" in shown.recalled[0].problem


def test_on_the_command_line(workspace: tuple[Dataset, Folders], server: ModelServer) -> None:
    dataset, folders = workspace
    folder = dataset.path.parent
    settings = [word for one in BY_MODEL for word in ("--set", one)]
    asked = ("--dataset", "small.json", "--memory", "bm25", *settings, "--run-id")
    model = ("--query-model", "openai/local", "--api-base", server.url)
    longmemeval("run", *asked, "a", "--model", MODEL, *model, cwd=folder)
    longmemeval("retrieval", *asked, "b", *model, cwd=folder)
    for run_id, cached in (("a", 0), ("b", 4)):
        assert manifest(folders, run_id)["totals"]["query_model"]["usage"]["cached_calls"] == cached
    refused = longmemeval("retrieval", *asked, "c", cwd=folder, code=2)
    assert "Name one with --query-model" in " ".join(refused.stderr.split())
