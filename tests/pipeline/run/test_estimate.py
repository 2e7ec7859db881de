"""`run --dry-run`: what a run would take, from fixtures and earlier runs; nothing is called or written."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from longmemeval.errors import HarnessError
from longmemeval.llm.costs import price
from longmemeval.llm.options import ModelOptions
from longmemeval.llm.rates import Rate, RateLimits
from longmemeval.llm.tokens import Call, encoding_of
from longmemeval.memory.configuration import as_configuration, resolve_configuration
from longmemeval.pipeline.estimate.stages import Calls, estimate_calls
from longmemeval.pipeline.evaluate.evaluate import EvaluateOptions, evaluate
from longmemeval.pipeline.options import BatchOptions
from longmemeval.pipeline.prepare.prepare import PrepareOptions, prepare
from longmemeval.pipeline.run.estimate import RunEstimate, estimate_run
from longmemeval.pipeline.run.plan import RunOptions, RunPlan
from longmemeval.pipeline.run.run import run
from longmemeval.reading.configuration import reading_configuration
from longmemeval.reading.options import ReadingMethod
from longmemeval.results.selection import Selection
from tests.pipeline.helpers import colours, folders_in, prepared_colours
from tests.server import ModelServer
from tests.support import json_lines, longmemeval, next_steps, tree

PRICED = "openai/gpt-4o-mini"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789abcdef")
    with ModelServer(lambda body: "It is green") as running:
        yield running


def foreseen(path: Path, memory: str = "last-k", model: str = PRICED, **options: object) -> RunEstimate:
    """Of a run over the four questions in a folder."""
    dataset, folders = colours(path / "colours.json", 4), folders_in(path)
    before = tree(path)
    forecast = estimate_run(
        RunPlan(
            data=dataset,
            configuration=resolve_configuration(memory),
            model=model,
            options=structs.replace(RunOptions(), **options),
            folders=folders,
        )
    )
    assert tree(path) == before
    return forecast


def test_calls_tokens_and_dollars_are_those_of_the_run(tmp_path: Path, server: ModelServer) -> None:
    dataset, folders = prepared_colours(tmp_path, 4)
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
    report = run(dataset, "last-k", PRICED, selection=Selection(limit=3), options=options, folders=folders)
    assert report.usage.calls == 3
    again = foreseen(tmp_path)
    # As that run: three words, as the server counts.
    assert (again.replies, again.stages[0].reply_tokens) == ("run r", 4 * 3)
    latencies = [answer["latency_ms"] for answer in json_lines(folders.results_dir / "r" / "answers.jsonl")]
    assert again.stages[0].seconds == pytest.approx(sum(latencies) / 3 / 1000)


class CountingServer(ModelServer):
    """Reports the tokens of a request by OpenAI's recipe: three around each message, three at the end."""

    def completion(self, body: dict[str, Any], choices: list[dict[str, Any]], text: str) -> dict[str, Any]:
        found = super().completion(body, choices, text)
        encode = encoding_of("o200k_base").encode_ordinary
        counts = [3 + sum(len(encode(text)) for text in message.values()) for message in body["messages"]]
        found["usage"]["prompt_tokens"] = sum(counts) + 3
        return found


