"""`run --batch` against real batch endpoints: the answers of a direct run at half the price, whatever goes wrong."""

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from longmemeval.dataset import Dataset
from longmemeval.errors import BatchCancelledError, FatalModelError, HarnessError, SpendingLimitError
from longmemeval.llm.costs import SPENDING, spent_in
from longmemeval.llm.options import ModelOptions, SpendingLimit
from longmemeval.memory.configuration import resolve_configuration
from longmemeval.pipeline.batches import sending
from longmemeval.pipeline.prepare.prepare import prepare
from longmemeval.pipeline.run.plan import RunOptions
from longmemeval.pipeline.run.run import run
from longmemeval.reading.configuration import reading_configuration
from longmemeval.settings import Folders
from tests.batch_server import BatchServer
from tests.pipeline.batches.batched import BATCH, as_text, ask, by_question, patience
from tests.pipeline.helpers import answers, manifest
from tests.pipeline.sweeps import PRICED
from tests.server import ModelServer, Refusal
from tests.support import json_lines

Questions = tuple[Dataset, Folders]


def test_answers_are_those_of_a_direct_run_at_half_the_price(of_sixty: Questions, server: BatchServer) -> None:
    dataset, folders = of_sixty
    ask(dataset, folders, server, "direct", batch=None)
    asked = [as_text(one.body) for one in server.chat_requests]
    told: list[str] = []
    server.looks = 3
    report = ask(dataset, folders, server, "batched", tell=told.append)
    assert (report.answered, len(server.chat_requests)) == (60, 60)
    assert server.sizes == [60]
    assert sorted(asked) == sorted(as_text(line["body"]) for line in server.lines(0))
    assert by_question(folders, "batched") == by_question(folders, "direct")
    prompts = [
        sorted(map(as_text, json_lines(folders.results_dir / one / "prompts.jsonl"))) for one in ("batched", "direct")
    ]
    assert prompts[0] == prompts[1]
    usage = {name: manifest(folders, name)["totals"]["usage"] for name in ("batched", "direct")}
    assert usage["batched"]["cost_usd"] == pytest.approx(usage["direct"]["cost_usd"] / 2)
    assert spent_in(folders.results_dir / "batched" / SPENDING) == pytest.approx(usage["batched"]["cost_usd"])
    assert {one["latency_ms"] for one in answers(folders, "batched")} == {None}
    assert manifest(folders, "batched")["settings"]["batch"] is True
    assert manifest(folders, "batched")["totals"]["batches"] == {"batches": 1, "requests": 60, "replies": 60}
    assert "batch" not in manifest(folders, "direct")["settings"]
    assert any(re.fullmatch(r"Batch batch_1: 60 requests with the provider, at most \$0\.00\d+\.", one) for one in told)
    with pytest.raises(HarnessError, match="batch: was True, now not set"):
        ask(dataset, folders, server, "batched", batch=None)


