"""Turns under limits: calls over HTTP, several processes, and what the waiting is not counted as."""

import asyncio
import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from longmemeval.embedding.registry import load_embedder
from longmemeval.errors import EndpointDownError, HarnessError
from longmemeval.llm.options import ModelOptions
from longmemeval.llm.protocol import ChatMessage, ChatReply, ChatRequest
from longmemeval.llm.rates import (
    Rate,
    RateLimits,
    RateState,
    ReportedLimit,
    TokenEstimate,
    gate_for,
    rate_limits,
    read_limits,
    reported_limits,
)
from longmemeval.llm.registry import load_chat_model
from tests.clock import Clock
from tests.forking import start_forked
from tests.llm.rates.limited import Limited
from tests.llm.rates.simulated import SlidingWindow
from tests.server import ModelServer, Refusal
from tests.support import ROOT, clean_environment, longmemeval


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789abcdef")


def ask(options: ModelOptions, count: int, clock: Clock | None = None) -> list[ChatReply]:
    """`count` calls, all under way at once."""
    model = load_chat_model("openai/m", options)

    async def all_of_them() -> list[ChatReply]:
        requests = [ChatRequest((ChatMessage("user", f"question {number}"),), max_tokens=5) for number in range(count)]
        return await asyncio.gather(*map(model.complete, requests))

    return (clock.run if clock else asyncio.run)(all_of_them())


def test_calls_keep_to_the_limit_and_waiting_is_no_latency(clock: Clock, tmp_path: Path) -> None:
    with ModelServer() as server:
        ask(ModelOptions(server.url), 1)
        server.limits = limited = Limited({"requests": SlidingWindow(40, 20.0)}, now=clock.monotonic)
        rates = RateLimits(otherwise=Rate(rpm=120, window=20.0), folder=tmp_path)
        replies = ask(ModelOptions(server.url, rates=rates), 60, clock)
    assert len(limited.let_through) == len(replies) == 60
    # Scripts/benchmarks/limits.py has the figures.
    assert limited.share_refused < 0.1
    waited = limited.let_through[-1][0] - limited.let_through[0][0]
    assert waited > 20.0
    assert sorted(reply.latency_ms or 0.0 for reply in replies)[30] < 1000


_TAKE_TURNS = """
import sys, time
from pathlib import Path
from longmemeval.llm.rates import gate_for
from longmemeval.llm.rates import Rate, RateLimits
folder, name = Path(sys.argv[1]), sys.argv[2]
gate = gate_for("openai/m", "here", "key", RateLimits(otherwise=Rate(rpm=1200), folder=folder))
(folder / f"{name}.ready").touch()
while not (folder / "go").exists():
    time.sleep(0.001)
for _ in range(30):
    gate.turn_blocking()
    with (folder / "turns").open("a") as file:
        file.write(f"{name} {time.time()}\\n")
"""


def test_processes_share_a_limit_evenly(tmp_path: Path) -> None:
    workers = [
        subprocess.Popen([sys.executable, "-c", _TAKE_TURNS, tmp_path, name], env=clean_environment(), cwd=ROOT)
        for name in "ab"
    ]
    while not all((tmp_path / f"{name}.ready").exists() for name in "ab"):
        assert all(worker.poll() is None for worker in workers)
        time.sleep(0.005)
    (tmp_path / "go").touch()
    assert [worker.wait(timeout=200) for worker in workers] == [0, 0]
    turns = [line.split() for line in (tmp_path / "turns").read_text().splitlines()]
    times = [float(at) for _, at in turns]
    assert len(turns) == 60
    # 20 a second, of which one second's worth may be made up for at the start.
    assert times[-1] - times[0] > (60 - 21) / 20 * 0.95
    first = [name for name, _ in turns[21:51]]
    assert 5 <= first.count("a") <= 25


def test_waiting_does_not_count_towards_giving_up(clock: Clock, tmp_path: Path) -> None:
    rates = RateLimits(otherwise=Rate(rpm=12), folder=tmp_path)
    with ModelServer() as server:
        ask(ModelOptions(server.url), 1)
        server.faults.extend([500] * 4)
        # Six calls and four failures take 50 seconds at this rate.
        replies = ask(ModelOptions(server.url, max_wait_s=0.01, give_up_after_s=20.0, rates=rates), 6, clock)
    assert [reply.text for reply in replies] == ["A fixed reply."] * 6