@pytest.mark.parametrize(
    ("memory", "method", "prepared_before"),
    [("last-k", "direct", True), ("full-history", "con", True), ("full-history", "direct", False)],
)
def test_tokens_that_the_server_counts_are_in_the_range(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, memory: str, method: ReadingMethod, prepared_before: bool
) -> None:
    """Of all questions the range is one figure; of 20 of 30 it is an interval."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789abcdef")
    for count in (4, 30):
        folder = tmp_path / str(count)
        folder.mkdir()
        dataset, folders = colours(folder / "colours.json", count), folders_in(folder)
        if prepared_before:
            prepare(dataset, [memory], options=PrepareOptions(jobs=1), folders=folders)
        reading = reading_configuration(method)
        with CountingServer(lambda body: "It is green") as server:
            options = RunOptions(model_options=ModelOptions(server.url), run_id="r", reading=reading)
            configuration = resolve_configuration(memory)
            plan = RunPlan(data=dataset, configuration=configuration, model=PRICED, options=options, folders=folders)
            answers, judge = estimate_run(plan).stages
            prepare(dataset, [memory], options=PrepareOptions(jobs=1), folders=folders)
            used = run(dataset, memory, PRICED, options=options, folders=folders).usage
            assert used.calls == answers.work.calls == count
            assert answers.work.least_prompt_tokens <= used.prompt_tokens <= answers.work.most_prompt_tokens
            (left,) = estimate_run(plan).stages[1:]
            graded = evaluate(
                "r",
                options=EvaluateOptions(judge=judge.work.model, model_options=ModelOptions(server.url)),
                folders=folders,
            ).metrics.usage
            assert left.work.least_prompt_tokens <= graded.prompt_tokens <= left.work.most_prompt_tokens


def test_of_a_begun_run_the_rest(tmp_path: Path, server: ModelServer) -> None:
    dataset, folders = prepared_colours(tmp_path, 4)
    options = RunOptions(model_options=ModelOptions(server.url), run_id="r")
    run(dataset, "last-k", PRICED, selection=Selection(limit=3), options=options, folders=folders)
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
    assert (answers.work.calls, answers.work.bounded) == (4, True)
    assert forecast.measured_by.startswith(f"longmemeval prepare --dataset {tmp_path}/colours.json --memory last-k")
    assert forecast.measured_by.endswith(" --limit 4")
    prepared_colours(tmp_path, 4)
    (exactly, _), done = foreseen(tmp_path).stages, foreseen(tmp_path)
    assert (done.measured_by, exactly.work.bounded) == ("", False)
    assert answers.work.least_prompt_tokens < (exactly.work.prompt_tokens or 0) <= answers.work.most_prompt_tokens
    assert (answers.dollars or 1) < (exactly.dollars or 0) < (exactly.work.dollars or 0) <= (answers.work.dollars or 0)


def test_a_budget_and_the_window_bound_what_is_missing(tmp_path: Path) -> None:
    whole = foreseen(tmp_path).stages[0].work.most_prompt_tokens
    assert foreseen(tmp_path, "hybrid").stages[0].work.most_prompt_tokens == whole
    dataset, folders = colours(tmp_path / "colours.json", 4), folders_in(tmp_path)
    small = resolve_configuration("hybrid", ["budget=30"])
    plan = RunPlan(data=dataset, configuration=small, model=PRICED, folders=folders)
    bounded = estimate_run(plan).stages[0].work
    assert bounded.least_prompt_tokens < bounded.most_prompt_tokens < whole
    tight = reading_configuration("direct", context_window=1600, max_tokens=500)
    assert foreseen(tmp_path, reading=tight).stages[0].work.most_prompt_tokens == min(whole, 4 * 100)


def test_readings_with_notes_say_what_measures_them(tmp_path: Path) -> None:
    forecast = foreseen(tmp_path, reading=reading_configuration("con-separate"))
    assert forecast.stages[0].work == Calls(PRICED, None, None, None, None, "known after prepare")
    assert forecast.measured_by


def test_the_prompts_of_questions_that_are_prepared_stand_for_the_others(tmp_path: Path) -> None:
    dataset, folders = colours(tmp_path / "colours.json", 4), folders_in(tmp_path)
    options = PrepareOptions(jobs=1)
    prepare(dataset, ["last-k"], selection=Selection(limit=3), options=options, folders=folders)
    forecast = foreseen(tmp_path)
    assert forecast.preparation is not None
    answers, _ = forecast.stages
    assert (answers.work.calls, answers.work.basis) == (4, "3 of 4 prompts, of what is prepared")
    prepare(dataset, ["last-k"], options=options, folders=folders)
    exactly = foreseen(tmp_path).stages[0].work
    assert answers.work.prompt_tokens == pytest.approx(exactly.prompt_tokens, rel=0.05)


def test_asking_about_the_questions_first(tmp_path: Path) -> None:
    prepared_colours(tmp_path, 4, "hybrid")
    dataset, folders = colours(tmp_path / "colours.json", 4), folders_in(tmp_path)
    forecast = estimate_run(
        RunPlan(
            data=dataset,
            configuration=resolve_configuration("hybrid", ["decompose=model"]),
            model=PRICED,
            folders=folders,
        )
    )
    assert [(stage.name, stage.work.calls) for stage in forecast.stages][:2] == [
        ("question analysis", 4),
        ("answers", 4),
    ]


def test_replies_about_questions_that_are_kept_are_not_paid_again(tmp_path: Path, server: ModelServer) -> None:
    dataset, folders = prepared_colours(tmp_path, 4, "hybrid")
    memory = resolve_configuration("hybrid", ["decompose=model"])
    options = RunOptions(model_options=ModelOptions(server.url))
    server.responder = lambda body: '{"queries": ["colour"]}'
    run(dataset, memory, PRICED, selection=Selection(limit=3), options=options, folders=folders)
    plan = RunPlan(data=dataset, configuration=as_configuration(memory), model=PRICED, options=options, folders=folders)
    forecast = estimate_run(plan)
    assert (forecast.stages[0].work.calls, forecast.stages[0].work.basis) == (1, "all 4 prompts, 3 in the cache")


@pytest.mark.slow
def test_by_batch_at_the_price_of_batches(tmp_path: Path) -> None:
    prepared_colours(tmp_path, 4)
    direct, batched = foreseen(tmp_path), foreseen(tmp_path, batch=BatchOptions())
    assert (direct.batch, batched.batch) == ((), ("answers", "judge openai/gpt-4o-2024-08-06"))
    for one, half in zip(direct.stages, batched.stages, strict=True):
        assert half.dollars == pytest.approx((one.dollars or 0) / 2)
        assert half.work.dollars == pytest.approx((one.work.dollars or 0) / 2)
        assert half.seconds == 24 * 3600
    separate = foreseen(tmp_path, batch=BatchOptions(), reading=reading_configuration("con-separate"))
    assert separate.stages[0].seconds == 48 * 3600
    with pytest.raises(HarnessError, match="does not support batches for anthropic"):
        foreseen(tmp_path, "last-k", batch=BatchOptions(), model="anthropic/claude-3-5-haiku-20241022")


def test_of_a_part_of_the_questions_the_prompts_have_an_interval() -> None:
    calls = [[Call(prompt_tokens, 10)] for prompt_tokens in (90, 100, 110, 100)]
    work = estimate_calls("offline/x", calls, 400, "")
    # Standard deviation 8.165, by 400 / sqrt(4), less what is known already: sqrt(1 - 4 / 400).
    # Student's t of three degrees of freedom: 3.18245.
    margin = round(3.18245 * 400 * 8.16497 / 2 * 0.994987)
    assert (work.prompt_tokens, work.least_prompt_tokens, work.most_prompt_tokens) == (
        40_000,
        40_000 - margin,
        40_000 + margin,
    )
    everything = estimate_calls("offline/x", calls, 4, "")
    assert (everything.least_prompt_tokens, everything.most_prompt_tokens) == (400, 400)


def test_on_the_command_line(tmp_path: Path) -> None:
    done = longmemeval(
        "run", "-d", "sample", "-m", "bm25", "--model", PRICED, "--sample", "5", "--dry-run", cwd=tmp_path
    )
    assert "Would answer 5 of 5 questions" in done.stdout
    assert "First `longmemeval prepare`: 5 of 5 haystacks" in done.stdout
    assert "the prompts of answers range from no message to the whole history" in done.stdout
    assert next_steps(done.stdout) == [["prepare", *["--dataset", "sample", "--memory", "bm25", "--sample", "5"]]]
    assert list(tmp_path.iterdir()) == []


def test_prompts_that_do_not_fit_are_told_first_at_any_width(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    words = ["-d", "sample", "-m", "full-history", "--model", PRICED, "--limit", "19", "--context-window", "5200"]
    done = longmemeval("run", *words, "--dry-run", cwd=tmp_path)
    document = json.loads(longmemeval("run", *words, "--dry-run", "--json", cwd=tmp_path).stdout)
    work = document["stages"][0]["work"]
    assert 0 < work["too_long"] < work["counted"] == 19
    assert done.stdout.startswith(f"Does not fit the context window of {PRICED}: {work['too_long']} of 19")
