"""ConvoMem from its files to scores per category, evidence count and context size, over a real HTTP endpoint."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import structs

from longmemeval.benchmarks.registry import load_dataset
from longmemeval.llm.options import ModelOptions
from longmemeval.pipeline.evaluate.evaluate import EvaluateOptions, evaluate
from longmemeval.pipeline.prepare.prepare import PrepareOptions, prepare
from longmemeval.pipeline.run.plan import RunOptions
from longmemeval.pipeline.run.run import run
from longmemeval.pipeline.verify.verify import verify
from tests.benchmarks.convomem.files import write_folder
from tests.pipeline.helpers import MODEL, compare, folders_in
from tests.server import ModelServer
from tests.support import longmemeval


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-a-real-key-0123")
    with ModelServer(lambda body: "RIGHT") as server:
        yield server


def test_every_question_is_graded_by_the_rules_of_its_category(tmp_path: Path, server: ModelServer) -> None:
    dataset, folders = load_dataset(write_folder(tmp_path / "convomem")), folders_in(tmp_path)
    prepare(dataset, ["full-history"], options=PrepareOptions(jobs=1), folders=folders)
    run(dataset, "full-history", MODEL, options=RunOptions(run_id="r"), folders=folders)
    options = EvaluateOptions(
        judge="openai/gpt-4o-mini", model_options=ModelOptions(api_base=server.url, max_attempts=1), concurrency=1
    )
    metrics = evaluate("r", options=options, folders=folders).metrics
    assert (metrics.judge.templates, metrics.judge.official) == ("convomem", False)
    assert metrics.overall.accuracy == 1.0
    assert metrics.overall.n == len(dataset)
    assert sum(score.n for score in metrics.by_facet.values()) == len(dataset)
    assert all("evidence " in name and "context size " in name for name in metrics.by_facet)
    asked = [request.body["messages"][-1]["content"] for request in server.chat_requests]
    assert len(asked) == len(dataset)
    # A question with several evidence messages is judged with those messages in sight.
    several = [
        question
        for question in dataset.questions()
        if dataset.gold(question.question_id).question_type == "user-facts"
        and len(dataset.gold(question.question_id).evidence_texts) > 1
    ]
    for question in several:
        texts = dataset.gold(question.question_id).evidence_texts
        assert any(question.text in prompt and all(text in prompt for text in texts) for prompt in asked)
    assert several
    assert verify("r", folders=folders).problems == ()
    assert compare(["r"], folders=folders).runs[0].summary.metrics == metrics


def test_an_unreadable_verdict_counts_as_not_evaluated(tmp_path: Path, server: ModelServer) -> None:
    dataset, folders = load_dataset(write_folder(tmp_path / "convomem")), folders_in(tmp_path)
    prepare(dataset, ["none"], folders=folders)
    run(dataset, "none", MODEL, options=RunOptions(run_id="r"), folders=folders)
    replies = iter(["right and wrong at once", "Hard to say."])
    server.responder = lambda body: next(replies, "RIGHT")
    options = EvaluateOptions(
        judge="openai/gpt-4o-mini", model_options=ModelOptions(api_base=server.url, max_attempts=1), concurrency=1
    )
    first = evaluate("r", options=options, folders=folders)
    assert (first.metrics.overall.correct, first.metrics.overall.not_evaluated) == (len(dataset) - 2, 1)
    assert first.failed == 1
    again = evaluate("r", options=structs.replace(options, concurrency=2), folders=folders)
    assert (again.newly_judged, again.metrics.overall.not_evaluated) == (1, 0)


def test_command_shows_the_groups(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "convomem")
    longmemeval("prepare", "--dataset", folder, "--memory", "none", cwd=tmp_path)
    longmemeval("run", "--dataset", folder, "--memory", "none", "--model", MODEL, "--run-id", "r", cwd=tmp_path)
    shown = longmemeval("evaluate", "r", "--judge", "offline/lexical", cwd=tmp_path).stdout
    assert "user-facts, evidence 2, context size" in shown
