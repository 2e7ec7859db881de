"""A dead endpoint is found out, probed, and given up in time; one bad request is not taken for it."""

import asyncio
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from types import SimpleNamespace

import pytest
from msgspec import structs

from longmemeval.errors import EndpointDownError, HarnessError, ModelError, TransientModelError
from longmemeval.llm.http import client as calling
from longmemeval.llm.http import errors as breaker_module
from longmemeval.llm.http.errors import FIRST_CONTACT_S, OPENS_AFTER, Breaker, call_with_retries
from longmemeval.llm.options import ModelOptions
from longmemeval.llm.protocol import ChatMessage, ChatReply, ChatRequest, LimitedChatModel
from longmemeval.llm.registry import load_chat_model
from tests.clock import Clock
from tests.server import Fault, ModelServer, Refusal, black_hole, nobody

Outcome = ChatReply | BaseException


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer(lambda body: f"reply to {body['messages'][0]['content']}") as running:
        yield running


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789abcdef")


def ask(clock: Clock, url: str, count: int, *, concurrency: int = 16, **patience: object) -> list[Outcome]:
    """`count` calls, as many under way at once as `concurrency` says; they end with the first dead endpoint.

    The seconds of patience are jumped over: a busy machine is no dead endpoint.
    """
    options = structs.replace(ModelOptions(url, timeout_s=20.0, max_wait_s=0.05, give_up_after_s=40.0), **patience)
    model = LimitedChatModel(load_chat_model("openai/m", options), concurrency)

    async def one(number: int) -> ChatReply:
        return await model.complete(ChatRequest((ChatMessage("user", str(number)),), max_tokens=5))

    async def all_of_them() -> list[Outcome]:
        return await asyncio.gather(*(one(number) for number in range(count)), return_exceptions=True)

    return clock.run(all_of_them())


@pytest.mark.slow
@pytest.mark.parametrize("dead", [nobody, black_hole])
def test_nobody_there(clock: Clock, dead: Callable[[], str] | Callable[[], AbstractContextManager[str]]) -> None:
    place = dead()
    if dead is black_hole:
        clock.until_connecting()
    with nullcontext(place) if isinstance(place, str) else place as url:
        outcomes = ask(clock, url, 100, timeout_s=1.0, give_up_after_s=2.0)
    assert {type(one) for one in outcomes} == {EndpointDownError}
    assert url in str(outcomes[0])
    assert "No connection could be made" in str(outcomes[0])
    assert "--give-up-after" in str(outcomes[0])


@pytest.mark.slow
@pytest.mark.parametrize("url", [nobody(), "http://nowhere.invalid/v1"], ids=["refused", "no such name"])
@pytest.mark.parametrize("concurrency", [1, 16])
def test_where_nobody_was_ever_reached_nobody_waits_for_long(clock: Clock, url: str, concurrency: int) -> None:
    began = clock.monotonic()
    outcomes = ask(clock, url, 30, concurrency=concurrency, give_up_after_s=3600.0)
    assert FIRST_CONTACT_S <= clock.monotonic() - began < 1800
    # Alone, the first call is given up; it may have been at fault by itself.
    assert {type(one) for one in outcomes[1:]} == {EndpointDownError}
    assert "cannot be reached" in str(outcomes[-1])
    assert "Check the network, the address (--api-base)" in str(outcomes[-1])


@pytest.mark.slow
@pytest.mark.parametrize("before", ["answers", 503])
def test_an_outage_on_the_way_has_all_of_the_patience(clock: Clock, before: str | int) -> None:
    patience = 8 * FIRST_CONTACT_S

    async def work() -> list[Outcome]:
        with ModelServer(lambda body: "yes") as server:
            options = ModelOptions(server.url, max_wait_s=0.05, give_up_after_s=patience)
            model = load_chat_model("openai/m", options)
            request = ChatRequest((ChatMessage("user", "?"),), max_tokens=5)
            server.plan = lambda: 503 if before == 503 else None
            await asyncio.gather(model.complete(request), return_exceptions=True)
        calls = (model.complete(request) for _ in range(20))
        return await asyncio.gather(*calls, return_exceptions=True)

    began = clock.monotonic()
    outcomes = clock.run(work())
    assert clock.monotonic() - began >= patience
    assert any("has failed every call" in str(one) for one in outcomes)