@pytest.mark.parametrize(("retry_after", "rpm"), [("1", None), (None, 60.0), ("1", 60.0)])
def test_waiting_that_the_server_asks_for_counts_towards_giving_up(
    clock: Clock, tmp_path: Path, retry_after: str | None, rpm: float | None
) -> None:
    """Nothing but 429 for longer than that: the calls end, a limit of our own or not."""
    rates = RateLimits(otherwise=Rate(rpm=rpm), folder=tmp_path)
    with ModelServer() as server:
        ask(ModelOptions(server.url), 1)
        server.plan = lambda: Refusal(429, retry_after=retry_after)
        begun = clock.monotonic()
        with pytest.raises(EndpointDownError, match="failed every call"):
            ask(ModelOptions(server.url, give_up_after_s=30.0, rates=rates), 12, clock)
        # Ten failures open the circuit; under the limit they take ten seconds, which do not count.
        assert 30.0 <= clock.monotonic() - begun < 120.0


def test_a_refusal_holds_back_all_calls(clock: Clock, tmp_path: Path) -> None:
    with ModelServer() as server:
        options = ModelOptions(server.url, max_wait_s=0.01, rates=RateLimits(folder=tmp_path))
        ask(options, 1)
        server.faults.append(Refusal(429, retry_after="60"))
        sent: list[float] = []

        def note(body: dict[str, object]) -> dict[str, str]:
            sent.append(clock.monotonic())
            return {}

        server.limits = note

        async def two() -> None:
            model = load_chat_model("openai/m", options)
            first = asyncio.create_task(model.complete(ChatRequest((ChatMessage("user", "first"),), max_tokens=5)))
            while not _pause_in(tmp_path):
                await asyncio.sleep(0.005)
            await model.complete(ChatRequest((ChatMessage("user", "second"),), max_tokens=5))
            await first

        clock.run(two())
    refused, *later = sent
    assert len(later) == 2
    assert min(later) - refused >= 59


def _pause_in(folder: Path) -> bool:
    """Whether the file of a limit says that the server asked for a pause."""
    states = (msgspec.json.decode(file.read_bytes(), type=RateState) for file in folder.glob("*.json"))
    return any(state.paused_until for state in states)


def test_limits_of_headers_reach_other_processes(tmp_path: Path) -> None:
    with ModelServer() as server:
        server.headers = {"x-ratelimit-limit-requests": "600", "x-ratelimit-remaining-requests": "590"}
        ask(ModelOptions(server.url, rates=RateLimits(folder=tmp_path)), 1)
    (file,) = tmp_path.glob("*.json")
    book = json.loads(file.read_bytes())
    assert book["told"] == {"requests": 600.0}
    # Nine calls of others, and one of ours.
    assert sum(book["requests"]["others"].values()) == 0
    assert sum(book["requests"]["used"].values()) == 1


def test_embeddings_wait_too(clock: Clock, tmp_path: Path) -> None:
    rates = RateLimits(otherwise=Rate(rpm=1, window=60.0), folder=tmp_path)
    with ModelServer() as server:
        embedder = load_embedder("openai:m", ModelOptions(server.url, rates=rates))
        began = clock.monotonic()
        for text in "abc":
            embedder.embed([text])
        assert clock.monotonic() - began > 96


def test_each_model_and_key_has_its_own() -> None:
    limits = RateLimits((("openai/gpt-*", Rate(rpm=5)),), Rate(rpm=7))
    assert limits.of("openai/gpt-4o").rpm == 5
    assert limits.of("openai/other").rpm == 7
    same = gate_for("openai/m", "here", "key", limits)
    assert same is gate_for("openai/m", "here", "key", limits)
    others = [("openai/n", "here", "key"), ("openai/m", "there", "key"), ("openai/m", "here", "another")]
    assert all(gate_for(*other, limits) is not same for other in others)


def test_tokens_are_expected_as_replies_have_been() -> None:
    book, rate = RateState(), Rate(tpm=60_000)
    assert book.expected(TokenEstimate(100, 500)) == {"requests": 1.0, "tokens": 600.0}
    for _ in range(100):
        book.answered(0.0, TokenEstimate(100, 500), 600.0, (100, 50), rate)
    assert book.expected(TokenEstimate(100, 500))["tokens"] == pytest.approx(150.0, abs=1.0)


@pytest.mark.parametrize(
    ("headers", "found"),
    [
        ({"x-ratelimit-limit-requests": "500"}, {"requests": ReportedLimit(500)}),
        (
            {"llm_provider-X-RateLimit-Limit-Tokens": "30000", "llm_provider-x-ratelimit-remaining-tokens": "12"},
            {"tokens": ReportedLimit(30000, 12)},
        ),
        (
            {"anthropic-ratelimit-requests-limit": "50", "anthropic-ratelimit-requests-remaining": "49"},
            {"requests": ReportedLimit(50, 49)},
        ),
        ({"x-ratelimit-limit-requests": "many", "retry-after": "1"}, {}),
    ],
)
def test_headers(headers: dict[str, str], found: dict[str, ReportedLimit]) -> None:
    assert reported_limits(headers) == found


