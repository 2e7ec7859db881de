"""`--max-cost` through the verbs: all that a piece of work costs, over all its starts, workers and models."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import structs

from longmemeval.dataset import Dataset
from longmemeval.errors import FatalModelError, HarnessError, SpendingLimitError
from longmemeval.llm.costs import JUDGES_SPENDING, SPENDING, spent_in
from longmemeval.llm.options import ModelOptions, SpendingLimit
from longmemeval.memory.configuration import as_configuration, resolve_configuration
from longmemeval.pipeline.evaluate.evaluate import EvaluateOptions, evaluate
from longmemeval.pipeline.prepare.prepare import PrepareOptions, prepare
from longmemeval.pipeline.run.plan import RunOptions, RunPlan
from longmemeval.pipeline.run.repeats import run_repeats
from longmemeval.pipeline.run.run import run
from longmemeval.results.graded.graded_run import Evaluation
from longmemeval.settings import Folders
from tests.pipeline.helpers import answers, colours, folders_in, manifest, prepared_colours
from tests.pipeline.sweeps import PRICED, served, swept
from tests.server import ModelServer
from tests.support import json_lines, longmemeval

JUDGE = "openai/gpt-4o-mini"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789abcdef")
    with ModelServer(lambda body: "word " * 100) as server:
        yield server


def patience(server: ModelServer) -> ModelOptions:
    return ModelOptions(server.url, timeout_s=20.0, max_attempts=2, max_wait_s=0.01)


def ask(dataset: Dataset, folders: Folders, server: ModelServer, dollars: float | None, **changes: object) -> None:
    limit = None if dollars is None else SpendingLimit(dollars)
    options = RunOptions(run_id="r", concurrency=16, model_options=patience(server), spending=limit)
    run(dataset, "none", PRICED, options=structs.replace(options, **changes), folders=folders)


def judge(folders: Folders, server: ModelServer, dollars: float | None, votes: int = 1) -> Evaluation:
    limit = None if dollars is None else SpendingLimit(dollars)
    options = EvaluateOptions(judge=JUDGE, votes=votes, model_options=patience(server), spending=limit)
    return evaluate("r", options=options, folders=folders)


def billed(server: ModelServer) -> float:
    """What the provider would charge for the requests it answered with 100 words each."""
    words = sum(len(one.body["messages"][-1]["content"].split()) for one in server.chat_requests)
    return (words * 0.15 + len(server.chat_requests) * 100 * 0.6) / 1e6


def test_a_limit_is_used_up_and_holds_over_any_number_of_starts(tmp_path: Path, server: ModelServer) -> None:
    dataset, folders = prepared_colours(tmp_path, 60, "none")
    folder = folders.results_dir / "r"
    # Sixteen reservations of 500 tokens alone would exceed it.
    cap = 0.0015
    for _ in range(3):
        with pytest.raises(SpendingLimitError, match=r"run 'r': \d+ of 60 answers are kept"):
            ask(dataset, folders, server, cap)
    kept = answers(folders)
    # Every reply that was paid for is kept, and what is left is less than one call may cost.
    assert len(kept) == len(server.chat_requests)
    assert cap - 0.0004 < billed(server) <= cap
    assert spent_in(folder / SPENDING) == pytest.approx(billed(server))
    assert spent_in(folder / SPENDING) == pytest.approx(sum(one["usage"]["cost_usd"] for one in kept))
    assert manifest(folders)["status"] == "incomplete"
    ask(dataset, folders, server, None)
    assert manifest(folders)["status"] == "completed"
    assert answers(folders)[: len(kept)] == kept
    assert len(server.chat_requests) == 60


def test_attempts_that_fail_count(tmp_path: Path, server: ModelServer) -> None:
    dataset, folders = prepared_colours(tmp_path, 30, "none")
    server.plan = lambda: "drop"
    with pytest.raises(SpendingLimitError, match="of it on attempts that failed"):
        ask(dataset, folders, server, 0.0026)
    # Room for eight calls with 500 tokens of reply each.
    assert len(server.chat_requests) == 8
    assert spent_in(folders.results_dir / "r" / SPENDING) == pytest.approx(0.0024, abs=0.0002)


def test_the_command_ends_with_exit_code_one_and_says_how_to_go_on(tmp_path: Path, server: ModelServer) -> None:
    dataset, _ = prepared_colours(tmp_path, 12, "none")
    command = (
        "run", "--dataset", dataset.path, "--memory", "none", "--model", PRICED, "--run-id", "r",
        "--api-base", server.url,
    )  # fmt: skip
    key = "sk-test-0123456789abcdef"
    ended = longmemeval(*command, "--max-cost", "0.0006", cwd=tmp_path, code=1, OPENAI_API_KEY=key)
    told = " ".join(ended.stderr.split())
    assert "Spending limit reached: $0.000" in told
    assert "of $0.0006 spent" in told
    assert "Rerun the command with a higher --max-cost; it continues from here" in told
    assert "never awaited" not in told
    assert "Traceback" not in told
    assert (
        "(8 now)" in longmemeval(*command, "--max-cost", "1", cwd=tmp_path, OPENAI_API_KEY=key).stdout
        or len(server.chat_requests) == 12
    )


def test_analysing_questions_is_covered(tmp_path: Path, server: ModelServer) -> None:
    dataset, folders = prepared_colours(tmp_path, 8, "bm25")
    memory = resolve_configuration("bm25", ["decompose=model"])
    options = RunOptions(run_id="r", concurrency=4, model_options=patience(server), spending=SpendingLimit(0.0004))
    with pytest.raises(SpendingLimitError, match="0 of 8 answers are kept"):
        run(dataset, memory, PRICED, options=options, folders=folders)
    asked = len(server.chat_requests)
    assert asked > 0
    assert 0 < spent_in(folders.results_dir / "r" / SPENDING) <= 0.0004
    run(dataset, memory, PRICED, options=structs.replace(options, spending=SpendingLimit(1.0)), folders=folders)
    assert spent_in(folders.results_dir / "r" / SPENDING) == pytest.approx(billed(server), rel=0.01)


@pytest.mark.parametrize("votes", [1, 3])
def test_judging_has_a_limit_of_its_own_over_all_starts(tmp_path: Path, server: ModelServer, votes: int) -> None:
    dataset, folders = prepared_colours(tmp_path, 30, "none")
    ask(dataset, folders, server, None)
    folder, asked = folders.results_dir / "r", len(server.chat_requests)
    server.responder = lambda body: "yes"
    one = 30 * 1e-5
    for _ in range(2):
        with pytest.raises(SpendingLimitError, match="answers have a label and keep it"):
            judge(folders, server, one, votes)
    assert len(server.chat_requests) > asked
    assert one - 1e-4 < spent_in(folder / JUDGES_SPENDING) <= one
    assert judge(folders, server, 1.0, votes).failed == 0
    assert spent_in(folder / SPENDING) == pytest.approx(sum(line["usage"]["cost_usd"] for line in answers(folders)))


def test_repeats_share_a_limit(tmp_path: Path, server: ModelServer) -> None:
    dataset, folders = prepared_colours(tmp_path, 6, "none")
    options = RunOptions(run_id="r", concurrency=4, model_options=patience(server), spending=SpendingLimit(0.0010))
    plan = RunPlan(data=dataset, configuration=as_configuration("none"), model=PRICED, options=options, folders=folders)
    for _ in range(2):
        with pytest.raises(SpendingLimitError):
            run_repeats(plan, 3)
    assert 6 < len(server.chat_requests) < 18
    assert billed(server) <= 0.0010


@pytest.mark.variants
@pytest.mark.parametrize(("jobs", "executor"), [(1, None), (2, None), (3, "threads")])
def test_preparing_with_a_chat_model_is_covered_over_its_workers(
    tmp_path: Path, server: ModelServer, jobs: int, executor: str | None
) -> None:
    dataset, folders = colours(tmp_path / "d.json", 8), folders_in(tmp_path)
    server.responder = lambda body: json.dumps({"edits": []}) + " word" * 100
    options = PrepareOptions(working_memory_model=PRICED, api_base=server.url, jobs=jobs).replaced(
        executor=executor, spending=SpendingLimit(0.004)
    )
    for _ in range(2):
        with pytest.raises(SpendingLimitError) as caught:
            prepare(dataset, ["working-memory"], options=options, folders=folders)
        assert caught.value.exit_code == 1
    root = folders.prepared_dir / "d" / "default"
    assert 0 < len(server.chat_requests) < 24
    assert 0.002 < spent_in(root / SPENDING) <= 0.004
    # Whoever goes on: this process, which has loaded what asks models.
    more = options.replaced(jobs=1, spending=SpendingLimit(1.0))
    report = prepare(dataset, ["working-memory"], options=more, folders=folders)
    assert report.already + report.prepared == 8
    # Replies that were paid for are remembered; what was cancelled on the way may have been asked again.
    assert len(server.chat_requests) <= 24 + 2 * jobs


def test_preparing_with_a_remote_embedder_is_covered(tmp_path: Path, server: ModelServer) -> None:
    dataset, folders = colours(tmp_path / "d.json", 80), folders_in(tmp_path)
    options = PrepareOptions(embedder="openai:text-embedding-3-small", api_base=server.url, jobs=1)
    with pytest.raises(SpendingLimitError):
        prepare(dataset, ["semantic-recall"], options=options.replaced(spending=SpendingLimit(3e-5)), folders=folders)
    root = folders.prepared_dir / "d" / "default"
    spent = spent_in(root / SPENDING)
    assert 0 < spent <= 3e-5
    prepare(dataset, ["semantic-recall"], options=options.replaced(spending=SpendingLimit(1.0)), folders=folders)
    batches = [one.body["input"] for one in server.requests if one.path.endswith("/embeddings")]
    words = sum(len(text.split()) for batch in batches for text in batch)
    assert spent_in(root / SPENDING) == pytest.approx(words * 0.02e-6)


def test_an_embedder_without_a_price_is_refused_at_the_providers_own_address(
    tmp_path: Path, server: ModelServer
) -> None:
    dataset, folders = colours(tmp_path / "d.json", 2), folders_in(tmp_path)
    options = PrepareOptions(embedder="openai:of-ones-own", jobs=1, spending=SpendingLimit(1.0))
    with pytest.raises(FatalModelError, match="price of openai:of-ones-own is not known"):
        prepare(dataset, ["semantic-recall"], options=options, folders=folders)
    prepare(dataset, ["semantic-recall"], options=options.replaced(api_base=server.url), folders=folders)


def test_a_sweep_counts_what_it_prepares(tmp_path: Path, server: ModelServer) -> None:
    colours(tmp_path / "colours.json", 6)
    changes = {
        "memories": ["working-memory"],
        "models": [served(server)],
        "prepare": {"jobs": 1, "working_memory_model": PRICED, "api_base": server.url},
    }
    server.responder = lambda body: json.dumps({"edits": []}) + " word" * 100
    with pytest.raises(HarnessError, match="--max-cost"):
        swept(tmp_path, max_cost=0.003, **changes)
    account = json_lines(tmp_path / "results" / "s_spending.jsonl")
    on_preparing = sum(line.get("cost_usd", 0.0) for line in account)
    assert 0 < on_preparing <= 0.003
    report = swept(tmp_path, max_cost=1.0, **changes)
    assert report.estimate.spent >= on_preparing
