"""`evaluate --batch`: the labels of direct calls, votes and all; and a command that is stopped and goes on."""

import signal
from typing import Any

import pytest

from longmemeval.dataset import Dataset
from longmemeval.errors import HarnessError
from longmemeval.llm.costs import JUDGES_SPENDING, spent_in
from longmemeval.pipeline.evaluate.evaluate import EvaluateOptions, evaluate
from longmemeval.results.graded.graded_run import Evaluation
from longmemeval.settings import Folders
from tests.batch_server import BatchServer
from tests.pipeline.batches.batched import BATCH, KEY, patience
from tests.pipeline.helpers import answer_all, answers, start, stop_when
from tests.pipeline.sweeps import PRICED
from tests.support import json_lines, longmemeval

JUDGE = "openai/gpt-4o-mini"


def verdict(body: dict[str, Any]) -> str:
    """A label that follows from the prompt."""
    return "yes" if len(body["messages"][-1]["content"]) % 2 else "no"


def judge(folders: Folders, server: BatchServer, run_id: str, votes: int, *, by_batch: bool) -> Evaluation:
    batch = BATCH if by_batch else None
    options = EvaluateOptions(JUDGE, votes=votes, model_options=patience(server), batch=batch)
    return evaluate(run_id, options=options, folders=folders)


@pytest.mark.parametrize("votes", [1, 3])
def test_labels_are_those_of_direct_calls(of_eight: tuple[Dataset, Folders], server: BatchServer, votes: int) -> None:
    dataset, folders = of_eight
    server.responder = verdict
    for run_id in ("direct", "batched"):
        answer_all(dataset, folders, run_id)
    direct = judge(folders, server, "direct", votes, by_batch=False)
    batched = judge(folders, server, "batched", votes, by_batch=True)
    assert server.sizes == [8 * votes]
    assert batched.metrics.judge == direct.metrics.judge
    assert batched.metrics.overall == direct.metrics.overall
    assert batched.metrics.latency_ms.p50 is None
    assert batched.metrics.usage.cost_usd == pytest.approx(direct.metrics.usage.cost_usd / 2)
    assert spent_in(folders.results_dir / "batched" / JUDGES_SPENDING) == pytest.approx(batched.metrics.usage.cost_usd)


def test_a_batch_that_is_under_way_is_not_paid_for_twice(
    of_eight: tuple[Dataset, Folders], server: BatchServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset, folders = of_eight
    server.responder = verdict
    answer_all(dataset, folders, "r")
    server.outcomes.append("cancelled")
    with pytest.raises(HarnessError, match="4 of 8 answers have a label"):
        judge(folders, server, "r", 1, by_batch=True)
    (steps,) = (folders.results_dir / "r" / "batches").glob("*/steps.jsonl")
    ended = [line for line in steps.read_text().splitlines(keepends=True) if '"ended"' not in line]
    steps.write_text("".join(ended))
    with pytest.raises(HarnessError, match=r"batch_1.* Add --batch, which fetches it"):
        judge(folders, server, "r", 1, by_batch=False)
    server.batches["batch_1"]["status"] = "completed"
    assert judge(folders, server, "r", 1, by_batch=True).failed == 0
    assert set(server.paid.values()) == {1}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_command_that_is_stopped_leaves_its_batch_and_fetches_it(
    three: tuple[Dataset, Folders], server: BatchServer, number: int
) -> None:
    dataset, folders = three
    server.looks = 1_000_000
    folder = folders.results_dir.parent
    command = ("run", "--dataset", dataset.path, "--memory", "last-k", "--model", PRICED, "--api-base", server.url)
    process = start(*command, "--run-id", "r", "--batch", cwd=folder, OPENAI_API_KEY=KEY)
    steps = folders.results_dir / "r/batches/answers/steps.jsonl"
    told = stop_when(process, lambda: steps.exists() and '"batch_1"' in steps.read_text(), number)
    if number == signal.SIGINT:
        assert "sent batches stay with the provider until they are fetched" in told
        assert "--batch --resume r" in told
    server.looks = server._seen["batch_1"] + 1
    again = longmemeval(*command, "--batch", "--resume", "r", cwd=folder, OPENAI_API_KEY=KEY)
    assert "3 of 3 questions answered" in again.stdout
    assert server.sizes == [3]
    assert len(answers(folders)) == len(json_lines(folders.results_dir / "r/prompts.jsonl")) == 3