@pytest.mark.variants
@pytest.mark.parametrize("fault", [500, 429, "drop", "garbage", "hang"])
def test_nothing_but_failures(clock: Clock, server: ModelServer, fault: Fault) -> None:
    server.plan = lambda: fault
    if fault == "hang":
        clock.unanswered(server)
    outcomes = ask(clock, server.url, 100)
    assert 40 <= int(re.findall(r"for (\d+) s", str(outcomes[0]))[0]) < 400
    assert all(isinstance(one, EndpointDownError) and one.exit_code == 1 for one in outcomes)
    # One attempt of each call under way, then probes; not six for each of the hundred.
    assert len(server.chat_requests) < 16 + 20


def test_the_time_runs_out_just_after_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether it was counted just before or just after, the endpoint is dead, not the request at fault."""
    now = 0.0
    monkeypatch.setattr(breaker_module, "time", SimpleNamespace(monotonic=lambda: now))
    breaker = Breaker("here", 0.2)

    async def attempt(call: object) -> None:
        async with breaker.passage(call):
            raise TransientModelError("refused")

    async def attempt_and_be_slow(call: object) -> None:
        nonlocal now
        try:
            await attempt(call)
        finally:
            now = 0.21

    async def calls() -> None:
        nonlocal now
        for number in range(OPENS_AFTER):
            with pytest.raises(TransientModelError):
                await attempt(number)
        now = 0.19
        await call_with_retries(lambda: attempt_and_be_slow("one"), max_attempts=6, max_wait_s=0.0, breaker=breaker)

    with pytest.raises(EndpointDownError):
        asyncio.run(calls())


def test_what_the_endpoint_said_is_told(clock: Clock, server: ModelServer) -> None:
    server.plan = lambda: Refusal(503, "closed for the night")
    (outcome, *_) = ask(clock, server.url, 20)
    assert "closed for the night" in str(outcome)
    assert "attempts in a row" in str(outcome)


def test_an_endpoint_that_comes_back_costs_no_call(clock: Clock, server: ModelServer) -> None:
    server.plan = lambda: 500 if len(server.chat_requests) <= 16 + 4 else None
    # No call is tried again before the others have failed too, however slow the machine is.
    outcomes = ask(clock, server.url, 60, max_attempts=2, max_wait_s=2.0)
    assert [one.text for one in outcomes if isinstance(one, ChatReply)] == [f"reply to {one}" for one in range(60)]


def test_an_endpoint_that_comes_back_while_a_probe_hangs(clock: Clock, server: ModelServer) -> None:
    probes_hang_until = 16 + 2
    server.plan = lambda: "hang" if len(server.chat_requests) <= probes_hang_until else None
    clock.unanswered(server, probes_hang_until)
    outcomes = ask(clock, server.url, 40, give_up_after_s=60.0)
    assert all(isinstance(one, ChatReply) for one in outcomes)


def test_one_bad_request_among_good_ones_ends_nothing(clock: Clock, server: ModelServer) -> None:
    def refuse_seven(body: dict[str, object]) -> str:
        if "'7'" in str(body["messages"]):
            raise RuntimeError("a request that kills its worker")
        return "fine"

    server.responder = refuse_seven
    outcomes = ask(clock, server.url, 30, concurrency=4, max_attempts=30, give_up_after_s=0.3)
    failed = [number for number, one in enumerate(outcomes) if isinstance(one, BaseException)]
    assert failed == [7]
    assert isinstance(outcomes[7], TransientModelError)


@pytest.mark.parametrize("give_up_after_s", [0.2, 60.0])
def test_one_bad_request_asked_alone_fails_by_itself(clock: Clock, server: ModelServer, give_up_after_s: float) -> None:
    """One call at a time: nothing else succeeds while it is tried, and still the next one has its chance."""
    server.faults.extend([500] * 2 * OPENS_AFTER)
    patience = {"max_attempts": 2 * OPENS_AFTER, "max_wait_s": 0.03, "give_up_after_s": give_up_after_s}
    first, second = ask(clock, server.url, 2, concurrency=1, **patience)
    assert isinstance(first, ModelError)
    if give_up_after_s > 1:
        assert isinstance(second, ChatReply)


def test_refusals_show_that_the_endpoint_is_alive(clock: Clock, server: ModelServer) -> None:
    server.plan = lambda: 400
    outcomes = ask(clock, server.url, 40, give_up_after_s=0.05)
    assert {type(one) for one in outcomes} == {ModelError}


def test_a_wait_that_the_server_asks_for_is_kept(clock: Clock, server: ModelServer) -> None:
    server.faults.extend([Refusal(429, retry_after="40")] * OPENS_AFTER)
    began = clock.monotonic()
    outcomes = ask(clock, server.url, 12, concurrency=12, give_up_after_s=40.0)
    assert all(isinstance(one, ChatReply) for one in outcomes)
    assert clock.monotonic() - began >= 40


def test_a_longer_wait_than_the_user_allows_ends_the_calls(clock: Clock, server: ModelServer) -> None:
    server.plan = lambda: Refusal(429, "Requests per day: 200. Please try again in 7h12m.", retry_after="25920")
    began = clock.monotonic()
    outcomes = ask(clock, server.url, 3, give_up_after_s=40.0)
    assert {type(one) for one in outcomes} == {EndpointDownError}
    assert "Requests per day: 200. Please try again in 7h12m" in str(outcomes[0])
    assert re.search(r"asks to wait 7 h 12 min.*40 s.*--give-up-after 25920", str(outcomes[0]))
    assert len(server.chat_requests) <= 3
    assert clock.monotonic() - began < 40


def test_who_allows_so_long_a_wait_gets_it(clock: Clock, server: ModelServer) -> None:
    server.faults.append(Refusal(429, retry_after="25920"))
    began = clock.monotonic()
    (outcome,) = ask(clock, server.url, 1, give_up_after_s=25920.0)
    assert isinstance(outcome, ChatReply)
    assert clock.monotonic() - began >= 25920


def test_a_call_that_is_cancelled_leaves_its_place_as_probe(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.plan = lambda: 500
    breaker = Breaker("here", 30.0)
    monkeypatch.setattr(calling, "Breaker", lambda *_: breaker)
    model = load_chat_model("openai/m", ModelOptions(server.url, max_wait_s=0.05))

    async def reached(condition: Callable[[], bool]) -> None:
        while not condition():
            await asyncio.sleep(0.01)

    async def calls() -> list[Outcome]:
        tasks = [
            asyncio.create_task(model.complete(ChatRequest((ChatMessage("user", str(number)),), max_tokens=5)))
            for number in range(12)
        ]
        await reached(lambda: breaker.is_open and not breaker._sent)  # From now on there are only probes.
        server.plan = lambda: "hang"
        before = len(server.chat_requests)
        await reached(lambda: len(server.chat_requests) > before)
        server.plan = lambda: None
        tasks[int(server.chat_requests[before].body["messages"][0]["content"])].cancel()
        return await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 120)

    outcomes = asyncio.run(calls())
    assert [type(one) for one in outcomes].count(asyncio.CancelledError) == 1
    assert [isinstance(one, ChatReply) for one in outcomes].count(True) == 11


def test_the_key_is_in_no_message(clock: Clock, server: ModelServer) -> None:
    server.plan = lambda: Refusal(500, "you sent sk-test-0123456789abcdef")
    (outcome, *_) = ask(clock, server.url, 20, give_up_after_s=0.3)
    assert isinstance(outcome, HarnessError)
    assert "0123456789abcdef" not in str(outcome)
