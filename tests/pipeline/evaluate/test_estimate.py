"""`evaluate --dry-run`: what judges would take, from the answers that are there; nothing is called or written."""

from pathlib import Path

import pytest

from longmemeval.benchmarks.registry import load_dataset
from longmemeval.dataset import Dataset
from longmemeval.llm.costs import price
from longmemeval.llm.options import ModelOptions
from longmemeval.llm.rates import Rate, RateLimits
from longmemeval.pipeline.evaluate.estimate import estimate_grading
from longmemeval.pipeline.evaluate.evaluate import EvaluateOptions, evaluate
from longmemeval.pipeline.options import BatchOptions
from longmemeval.pipeline.run.plan import RunOptions
from longmemeval.pipeline.run.run import run
from longmemeval.settings import Folders
from tests.pipeline.finished import finished
from tests.pipeline.helpers import MODEL
from tests.server import ModelServer
from tests.support import json_lines, longmemeval, tree

OFFICIAL = "openai/gpt-4o-2024-08-06"
LEXICAL = "offline/lexical"


@pytest.fixture
def answered(tmp_path_factory: pytest.TempPathFactory, tmp_path: Path) -> tuple[Dataset, Folders]:
    return finished(tmp_path_factory, tmp_path, judge="")


def test_it_is_what_the_judge_is_then_sent(
    answered: tuple[Dataset, Folders], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, folders = answered
    before = tree(tmp_path)
    forecast = estimate_grading([OFFICIAL, LEXICAL], "r", options=EvaluateOptions(), folders=folders)
    assert tree(tmp_path) == before
    assert (forecast.questions, forecast.answered) == (4, 4)
    model, rules = forecast.judges
    assert (model.labelled, model.left, model.stage.work.calls) == (0, 4, 4)
    assert (rules.labelled, rules.left, rules.stage.work.calls) == (0, 4, 0)
    prompt_tokens = model.stage.work.prompt_tokens or 0
    # Three tokens of ten, where nothing is known.
    assert (model.stage.reply_tokens, model.stage.work.completion_tokens) == (12, 40)
    assert model.stage.dollars == pytest.approx(price(OFFICIAL, prompt_tokens, 12), rel=0.01)
    assert model.stage.work.dollars == pytest.approx(price(OFFICIAL, prompt_tokens, 40), rel=0.01)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789abcdef")
    with ModelServer(lambda body: "yes") as server:
        there = EvaluateOptions(judge=OFFICIAL, model_options=ModelOptions(server.url))
        expected = estimate_grading([OFFICIAL], "r", options=there, folders=folders).judges[0].stage.work
        evaluate("r", options=there, folders=folders)
        assert len(server.requests) == expected.calls
        again = estimate_grading([OFFICIAL], "r", options=there, folders=folders)
    (judge,) = again.judges
    assert (judge.labelled, judge.left, judge.stage.work.calls) == (4, 0, 0)


def test_replies_are_expected_as_the_judge_gave_them_before(
    answered: tuple[Dataset, Folders], monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset, folders = answered
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789abcdef")
    with ModelServer(lambda body: "yes it is") as server:
        there = EvaluateOptions(judge=OFFICIAL, model_options=ModelOptions(server.url))
        evaluate("r", options=there, folders=folders)
        run(dataset, "none", MODEL, options=RunOptions(run_id="other"), folders=folders)
        (judge,) = estimate_grading([OFFICIAL], "other", options=there, folders=folders).judges
    assert (judge.replies, judge.stage.reply_tokens) == ("run r", 4 * 3)
    (stored,) = (folders.results_dir / "r" / "judgements").glob("*.jsonl")
    latencies = [one["latency_ms"] for one in json_lines(stored)]
    assert judge.stage.seconds == pytest.approx(sum(latencies) / 4 / 1000)


def test_votes_limits_and_batches(answered: tuple[Dataset, Folders]) -> None:
    _, folders = answered
    limited = ModelOptions(rates=RateLimits(otherwise=Rate(rpm=6)))
    options = EvaluateOptions(votes=3, model_options=limited)
    (judge,) = estimate_grading([OFFICIAL], "r", options=options, folders=folders).judges
    assert judge.stage.work.calls == 12
    assert judge.stage.seconds == pytest.approx(110.0)
    (direct,) = estimate_grading([OFFICIAL], "r", options=EvaluateOptions(), folders=folders).judges
    batched = estimate_grading([OFFICIAL], "r", options=EvaluateOptions(batch=BatchOptions()), folders=folders)
    assert batched.batch == (f"judge {OFFICIAL}",)
    assert batched.judges[0].stage.dollars == pytest.approx((direct.stage.dollars or 0) / 2)


def test_on_the_command_line(tmp_path: Path) -> None:
    first = next(iter(load_dataset("sample").questions())).question_id
    (tmp_path / "given.jsonl").write_text(f'{{"question_id": "{first}", "hypothesis": "It is green."}}\n')
    given = ["--hypotheses", "given.jsonl", "-d", "sample", "--judge", OFFICIAL, "--dry-run"]
    done = longmemeval("evaluate", *given, cwd=tmp_path)
    assert "1 of" in done.stdout
    assert "have an answer. Dry run: no model was called." in done.stdout
    assert f"judge {OFFICIAL}" in done.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["given.jsonl"]
    refused = longmemeval("evaluate", *given, "--batch-poll", "5", cwd=tmp_path, code=2)
    assert "--batch-poll needs --batch" in refused.stderr
