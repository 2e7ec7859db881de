"""Numbers of a server that cannot be meant, stored ones too, and clocks that are set: nothing waits for long."""

import asyncio
import logging
import re
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest
from starlette.requests import Request
from starlette.responses import Response

from longmemeval.core import http
from longmemeval.errors import EndpointDownError
from longmemeval.llm import rates
from longmemeval.llm.options import ModelOptions
from longmemeval.llm.rates import Rate, RateLimiter, RateLimits, RateState
from longmemeval.llm.registry import load_batch_endpoint
from tests.batch_server import BatchServer
from tests.clock import Clock
from tests.llm.rates.test_gate import ask
from tests.server import ModelServer, Refusal


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789abcdef")
    monkeypatch.setattr(http, "_ignored", set())
    monkeypatch.setattr(http, "_waits", {})


class Wall:
    """A clock on the wall that anybody may set; waiting takes no time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = time.time()
        self.waited = 0.0
        monkeypatch.setattr(rates, "time", SimpleNamespace(time=lambda: self.now, sleep=self._sleep))

    def _sleep(self, seconds: float) -> None:
        self.now += seconds
        self.waited += seconds
        assert self.waited < 300, "this hangs"


@pytest.fixture
def wall(monkeypatch: pytest.MonkeyPatch) -> Wall:
    return Wall(monkeypatch)


def state(path: Path) -> RateState:
    return msgspec.json.decode(path.read_bytes(), type=RateState)


SAME_PROCESS: list[Callable[[RateLimiter, Path], RateLimiter]] = [
    lambda before, path: before,
    lambda before, path: RateLimiter(before._rate, path),
]


@pytest.mark.parametrize("after", SAME_PROCESS, ids=["the same command", "the next command"])
@pytest.mark.parametrize("set_by", [-3600.0, -60.0, 3600.0, 1e9])
def test_a_clock_that_is_set_lengthens_no_pause(
    wall: Wall, tmp_path: Path, set_by: float, after: Callable[[RateLimiter, Path], RateLimiter]
) -> None:
    gate = RateLimiter(Rate(), tmp_path / "m.json")
    gate.turn_blocking()
    gate.refuse(2.0)
    wall.now += set_by
    after(gate, tmp_path / "m.json").turn_blocking()
    assert wall.waited <= 2.0


@pytest.mark.parametrize("path", [None, "m.json"])
def test_a_clock_that_is_set_back_does_not_count_what_is_to_come(wall: Wall, tmp_path: Path, path: str | None) -> None:
    gate = RateLimiter(Rate(rpm=60), tmp_path / path if path else None)
    for _ in range(120):
        gate.turn_blocking()
    before, wall.now = wall.waited, wall.now - 3600
    for _ in range(60):
        gate.turn_blocking()
    # As many as the limit lets through, in the same time as ever.
    assert 50 < wall.waited - before < 70


def test_a_window_that_was_another_does_not_hold_calls(wall: Wall, tmp_path: Path) -> None:
    fast = RateLimiter(Rate(rpm=6000, window=1.0), tmp_path / "m.json")
    for _ in range(100):
        fast.turn_blocking()
    before, slow = wall.waited, RateLimiter(Rate(rpm=60), tmp_path / "m.json")
    for _ in range(30):
        slow.turn_blocking()
    assert wall.waited - before < 40


@pytest.mark.parametrize("until", [1e9, 3600.0, 1e300])
def test_an_absurd_pause_that_an_earlier_version_stored_is_ignored(wall: Wall, tmp_path: Path, until: float) -> None:
    path = tmp_path / "m.json"
    path.write_bytes(msgspec.json.encode(RateState(paused_until=wall.now + until)))
    gate = RateLimiter(Rate(), path)
    gate.turn_blocking()
    assert wall.waited == 0.0
    gate.refuse(2.0)
    gate.turn_blocking()
    assert wall.waited == pytest.approx(2.0, abs=0.2)
    assert state(path).paused_until < wall.now + 10


def test_an_absurd_limit_that_an_earlier_version_stored_holds_for_minutes_at_most(wall: Wall, tmp_path: Path) -> None:
    path = tmp_path / "m.json"
    stored = RateState(from_headers={"tokens": 1.0})
    stored.tokens.paid_until = wall.now + 1e9
    path.write_bytes(msgspec.json.encode(stored))
    gate = RateLimiter(Rate(), path)
    gate.turn_blocking(rates.TokenEstimate(500, 100)).answered(500, 2)
    for _ in range(20):
        gate.turn_blocking(rates.TokenEstimate(500, 100)).answered(500, 2)
    assert wall.waited < 200
    assert state(path).from_headers == {}


def test_minutes_at_most_are_stored(wall: Wall, tmp_path: Path) -> None:
    gate = RateLimiter(Rate(), tmp_path / "m.json")
    gate.turn_blocking().refused(3000.0, 3600.0)
    assert 100 < state(tmp_path / "m.json").paused_until - wall.now <= 180
    assert http.current_wait() == ""


def test_a_wait_that_ends_the_command_holds_no_other(clock: Clock, tmp_path: Path) -> None:
    with ModelServer() as server:
        options = ModelOptions(server.url, give_up_after_s=12.0, rates=RateLimits(folder=tmp_path))
        ask(options, 1)
        server.faults.append(Refusal(429, "come back later", retry_after="100"))
        with pytest.raises(EndpointDownError, match="come back later"):
            ask(options, 1, clock)
        (path,) = tmp_path.glob("*.json")
        assert state(path).paused_until <= clock.monotonic() - time.monotonic() + time.time()
        began = clock.monotonic()
        assert len(ask(options, 3, clock)) == 3
        assert clock.monotonic() - began < 5


@pytest.mark.parametrize("value", ["inf", "nan", "1e9", "99999999", "Thu, 31 Dec 2099 23:59:59 GMT", "soon", "-5"])
def test_an_absurd_wait_is_not_waited_for(
    clock: Clock, tmp_path: Path, value: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, http.__name__)
    with ModelServer() as server:
        options = ModelOptions(server.url, give_up_after_s=12.0, rates=RateLimits(folder=tmp_path))
        ask(options, 1)
        server.faults.extend([Refusal(429, retry_after=value)] * 2)
        began = clock.monotonic()
        assert [reply.text for reply in ask(options, 3, clock)] == ["A fixed reply."] * 3
        assert clock.monotonic() - began < 12
    assert len([text for text in caplog.messages if repr(value) in text]) == (value != "-5")


@pytest.mark.parametrize(
    "headers",
    [
        {"limit": "0", "remaining": "0"},
        {"limit": "-1", "remaining": "-1"},
        {"limit": "1e18", "remaining": "5"},
        {"limit": "1e18", "remaining": "1e18"},
        {"limit": "nan", "remaining": "nan"},
        {"limit": "1e-9", "remaining": "0"},
        {"limit": "1000", "remaining": "0"},
        {"limit": "1000", "remaining": "-1"},
    ],
)
@pytest.mark.parametrize("kind", ["requests", "tokens"])
def test_an_absurd_limit_does_not_hold_calls(
    clock: Clock, tmp_path: Path, kind: str, headers: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    """What is left may be 0 once: after a minute it is not believed."""
    caplog.set_level(logging.WARNING, http.__name__)
    with ModelServer() as server:
        server.limits = lambda body: {f"x-ratelimit-{what}-{kind}": value for what, value in headers.items()}
        options = ModelOptions(server.url, rates=RateLimits(folder=tmp_path))
        began = clock.monotonic()
        for _ in range(4):
            ask(options, 5, clock)
        assert clock.monotonic() - began < 140
    assert len(set(caplog.messages)) == len(caplog.messages)
    assert re.search("not plausible", caplog.text)


def test_a_limit_of_one_token_is_disproved_by_the_reply(clock: Clock, tmp_path: Path) -> None:
    with ModelServer() as server:
        server.limits = lambda body: {"x-ratelimit-limit-tokens": "1", "x-ratelimit-remaining-tokens": "1"}
        options = ModelOptions(server.url, rates=RateLimits(folder=tmp_path))
        began = clock.monotonic()
        for _ in range(3):
            ask(options, 5, clock)
        assert clock.monotonic() - began < 10


def test_a_batch_that_its_server_puts_off_for_a_day_ends_the_command() -> None:
    class Busy(BatchServer):
        async def _look(self, request: Request) -> Response:
            return Refusal(429, "Polls per day: 9. Please try again in 7h12m.", retry_after="25920").response()

    with Busy() as server:
        endpoint, _ = load_batch_endpoint("openai/gpt-4o", ModelOptions(server.url))
        with pytest.raises(EndpointDownError, match=r"asks to wait 7 h 12 min.*try again in 7h12m"):
            asyncio.run(endpoint.status("batch"))
