"""The client against a real server, both ways: what is sent, what comes back, what is tried again."""

import asyncio
import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from threading import Barrier, Thread
from typing import Any

import msgspec
import pytest

from longmemeval.errors import ContextOverflowError, FatalModelError, HarnessError, ModelError, TransientModelError
from longmemeval.llm.http import direct
from longmemeval.llm.litellm_package import load_litellm
from longmemeval.llm.options import ModelOptions
from longmemeval.llm.protocol import ChatMessage, ChatReply, ChatRequest
from longmemeval.llm.registry import load_chat_model
from longmemeval.records import Usage
from tests.clock import Clock
from tests.server import Fault, ModelServer, Refusal

KEY = "sk-proj-4f9AbCdEfGh1234567890KlMnOp"
REQUEST = ChatRequest(
    (ChatMessage("system", "Be short."), ChatMessage("user", "What is my dog called?")),
    max_tokens=17,
    temperature=0.0,
    question_id="e47becba_abs",
    question="What is my dog called?",
    passages=("My dog is called Rex.",),
)


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as running:
        yield running


@pytest.fixture(autouse=True, params=["direct", "litellm"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each test holds for both ways to a model; its name for those that hold for one."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    if request.param == "litellm":
        monkeypatch.setattr(direct, "_direct_way", lambda spec, destination: None)
    return str(request.param)


only_litellm = pytest.mark.parametrize("way", ["litellm"], indirect=True)


def ask(
    server: ModelServer, spec: str = "openai/gpt-4o", *, timeout_s: float = 10.0, max_attempts: int = 3
) -> ChatReply:
    options = ModelOptions(server.url, timeout_s=timeout_s, max_attempts=max_attempts, max_wait_s=0.02)
    return asyncio.run(load_chat_model(spec, options).complete(REQUEST))


def failure(server: ModelServer, *faults: Fault, timeout_s: float = 10.0, max_attempts: int = 3) -> HarnessError:
    server.faults.extend(faults)
    with pytest.raises(HarnessError) as caught:
        ask(server, timeout_s=timeout_s, max_attempts=max_attempts)
    return caught.value


def test_reply_carries_text_usage_and_price(server: ModelServer) -> None:
    reply = ask(server)
    assert reply.text == "A fixed reply."
    assert reply.finish_reason == "stop"
    assert reply.attempts == 1
    assert (reply.latency_ms or 0.0) > 0
    # 7 words in, 3 out; gpt-4o costs 2.50 and 10 dollars per million tokens.
    assert reply.usage.cost_usd == pytest.approx(7 * 2.5e-6 + 3 * 10e-6)
    assert reply.usage == Usage(calls=1, prompt_tokens=7, completion_tokens=3, cost_usd=reply.usage.cost_usd)


def test_cost_is_the_tables_whatever_a_proxy_says(server: ModelServer) -> None:
    server.headers["x-litellm-response-cost"] = "9.99"
    assert ask(server).usage.cost_usd == pytest.approx(7 * 2.5e-6 + 3 * 10e-6)


@only_litellm
def test_cost_is_not_worked_out_twice(server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(**arguments: object) -> float:
        raise AssertionError("worked out again")

    monkeypatch.setattr(load_litellm(), "completion_cost", never)
    assert ask(server).usage.cost_usd == pytest.approx(7 * 2.5e-6 + 3 * 10e-6)


@only_litellm
@pytest.mark.parametrize("registered", [True, False])
def test_litellm_writes_its_log_only_for_listeners(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch, *, registered: bool
) -> None:
    litellm: Any = load_litellm()
    made = list[str]()
    log = litellm.litellm_core_utils.litellm_logging
    payload = log.get_standard_logging_object_payload
    # LiteLLM carries entries of an earlier event loop over into this one; only those of this call count here.
    mark = f"Does somebody listen? {registered}"

    def counted(*arguments: object, **named: object) -> object:
        made.extend(["entry"] if mark in f"{arguments} {named}" else [])
        return payload(*arguments, **named)

    async def ask_and_listen() -> ChatReply:
        heard = asyncio.Event()

        async def listener(kwargs: dict[str, Any], *rest: object) -> None:
            if kwargs["model"] == "gpt-4o":
                heard.set()

        monkeypatch.setattr(litellm, "success_callback", [listener] if registered else [])
        monkeypatch.setattr(litellm, "_async_success_callback", [])
        request = msgspec.structs.replace(REQUEST, messages=(ChatMessage("user", mark),))
        reply = await load_chat_model("openai/gpt-4o", ModelOptions(server.url)).complete(request)
        if registered:
            await asyncio.wait_for(heard.wait(), 30)
        else:
            await litellm.litellm_core_utils.logging_worker.GLOBAL_LOGGING_WORKER.flush()
        return reply

    monkeypatch.setattr(log, "get_standard_logging_object_payload", counted)
    assert asyncio.run(ask_and_listen()).usage.cost_usd
    assert bool(made) == registered


def test_model_without_a_price_is_counted_as_unpriced(server: ModelServer) -> None:
    assert ask(server, "openai/my-own-llama").usage == Usage(
        calls=1, prompt_tokens=7, completion_tokens=3, cost_usd=0.0, unpriced_calls=1
    )


def tokens(*counts: object) -> dict[str, Any]:
    return dict(zip(("prompt_tokens", "completion_tokens", "total_tokens"), counts, strict=False))


PROMPT = 20  # nine tokens of text, and eleven around two messages


@pytest.mark.parametrize(
    ("usage", "prompt", "completion"),
    [
        pytest.param(..., PROMPT, 4, id="absent"),
        pytest.param(None, PROMPT, 4, id="null"),
        pytest.param({}, PROMPT, 4, id="empty"),
        pytest.param(tokens(None, None, None), PROMPT, 4, id="nulls"),
        pytest.param(tokens(0, 0, 0), PROMPT, 4, id="zeros"),
        pytest.param(tokens(None, 9), PROMPT, 9, id="prompt null"),
        pytest.param(tokens(30, None), 30, 4, id="reply null"),
        pytest.param(tokens(30, 0, 30), 30, 4, id="reply zero"),
        pytest.param(tokens(30, None, 90), 30, 60, id="reply in the total"),
        pytest.param(tokens(None, 9, 39), 30, 9, id="prompt in the total"),
        pytest.param(tokens(None, None, 90), PROMPT, 70, id="total alone"),
    ],
)
def test_tokens_that_the_server_does_not_count_are_counted_here(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch, usage: object, prompt: int, completion: int
) -> None:
    assert_counted(server, monkeypatch, usage, prompt, completion)


@pytest.mark.parametrize("way", ["direct"], indirect=True)
@pytest.mark.parametrize(
    "usage", ["none", [1], tokens(-5, -1, -6), tokens("many", "few"), tokens({}, []), {"prompt_tokens_details": []}]
)
def test_a_usage_that_is_none_is_not_believed(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch, usage: object
) -> None:
    assert_counted(server, monkeypatch, usage, PROMPT, 4)


def assert_counted(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch, usage: object, prompt: int, completion: int
) -> None:
    whole = server.completion

    def spoilt(*given: Any) -> dict[str, Any]:
        document = whole(*given)
        return {k: v for k, v in (document | {"usage": usage}).items() if v is not ...}

    monkeypatch.setattr(server, "completion", spoilt)
    # Dollars for a million tokens of gpt-4o: 2.50 and 10.
    found = ask(server).usage
    assert found == Usage(1, 0, prompt, completion, found.cost_usd, 0, 1)
    assert found.cost_usd == pytest.approx((2.5 * prompt + 10 * completion) / 1e6)
    unpriced = ask(server, "openai/my-own-llama").usage
    assert (unpriced.dollars, unpriced.estimated_calls, unpriced.has_tokens) == (None, 1, True)


@pytest.mark.parametrize("way", ["direct"], indirect=True)
@pytest.mark.parametrize("usage", [tokens(30, 9, 39), tokens("30", "9"), tokens(30.0, 9.0, None)])
def test_tokens_that_the_server_counts_are_its_own(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch, usage: dict[str, Any]
) -> None:
    whole = server.completion
    monkeypatch.setattr(server, "completion", lambda *given: whole(*given) | {"usage": usage})
    found = ask(server).usage
    assert found == Usage(1, 0, 30, 9, found.cost_usd)
    assert found.cost_usd == pytest.approx((75 + 90) / 1e6)
    assert b"estimated" not in msgspec.json.encode(found)


def test_request_holds_the_allowed_fields_only(server: ModelServer) -> None:
    ask(server)
    assert [request.body for request in server.chat_requests] == [
        {
            "model": "gpt-4o",
            "messages": [
                {"role": "system", "content": "Be short."},
                {"role": "user", "content": "What is my dog called?"},
            ],
            "temperature": 0.0,
            "max_tokens": 17,
            "n": 1,
        }
    ]


def test_neither_question_id_nor_passages_leave_the_process(server: ModelServer) -> None:
    ask(server)
    [request] = server.requests
    sent = f"{request.path} {request.headers} {request.body}"
    assert "e47becba" not in sent
    assert "Rex" not in sent


@pytest.mark.parametrize("spec", ["openai/x", "lm_studio/x", "hosted_vllm/x", "custom_openai/x"])
def test_served_model_is_what_the_server_said(server: ModelServer, spec: str) -> None:
    server.served_model = "Meta-Llama/Llama-3.1-70B-Instruct"
    assert ask(server, spec).served_model == "Meta-Llama/Llama-3.1-70B-Instruct"


def test_reasoning_model_is_called_without_a_temperature(server: ModelServer) -> None:
    ask(server, "openai/o3")
    [request] = server.chat_requests
    assert set(request.body) == {"model", "messages", "max_completion_tokens", "n"}


def test_key_of_the_environment_is_sent(server: ModelServer) -> None:
    ask(server)
    assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"


def test_own_endpoint_needs_no_key(server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    assert ask(server).text == "A fixed reply."
    assert KEY not in server.requests[0].headers["authorization"]


@pytest.mark.parametrize("fault", ["no-choices", "null-content", "empty"])
def test_an_empty_reply_is_tried_again_and_every_reply_is_paid_for(server: ModelServer, fault: str) -> None:
    server.faults.append(fault)
    reply = ask(server)
    assert (reply.text, reply.finish_reason, reply.attempts) == ("A fixed reply.", "stop", 2)
    assert reply.usage.calls == 2
    assert reply.usage.prompt_tokens == 2 * 7


@pytest.mark.parametrize(
    ("fault", "finish_reason", "attempts"),
    # What ran out of tokens does so again as a rule, and is billed in full each time; so is a reply without choices.
    [("no-choices", "", 3), ("empty", "stop", 5), ("null-content", "length", 2)],
)
def test_what_stays_empty_is_returned_with_its_reason(
    server: ModelServer, fault: str, finish_reason: str, attempts: int
) -> None:
    server.plan = lambda: fault
    reply = ask(server, max_attempts=5)
    assert (reply.text, reply.finish_reason, reply.attempts) == ("", finish_reason, attempts)
    assert reply.usage.calls == len(server.chat_requests) == attempts


@pytest.mark.parametrize("fault", [408, 409, 429, 500, 502, 503, 504, 529, "drop", "garbage"])
def test_passing_trouble_is_tried_again(server: ModelServer, fault: Fault) -> None:
    server.faults.extend([fault, fault])
    reply = ask(server)
    assert (reply.text, reply.attempts) == ("A fixed reply.", 3)
    assert len(server.chat_requests) == 3


def test_retry_after_in_seconds_is_waited_for(server: ModelServer, clock: Clock) -> None:
    server.faults.append(Refusal(429, retry_after="60"))
    began = clock.monotonic()
    reply = clock.run(load_chat_model("openai/gpt-4o", ModelOptions(server.url)).complete(REQUEST))
    assert clock.monotonic() - began >= 60
    assert (reply.latency_ms or 0.0) >= 60_000
    assert reply.attempts == 2


def test_retry_after_as_a_date_is_waited_for(server: ModelServer, clock: Clock) -> None:
    date = datetime.now(UTC).replace(microsecond=0) + timedelta(minutes=2)
    server.faults.append(Refusal(503, retry_after=format_datetime(date, usegmt=True)))
    began = clock.monotonic()
    reply = clock.run(load_chat_model("openai/gpt-4o", ModelOptions(server.url)).complete(REQUEST))
    assert reply.attempts == 2
    assert clock.monotonic() - began >= 60


def test_attempts_are_bounded(server: ModelServer) -> None:
    error = failure(server, *[500] * 9)
    assert isinstance(error, TransientModelError)
    assert "attempts: 3" in str(error)
    assert len(server.chat_requests) == 3


def test_slow_server_runs_into_the_time_out(server: ModelServer, clock: Clock) -> None:
    server.plan = lambda: "hang"
    clock.unanswered(server)
    model = load_chat_model("openai/gpt-4o", ModelOptions(server.url, timeout_s=100.0, max_attempts=2))
    with pytest.raises(TransientModelError) as caught:
        clock.run(model.complete(REQUEST))
    error = caught.value
    assert "in time" in str(error)
    assert len(server.chat_requests) == 2


def test_nobody_at_the_endpoint() -> None:
    with ModelServer() as gone:
        pass
    error = failure(gone)
    assert isinstance(error, TransientModelError)
    assert gone.url in str(error)


@pytest.mark.parametrize("status", [401, 402, 403, 404])
def test_refused_access_stops_the_run_at_once(server: ModelServer, status: int) -> None:
    error = failure(server, Refusal(status, f"Incorrect API key provided: {KEY}; or was it sk-other-98765?"))
    assert isinstance(error, FatalModelError)
    assert str(status) in str(error)
    assert "Incorrect API key" in str(error)
    assert KEY not in str(error)
    assert "98765" not in str(error)
    assert len(server.chat_requests) == 1


def test_key_shows_in_no_traceback(server: ModelServer) -> None:
    error = failure(server, Refusal(401, f"Incorrect API key provided: {KEY}"))
    assert error.__cause__ is None
    assert error.__suppress_context__


def test_empty_account_is_no_rate_limit(server: ModelServer) -> None:
    error = failure(server, Refusal(429, "You exceeded your current quota", code="insufficient_quota"))
    assert isinstance(error, FatalModelError)
    assert len(server.chat_requests) == 1


@pytest.mark.parametrize(
    "fault",
    [
        400,
        413,
        422,
        Refusal(400, "maximum context length is 128000 tokens", code="context_length_exceeded"),
        Refusal(400, "rejected by the content filter", code="content_policy_violation"),
    ],
)
def test_request_that_cannot_be_answered_fails_alone(server: ModelServer, fault: Fault) -> None:
    error = failure(server, fault)
    too_long = isinstance(fault, Refusal) and fault.code == "context_length_exceeded"
    assert type(error) is (ContextOverflowError if too_long else ModelError)
    assert len(server.chat_requests) == 1
    if isinstance(fault, Refusal):
        assert fault.message in str(error)


def test_many_calls_are_under_way_at_once(server: ModelServer) -> None:
    all_there = Barrier(20)

    def echo(body: dict[str, Any]) -> str:
        all_there.wait(timeout=30)
        return str(body["messages"][0]["content"])

    server.responder = echo
    model = load_chat_model("openai/gpt-4o", ModelOptions(server.url))

    async def run() -> list[ChatReply]:
        calls = [model.complete(ChatRequest((ChatMessage("user", f"number {index}"),), 5)) for index in range(20)]
        return await asyncio.gather(*calls)

    assert [reply.text for reply in asyncio.run(run())] == [f"number {index}" for index in range(20)]


def test_cancelling_passes_through(server: ModelServer) -> None:
    server.faults.append("slow:20")
    model = load_chat_model("openai/gpt-4o", ModelOptions(server.url))

    async def cancel() -> None:
        call = asyncio.create_task(model.complete(REQUEST))
        while not server.chat_requests:
            await asyncio.sleep(0.01)
        call.cancel()
        await call

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(cancel())
    assert len(server.chat_requests) == 1


def test_one_model_serves_several_event_loops_and_threads(server: ModelServer) -> None:
    model = load_chat_model("openai/gpt-4o", ModelOptions(server.url))
    texts: list[str] = []

    def work() -> None:
        texts.extend(asyncio.run(model.complete(REQUEST)).text for _ in range(5))

    threads = [Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert texts == ["A fixed reply."] * 15


@pytest.mark.thorough
def test_a_process_with_several_event_loops_stays_silent(server: ModelServer) -> None:
    script = f"""
import asyncio
from longmemeval.errors import HarnessError
from longmemeval.llm.protocol import ChatMessage, ChatRequest
from longmemeval.llm.registry import load_chat_model
from longmemeval.llm.options import ModelOptions
model = load_chat_model("openai/gpt-4o", ModelOptions({server.url!r}, max_attempts=1))
for _ in range(4):
    try:
        asyncio.run(model.complete(ChatRequest((ChatMessage("user", "hello"),), 5)))
    except HarnessError:
        pass
"""
    server.faults.extend([400, "garbage"])
    done = subprocess.run([sys.executable, "-W", "always", "-c", script], capture_output=True, text=True, timeout=200)
    assert (done.returncode, done.stdout) == (0, "")
    # The interpreter shows every deprecation in every library here; ours are the traces of a loop left in disorder.
    disorder = re.compile("unclosed|never awaited|event loop|Traceback|LiteLLM:")
    assert [line for line in done.stderr.splitlines() if disorder.search(line)] == []
    assert len(server.chat_requests) == 4


@only_litellm
@pytest.mark.parametrize("asked_in_vain", [0, 1])
def test_latency_is_the_servers_and_not_what_is_computed_around_it(
    server: ModelServer, clock: Clock, monkeypatch: pytest.MonkeyPatch, asked_in_vain: int
) -> None:
    """LiteLLM takes 20 seconds before it sends, and 20 for each reply; the server takes 10."""
    litellm = load_litellm()
    plain = litellm.acompletion

    async def slowly(**arguments: Any) -> object:
        clock.jump(20.0)
        try:
            return await plain(**arguments)
        finally:
            clock.jump(20.0)

    def answer(body: dict[str, Any]) -> str:
        clock.jump(10.0)
        return "At last."

    monkeypatch.setattr(litellm, "acompletion", slowly)
    server.responder = answer
    server.faults.extend([500] * asked_in_vain)
    reply = ask(server)
    assert reply.attempts == 1 + asked_in_vain
    assert 10_000 <= (reply.latency_ms or 0.0) < 20_000


@only_litellm
def test_requests_of_a_library_that_connects_otherwise_are_timed_from_outside(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load_litellm(), "disable_aiohttp_transport", True)
    server.faults.append("slow:0.2")
    assert 200 <= (ask(server).latency_ms or 0.0) < 2000
