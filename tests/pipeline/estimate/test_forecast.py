"""`run --dry-run`: what a run would take, from fixtures and earlier runs; nothing is called or written."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import structs

from longmemeval.costs.prices import price
from longmemeval.llm.options import ModelOptions
from longmemeval.memory.configuration import resolve_configuration
from longmemeval.pipeline.answer.run import RunOptions, run
from longmemeval.pipeline.estimate.forecast import Forecast, forecast_run
from longmemeval.pipeline.runs.selection import Selection
from longmemeval.rates.limits import Rate, RateLimits
from tests.pipeline.helpers import colours, folders_in, prepared_colours
from tests.server import ModelServer
from tests.support import json_lines, longmemeval, tree

PRICED = "openai/gpt-4o-mini"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789abcdef")
    with ModelServer(lambda body: "It is green") as running:
        yield running


def foreseen(path: Path, memory: str = "last-k", **options: object) -> Forecast:
    """Of a run over the four questions in a folder."""
    dataset, where = colours(path / "colours.json", 4), folders_in(path)
    before = tree(path)
    forecast = forecast_run(
        dataset,
        resolve_configuration(memory),
        PRICED,
        selection=Selection(),
        options=structs.replace(RunOptions(), **options),
        where=where,
    )
    assert tree(path) == before
    return forecast


def test_calls_tokens_and_dollars_are_those_of_the_run(tmp_path: Path, server: ModelServer) -> None:
    dataset, where = prepared_colours(tmp_path, 4)
    forecast = foreseen(tmp_path)
    answers, judge = forecast.stages
    assert server.requests == []
    assert (answers.name, answers.work.calls, judge.work.calls) == ("answers", 4, 4)
    assert answers.work.completion_tokens == 4 * 500
    assert answers.reply_tokens == 4 * 100
    assert "assumed" in forecast.replies
    assert answers.work.prompt_tokens is not None
    assert answers.dollars == pytest.approx(price(PRICED, answers.work.prompt_tokens, 400), rel=0.01)
    assert answers.work.dollars == pytest.approx(price(PRICED, answers.work.prompt_tokens, 2000), rel=0.01)
    options = RunOptions(model_options=ModelOptions(server.url), run_id="r")
    report = run(dataset, "last-k", PRICED, selection=Selection(limit=3), options=options, where=where)
    assert report.usage.calls == 3
    again = foreseen(tmp_path)
    # As that run: three words, as the server counts.
    assert (again.replies, again.stages[0].reply_tokens) == ("run r", 4 * 3)
    latencies = [answer["latency_ms"] for answer in json_lines(where.results_dir / "r" / "answers.jsonl")]
    assert again.stages[0].seconds == pytest.approx(sum(latencies) / 3 / 1000)


def test_of_a_begun_run_the_rest(tmp_path: Path, server: ModelServer) -> None:
    dataset, where = prepared_colours(tmp_path, 4)
    options = RunOptions(model_options=ModelOptions(server.url), run_id="r")
    run(dataset, "last-k", PRICED, selection=Selection(limit=3), options=options, where=where)
    forecast = foreseen(tmp_path, run_id="r")
    assert (forecast.questions, forecast.left, forecast.stages[0].work.calls) == (4, 1, 1)


def test_limits_make_it_longer(tmp_path: Path) -> None:
    prepared_colours(tmp_path, 4)
    by_requests = RateLimits(otherwise=Rate(rpm=6))
    answers, _ = foreseen(tmp_path, model_options=ModelOptions(rates=by_requests)).stages
    assert answers.seconds == pytest.approx(30.0)
    by_tokens = RateLimits(otherwise=Rate(tpm=100))
    answers, _ = foreseen(tmp_path, model_options=ModelOptions(rates=by_tokens)).stages
    assert answers.seconds == pytest.approx(((answers.work.prompt_tokens or 0) + 400) * 0.6)


def test_what_is_missing_is_estimated_too(tmp_path: Path) -> None:
    forecast = foreseen(tmp_path)
    assert forecast.preparation is not None
    assert (forecast.preparation.prepared, forecast.preparation.haystacks) == (4, 4)
    answers, _ = forecast.stages
    assert (answers.work.calls, answers.dollars, answers.seconds, forecast.disk_bytes) == (None, None, None, None)
    assert answers.work.basis == "known after prepare"


def test_asking_about_the_questions_first(tmp_path: Path) -> None:
    prepared_colours(tmp_path, 4, "hybrid")
    dataset, where = colours(tmp_path / "colours.json", 4), folders_in(tmp_path)
    forecast = forecast_run(
        dataset,
        resolve_configuration("hybrid", ["decompose=model"]),
        PRICED,
        selection=Selection(),
        options=RunOptions(),
        where=where,
    )
    assert [(stage.name, stage.work.calls) for stage in forecast.stages][:2] == [
        ("question analysis", 4),
        ("answers", 4),
    ]


def test_on_the_command_line(tmp_path: Path) -> None:
    done = longmemeval(
        "run", "-d", "sample", "-m", "bm25", "--model", PRICED, "--sample", "5", "--dry-run", cwd=tmp_path
    )
    assert "Would answer 5 of 5 questions" in done.stdout
    assert "First `longmemeval prepare`: 5 of 5 haystacks" in done.stdout
    assert "known after prepare" in done.stdout
    assert list(tmp_path.iterdir()) == []