def test_tokens_that_the_provider_does_not_count_are_counted_here(
    of_eight: Questions, server: BatchServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset, folders = of_eight
    whole = server.completion
    monkeypatch.setattr(server, "completion", lambda *given: whole(*given) | {"usage": {"prompt_tokens": None}})
    ask(dataset, folders, server, "direct", batch=None)
    report = ask(dataset, folders, server, "batched", spending=SpendingLimit(1.0))
    usage = {name: manifest(folders, name)["totals"]["usage"] for name in ("batched", "direct")}
    assert [one["estimated_calls"] for one in usage.values()] == [8, 8]
    assert usage["batched"]["prompt_tokens"] == pytest.approx(usage["direct"]["prompt_tokens"], rel=0.01)
    assert usage["batched"]["cost_usd"] == pytest.approx(usage["direct"]["cost_usd"] / 2, rel=0.01)
    assert report.usage.dollars
    # The provider may have counted more, so what was reserved for the replies stays spent.
    assert spent_in(folders.results_dir / "batched" / SPENDING) > 2 * report.usage.dollars


def test_notes_first_take_two_rounds(of_eight: Questions, server: BatchServer) -> None:
    dataset, folders = of_eight
    reading = reading_configuration("con-separate")
    ask(dataset, folders, server, "direct", batch=None, reading=reading)
    ask(dataset, folders, server, "batched", reading=reading)
    assert server.sizes == [24, 8]
    assert by_question(folders, "batched") == by_question(folders, "direct")


def test_single_requests_that_go_wrong_are_sent_again(of_sixty: Questions, server: BatchServer) -> None:
    """One in twenty fails, others are missing, doubled, unreadable, or for nobody."""
    dataset, folders = of_sixty
    faults: dict[int, str | int] = {3: 500, 20: 429, 41: 503, 7: "missing", 9: "twice", 11: "unknown", 13: "garbage"}
    faults[15] = "empty"
    server.spoil = lambda number, body: faults.get(number)
    ask(dataset, folders, server, "direct", batch=None)
    report = ask(dataset, folders, server, "batched")
    assert server.sizes == [60, 5]
    assert (report.answered, report.failed) == (60, 0)
    assert by_question(folders, "batched") == by_question(folders, "direct")
    attempts = [one["attempts"] for one in answers(folders, "batched")]
    assert (attempts.count(2), attempts.count(1)) == (5, 55)
    found = manifest(folders, "batched")["totals"]["batches"]
    faulty = {"refused": 3, "unanswered": 1, "repeated": 1, "unknown": 1, "unreadable": 1}
    assert found == {"batches": 2, "requests": 65, "replies": 61} | faulty
    # The empty reply was paid for, and counts.
    assert sum(one["usage"]["calls"] for one in answers(folders, "batched")) == sum(server.paid.values()) == 61


def test_what_the_server_refuses_fails_that_question_only(of_eight: Questions, server: BatchServer) -> None:
    dataset, folders = of_eight
    server.spoil = lambda number, body: 400 if number == 2 else None
    report = ask(dataset, folders, server)
    assert (report.answered, report.failed) == (7, 1)
    assert "The call failed, 400: failed on purpose" in report.errors[0]
    assert manifest(folders)["status"] == "incomplete"
    # Resuming asks again, as with direct calls.
    assert ask(dataset, folders, server).answered == 8
    assert server.sizes == [8, 1]


def test_what_always_fails_ends_after_as_many_attempts_as_direct_calls(
    of_eight: Questions, server: BatchServer
) -> None:
    dataset, folders = of_eight
    server.spoil = lambda number, body: 500 if "bicycle5" in body["messages"][-1]["content"] else None
    assert ask(dataset, folders, server).failed == 1
    assert server.sizes == [8, 1, 1]


def test_an_expired_batch_is_queued_again(of_sixty: Questions, server: BatchServer) -> None:
    dataset, folders = of_sixty
    server.outcomes.append("expired")
    assert ask(dataset, folders, server).answered == 60
    assert server.sizes == [60, 30]
    assert set(server.paid.values()) == {1}


def test_a_cancelled_batch_keeps_its_replies_and_waits_for_the_user(of_sixty: Questions, server: BatchServer) -> None:
    dataset, folders = of_sixty
    server.outcomes.append("cancelled")
    with pytest.raises(BatchCancelledError, match=r"batch_1 was cancelled .* 30 of 60 .*: 30 of 60 answers are kept"):
        ask(dataset, folders, server)
    assert manifest(folders)["status"] == "incomplete"
    assert ask(dataset, folders, server).answered == 60
    assert server.sizes == [60, 30]
    assert set(server.paid.values()) == {1}


def test_a_refused_batch_says_why(of_eight: Questions, server: BatchServer) -> None:
    dataset, folders = of_eight
    server.outcomes.append("failed:model_not_found")
    with pytest.raises(FatalModelError, match="refused batch batch_1: refused: model_not_found"):
        ask(dataset, folders, server)
    assert ask(dataset, folders, server).answered == 8
    assert spent_in(folders.results_dir / "r" / SPENDING) == pytest.approx(
        manifest(folders)["totals"]["usage"]["cost_usd"]
    )


def test_a_full_queue_gets_less_at_a_time(of_sixty: Questions, server: BatchServer) -> None:
    dataset, folders = of_sixty
    server.outcomes.extend(["failed:token_limit_exceeded"] * 2)
    assert ask(dataset, folders, server).answered == 60
    assert server.sizes == [60, 30, 15, 15, 15, 15]
    assert set(server.paid.values()) == {1}


def test_files_keep_to_the_limits(of_sixty: Questions, server: BatchServer, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset, folders = of_sixty
    monkeypatch.setattr(sending, "MOST_REQUESTS", 25)
    assert ask(dataset, folders, server).answered == 60
    assert sorted(server.sizes) == [10, 25, 25]
    monkeypatch.setattr(sending, "MOST_BYTES", 12_000)
    assert ask(dataset, folders, server, "by-bytes").answered == 60
    files = [data for name, data in server.files.values() if name.startswith("longmemeval-")]
    assert len(files) > 3 + 3
    assert max(map(len, files[3:])) <= 12_000


def test_a_limit_holds_and_what_fits_is_sent(of_sixty: Questions, server: BatchServer) -> None:
    dataset, folders = of_sixty
    server.responder = lambda body: "word " * 100
    with pytest.raises(SpendingLimitError, match=r"run 'r': \d+ of 60 answers are kept"):
        ask(dataset, folders, server, spending=SpendingLimit(0.0015))
    folder = folders.results_dir / "r"
    kept = len(answers(folders))
    assert 5 < kept == sum(server.paid.values()) < 60
    spent = spent_in(folder / SPENDING)
    assert spent == pytest.approx(sum(one["usage"]["cost_usd"] for one in answers(folders)))
    assert spent <= 0.0015
    # Each batch was set aside for in full before it was sent.
    entries = json_lines(folder / "spending.jsonl")
    open_, most = dict[str, float](), 0.0
    for entry in entries:
        if "reserved_usd" in entry:
            open_[entry["attempt"]] = entry["reserved_usd"]
        elif "cost_usd" in entry:
            open_[entry["attempt"]] = entry["cost_usd"]
        most = max(most, sum(open_.values()))
    assert most <= 0.0015 * (1 + 1e-9)
    assert ask(dataset, folders, server, spending=SpendingLimit(1.0)).answered == 60
    assert set(server.paid.values()) == {1}


def test_questions_are_analysed_by_batch_and_what_is_cached_is_not_sent(
    of_eight: Questions, server: BatchServer
) -> None:
    dataset, folders = of_eight
    prepare(dataset, ["bm25"], folders=folders)
    memory = resolve_configuration("bm25", ["decompose=model"])

    def answer(run_id: str) -> None:
        options = RunOptions(run_id=run_id, model_options=patience(server), batch=BATCH)
        assert run(dataset, memory, PRICED, options=options, folders=folders).answered == 8

    answer("first")
    assert server.sizes == [8, 8]
    assert manifest(folders, "first")["totals"]["query_model"]["usage"]["cost_usd"] > 0
    answer("second")
    assert server.sizes == [8, 8, 8]
    assert manifest(folders, "second")["totals"]["query_model"]["usage"]["cached_calls"] == 8


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("offline/extractive", "runs locally at no cost; --batch does not apply. Leave out --batch"),
        ("ollama/llama3.1", "LiteLLM does not support batches for ollama"),
    ],
)
def test_models_without_batches_are_refused_before_anything_is_written(
    of_eight: Questions, model: str, said: str
) -> None:
    dataset, folders = of_eight
    with pytest.raises(FatalModelError, match=said):
        run(dataset, "last-k", model, options=RunOptions(run_id="r", batch=BATCH), folders=folders)
    assert not (folders.results_dir / "r").exists()