def test_file(tmp_path: Path) -> None:
    file = tmp_path / "limits.yaml"
    file.write_text("models:\n  openai/gpt-4o: {rpm: 500, tpm: 30000}\nconcurrency: {judge: 4}\n")
    content = read_limits(file)
    limits = rate_limits(content, rpm=60, tpm=None, folder=None)
    assert limits.of("openai/gpt-4o") == Rate(500, 30000)
    assert limits.of("openai/gpt-4") == Rate(60)
    assert content.concurrency.judge == 4


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("# Ours\nmodels:\n  m:\n    rmp: 5", r"limits\.yaml, line 4: models\.m\.rmp"),
        ("models: {m: {rmp: 5}}", r"Unknown field in a limits file.*models\.m\.rmp.*Did you mean 'rpm'"),
        ("concurency: {}", r"Unknown field in a limits file.*Did you mean 'concurrency'"),
        ("models: {m: {rpm: 0}}", r"greater than 0.*models\.m\.rpm"),
        ("models: [", "is not YAML"),
        ("models:\n  m: {rpm: 5\nconcurrency: {}", r"flow mapping that begins in line 2 .*limits\.yaml, line 3\)"),
        ("- 1", "The value is not valid"),
    ],
)
def test_file_that_is_wrong(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "limits.yaml"
    file.write_text(text)
    with pytest.raises(HarnessError, match=said):
        read_limits(file)


def test_a_book_that_a_killed_process_left_half_written(tmp_path: Path) -> None:
    gate = gate_for("openai/m", "there", "key", RateLimits(otherwise=Rate(rpm=1), folder=tmp_path))
    gate.turn_blocking()
    (file,) = tmp_path.glob("*.json")
    file.write_bytes(file.read_bytes()[:20])
    gate.turn_blocking()


def test_a_used_up_day_ends_the_command_and_holds_no_other(tmp_path: Path) -> None:
    longmemeval("prepare", "-d", "sample", "-m", "bm25", "--sample", "3", cwd=tmp_path)
    with ModelServer() as server:
        words = ["run", "-d", "sample", "-m", "bm25", "--model", "openai/m", "--sample", "3", "--api-base", server.url]
        server.plan = lambda: Refusal(429, "Requests per day: 200. Please try again in 7h12m.")
        told = longmemeval(*words, "--run-id", "r", cwd=tmp_path, code=1, OPENAI_API_KEY="k").stderr
        assert "Requests per day: 200. Please try again in 7h12m" in told
        assert "Rerun the same command in 7 h 12 min (" in told
        assert len(server.chat_requests) <= 3
        server.plan = lambda: None
        assert "3 of 3" in longmemeval(*words, "--resume", "r", cwd=tmp_path, OPENAI_API_KEY="k").stdout


def test_a_wait_is_told_once_where_there_is_no_terminal(tmp_path: Path) -> None:
    longmemeval("prepare", "-d", "sample", "-m", "bm25", "--sample", "3", cwd=tmp_path)
    with ModelServer() as server:
        words = ["run", "-d", "sample", "-m", "bm25", "--model", "openai/m", "--sample", "3", "--api-base", server.url]
        server.faults.append(Refusal(429, retry_after="100"))
        running = start_forked([*words, "--run-id", "r"], tmp_path, clean_environment(OPENAI_API_KEY="k"))
        while not (
            told := re.findall(r"^r: \d of 3.*waiting until \d\d:\d\d:\d\d for openai/m", running.printed(), re.M)
        ):
            assert running.poll() is None, running.communicate()
            time.sleep(0.01)
        assert len(told) == 1
        running.send_signal(signal.SIGINT, group=True)
        running.communicate()


def test_an_interrupt_while_waiting_ends_at_once(tmp_path: Path) -> None:
    longmemeval("prepare", "-d", "sample", "-m", "bm25", "--sample", "3", cwd=tmp_path)
    with ModelServer() as server:
        words = ["run", "-d", "sample", "-m", "bm25", "--model", "openai/m", "--sample", "3", "--run-id", "r"]
        words += ["--api-base", server.url, "--rpm", "0.01"]
        running = start_forked(words, tmp_path, clean_environment())
        # The first call is answered, the next has hours to wait.
        while not (tmp_path / "results" / "r" / "answers.jsonl").exists() or not server.chat_requests:
            assert running.poll() is None, running.communicate()
            time.sleep(0.01)
        running.send_signal(signal.SIGINT, group=True)
        told = running.communicate()[1]
    assert "Interrupted" in told
    assert running.returncode == 130