def test_an_endpoint_without_batches_is_named(of_eight: Questions, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset, folders = of_eight
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789abcdef")
    with ModelServer() as plain:
        options = RunOptions(run_id="r", model_options=patience(plain), batch=BATCH)
        with pytest.raises(FatalModelError, match="does not support batches"):
            run(dataset, "last-k", PRICED, options=options, folders=folders)


def test_an_unknown_price_stays_unknown(of_eight: Questions, server: BatchServer) -> None:
    dataset, folders = of_eight
    options = RunOptions(run_id="r", model_options=patience(server), batch=BATCH)
    usage = run(dataset, "last-k", "openai/local", options=options, folders=folders).usage
    assert (usage.cost_usd, usage.unpriced_calls) == (0.0, 8)


def test_a_secret_in_a_reply_is_kept_nowhere(of_eight: Questions, server: BatchServer) -> None:
    dataset, folders = of_eight
    secret = "sk-test-0123456789abcdef"
    server.responder = lambda body: f"Your key is {secret}."
    ask(dataset, folders, server)
    kept: list[Any] = [path for path in folders.results_dir.rglob("*") if path.is_file()]
    assert [path.name for path in kept if secret in path.read_text()] == []
    assert all("taken out" in json.dumps(one["notes"]) for one in answers(folders))


def test_replies_mean_the_same_by_batch(of_eight: Questions, server: BatchServer) -> None:
    dataset, folders = of_eight
    ends = iter(["error", "pause_turn", "weird"])
    server.choice = lambda body: {"finish_reason": next(ends, "stop")}
    report = ask(dataset, folders, server)
    assert (report.answered, report.broke_off, server.sizes) == (8, {"pause_turn": 1, "weird": 1}, [8, 1])


def test_shapes_are_read_by_batch_as_directly(of_eight: Questions, server: BatchServer) -> None:
    dataset, folders = of_eight
    shapes: list[dict[str, Any]] = [
        {"content": [{"type": "text", "text": "Red."}]},
        {"content": None, "refusal": "Never."},
    ]
    messages = iter(shapes)
    server.choice = lambda body: {"message": {"role": "assistant", **next(messages, {"content": "Red."})}}
    report = ask(dataset, folders, server)
    assert (report.answered, server.sizes) == (8, [8, 1])
    assert {one["hypothesis"] for one in answers(folders)} == {"Red."}


def refusing(*fields: str) -> Callable[[dict[str, Any]], Refusal | dict[str, str]]:
    """A server that refuses the first of these fields that a request has, as OpenAI's does."""

    def limits(body: dict[str, Any]) -> Refusal | dict[str, str]:
        found = next((field for field in fields if field in body), None)
        told = f"Unsupported parameter: '{found}' is not supported with this model."
        return Refusal(400, told, "unsupported_parameter", param=found) if found else {}

    return limits


def test_what_items_are_refused_for_is_left_out_of_the_next_batch(of_eight: Questions, server: BatchServer) -> None:
    dataset, folders = of_eight
    server.limits = refusing("temperature", "max_tokens")
    assert ask(dataset, folders, server).answered == 8
    # Three batches, since each item is refused for one field at a time; every item is answered and paid once.
    assert server.sizes == [8, 8, 8]
    plain, second, last = (server.lines(number)[0]["body"].keys() for number in range(3))
    assert (plain - second, second - plain) == ({"temperature"}, set())
    assert (second - last, last - second) == ({"max_tokens"}, {"max_completion_tokens"})
    assert set(server.paid.values()) == {1}
    notes = [
        "the server refuses temperature: it is not sent",
        "the server refuses max_tokens: the limit is sent as max_completion_tokens",
    ]
    assert [one["asked"]["deviations"] for one in answers(folders)] == [notes] * 8


def test_a_run_that_ended_after_a_refusal_goes_on_without_the_field(of_eight: Questions, server: BatchServer) -> None:
    dataset, folders = of_eight
    server.limits = refusing("temperature")
    server.outcomes.extend(["completed", "cancelled"])
    with pytest.raises(BatchCancelledError):
        ask(dataset, folders, server)
    assert ask(dataset, folders, server).answered == 8
    assert server.sizes == [8, 8, 4]
    assert {line["body"].get("temperature") for line in server.lines(2)} == {None}
    assert set(server.paid.values()) == {1}
    assert all(len(one["asked"]["deviations"]) == 1 for one in answers(folders))


def test_an_option_of_the_user_that_items_are_refused_for_ends_the_run(
    of_eight: Questions, server: BatchServer
) -> None:
    dataset, folders = of_eight
    server.limits = refusing("reasoning_effort")
    chosen = ModelOptions(server.url, max_attempts=3, max_wait_s=0.01, reasoning_effort="low")
    with pytest.raises(FatalModelError, match="Leave out --reasoning-effort"):
        ask(dataset, folders, server, model_options=chosen)
    assert server.sizes == [8]


def test_a_refusal_that_stays_fails_each_item_once(of_eight: Questions, server: BatchServer) -> None:
    dataset, folders = of_eight
    told = Refusal(400, "Unsupported value: 'temperature' does not support 0.", param="temperature")
    server.limits = lambda body: told
    assert ask(dataset, folders, server).failed == 8
    assert server.sizes == [8, 8]
