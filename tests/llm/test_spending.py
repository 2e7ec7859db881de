"""A limit on spending, over real HTTP: it holds over any number of starts, and is used up before it ends anything."""

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import structs

from longmemeval.core.journal import locked
from longmemeval.errors import FatalModelError, HarnessError, ModelError, SpendingLimitError
from longmemeval.llm.costs import Account, limit_beside, price, spent_in
from longmemeval.llm.options import ModelOptions, SpendingLimit
from longmemeval.llm.protocol import ChatMessage, ChatReply, ChatRequest
from longmemeval.llm.registry import load_chat_model
from tests.server import Fault, ModelServer, black_hole, nobody
from tests.support import clean_environment, json_lines

SPEC = "openai/gpt-4o-mini"
REQUEST = ChatRequest((ChatMessage("user", "one two three"),), max_tokens=100, prompt_tokens=3)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789abcdef")
    with ModelServer(lambda body: "yes") as running:
        yield running


def most() -> float:
    """What the request may cost: its three tokens, seven around them, and the longest reply."""
    cost = price(SPEC, 3 + 7, 100)
    assert cost is not None
    return cost


def options(url: str, **changes: object) -> ModelOptions:
    return structs.replace(ModelOptions(url, timeout_s=5.0, max_attempts=1, max_wait_s=0.01), **changes)


def ask(url: str, account: Account, **changes: object) -> ChatReply:
    return asyncio.run(load_chat_model(SPEC, options(url, **changes), account=account).complete(REQUEST))


def ask_many(url: str, account: Account, count: int, **changes: object) -> list[ChatReply | BaseException]:
    model = load_chat_model(SPEC, options(url, **changes), account=account)

    async def all_of_them() -> list[ChatReply | BaseException]:
        return await asyncio.gather(*(model.complete(REQUEST) for _ in range(count)), return_exceptions=True)

    return asyncio.run(all_of_them())


@pytest.mark.parametrize("counts", [True, False])
def test_calls_wait_for_room_and_the_limit_is_used_up(
    server: ModelServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, counts: bool
) -> None:
    """Also if the server does not count tokens."""
    whole = server.completion
    monkeypatch.setattr(server, "completion", lambda *given: whole(*given) | ({} if counts else {"usage": None}))
    ask(server.url, Account(tmp_path / "one"))
    cost = spent_in(tmp_path / "one")
    assert cost > 0
    # Sixteen reservations alone would exceed it; the true cost of 44 calls and one reservation fit.
    account = Account(tmp_path / "many", SpendingLimit(44 * cost + most()))
    outcomes = ask_many(server.url, account, 64)
    answered = [one for one in outcomes if isinstance(one, ChatReply)]
    refused = [one for one in outcomes if isinstance(one, SpendingLimitError)]
    assert len(answered) + len(refused) == 64
    assert len(answered) == len(server.chat_requests) - 1 == 45
    assert spent_in(tmp_path / "many") == pytest.approx(45 * cost)


def test_calls_under_way_are_finished_and_kept(server: ModelServer, tmp_path: Path) -> None:
    server.faults.extend(["slow:0.3"] * 3)
    outcomes = ask_many(server.url, Account(tmp_path / "a", SpendingLimit(most() * 3.5)), 3)
    assert all(isinstance(one, ChatReply) for one in outcomes)


def test_message_says_what_was_spent_and_how_to_go_on(server: ModelServer, tmp_path: Path) -> None:
    server.faults.append("drop")
    account = Account(tmp_path / "a", SpendingLimit(most() * 1.5))
    with pytest.raises(ModelError, match="connection failed"):
        ask(server.url, account)
    with pytest.raises(SpendingLimitError) as caught:
        ask(server.url, account)
    assert str(caught.value) == (
        f"Spending limit reached: ${most():.2g} of ${most() * 1.5:.2g} spent, ${most():.2g} of it on "
        f"attempts that failed or have no known outcome; the next call could cost ${most():.2g}. "
        f"Rerun the command with a higher --max-cost; it continues from here."
    )
    assert caught.value.exit_code == 1


@pytest.mark.parametrize("fault", ["drop", "hang", "garbage", 500, 503])
def test_an_attempt_that_may_have_been_billed_counts_in_full(server: ModelServer, tmp_path: Path, fault: Fault) -> None:
    server.faults.extend([fault] * 2)
    account = Account(tmp_path / "a", SpendingLimit(1.0))
    with pytest.raises(ModelError):
        # A quarter of it is for the connection, which a busy machine must be able to make.
        ask(server.url, account, max_attempts=2, timeout_s=2.0)
    assert spent_in(tmp_path / "a") == pytest.approx(2 * most())


@pytest.mark.parametrize("status", [400, 401, 429])
def test_what_the_server_refused_costs_nothing(server: ModelServer, tmp_path: Path, status: int) -> None:
    server.faults.append(status)
    with pytest.raises(HarnessError, match=str(status)):
        ask(server.url, Account(tmp_path / "a", SpendingLimit(1.0)))
    assert spent_in(tmp_path / "a") == 0.0


def test_what_never_reached_a_server_costs_nothing(server: ModelServer, tmp_path: Path) -> None:
    account = Account(tmp_path / "a", SpendingLimit(1.0))
    with pytest.raises(ModelError, match="No connection could be made"):
        ask(nobody(), account)
    with black_hole() as url, pytest.raises(ModelError):
        ask(url, account, timeout_s=0.5)
    assert spent_in(tmp_path / "a") == 0.0


def test_every_attempt_is_reserved_and_counts(server: ModelServer, tmp_path: Path) -> None:
    server.plan = lambda: 500
    account = Account(tmp_path / "a", SpendingLimit(most() * 8.5))
    outcomes = ask_many(server.url, account, 4, max_attempts=6)
    assert len(server.chat_requests) == 8
    assert any(isinstance(one, SpendingLimitError) for one in outcomes)
    assert spent_in(tmp_path / "a") == pytest.approx(8 * most())


def test_an_empty_reply_counts_what_it_cost(server: ModelServer, tmp_path: Path) -> None:
    server.faults.append("empty")
    reply = ask(server.url, Account(tmp_path / "a"), max_attempts=2)
    assert (reply.text, reply.attempts, reply.usage.calls) == ("yes", 2, 2)
    assert spent_in(tmp_path / "a") == pytest.approx(reply.usage.cost_usd)


def test_limit_holds_over_starts(server: ModelServer, tmp_path: Path) -> None:
    server.responder = lambda body: "long " * 100
    for _ in range(3):
        ask_many(server.url, Account(tmp_path / "a", SpendingLimit(most() * 2.5)), 4)
    assert len(server.chat_requests) == 2
    assert spent_in(tmp_path / "a") <= most() * 2.5


def test_what_other_accounts_spent_and_what_was_spent_before_count(server: ModelServer, tmp_path: Path) -> None:
    elsewhere = Account(tmp_path / "a", SpendingLimit(most() * 2.5, elsewhere=most() * 2))
    spent = {"attempt": "1", "reserved_usd": most() * 2}, {"attempt": "1", "cost_usd": most() * 2}
    (tmp_path / "b").write_text("".join(f"{json.dumps(line)}\n" for line in ({"session": "1"}, *spent)))
    before = Account(tmp_path / "b", SpendingLimit(most() * 2.5))
    for account in (elsewhere, before):
        with pytest.raises(SpendingLimitError):
            ask(server.url, account)
    assert spent_in(tmp_path / "b") == pytest.approx(most() * 2)
    beside = limit_beside(SpendingLimit(9.0, elsewhere=1.0), [tmp_path / "b", tmp_path / "none"])
    assert beside is not None
    assert beside.dollars == 9.0
    assert beside.elsewhere == pytest.approx(1.0 + most() * 2)
    assert limit_beside(None, [tmp_path / "b"]) is None


_SPENDS = """
import sys, time
from pathlib import Path
from longmemeval.errors import SpendingLimitError
from longmemeval.llm.costs import Account
from longmemeval.llm.options import SpendingLimit

account = Account(Path(sys.argv[1]), SpendingLimit(10.0))
account.open()
print("ready", flush=True)
sys.stdin.readline()
made = 0
try:
    while True:
        attempt = account.reserve_blocking(1.0, "m")
        made += 1
        time.sleep(0.01)
        if sys.argv[2] == "finish":
            account.record_cost(attempt, 0.9)
        else:
            time.sleep(60)
except SpendingLimitError:
    print(made)
"""


def spender(path: Path, manner: str) -> subprocess.Popen[str]:
    """A process about to spend what it can of ten dollars, nine tenths of one each time."""
    process = subprocess.Popen(
        [sys.executable, "-c", _SPENDS, str(path), manner],
        env=clean_environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout
    assert process.stdout.readline() == "ready\n"
    return process


def test_what_was_under_way_when_a_process_was_killed_counts_in_full(tmp_path: Path) -> None:
    process = spender(tmp_path / "a", "linger")
    assert process.stdin
    process.stdin.write("\n")
    process.stdin.flush()
    deadline = time.monotonic() + 60
    while not spent_in(tmp_path / "a") and time.monotonic() < deadline:
        time.sleep(0.01)
    process.kill()
    process.communicate()
    assert spent_in(tmp_path / "a") == 1.0
    with pytest.raises(SpendingLimitError, match=r"\$1.0000 of it on attempts that failed or have no known outcome"):
        Account(tmp_path / "a", SpendingLimit(1.5)).reserve_blocking(1.0, "m")


def test_processes_share_an_account(tmp_path: Path) -> None:
    processes = [spender(tmp_path / "a", "finish") for _ in range(3)]
    made = [int(process.communicate("\n", timeout=200)[0]) for process in processes]
    # After ten calls nine dollars are spent, and there is room for one more.
    assert sum(made) == 11
    assert spent_in(tmp_path / "a") == pytest.approx(9.9)


def test_a_line_that_was_half_written_is_passed_over(server: ModelServer, tmp_path: Path) -> None:
    path = tmp_path / "a"
    ask(server.url, Account(path))
    whole = spent_in(path)
    with path.open("ab") as file:
        file.write(b'{"attempt":"1-2-3","reserved_u')
    ask(server.url, Account(path))
    assert whole is not None
    assert spent_in(path) == pytest.approx(2 * whole)
    assert sum(1 for line in path.read_text().splitlines() if line.endswith("}")) == 6


_WRITES = """
import sys
from pathlib import Path
from longmemeval.llm.costs import Account

account = Account(Path(sys.argv[1]))
for _ in range(200):
    account.record_cost(account.reserve_blocking(1.0, "m"), 0.5)
    account.reserve_blocking(0.25, "m")
"""


def test_processes_without_a_limit_lose_no_line_of_each_other(tmp_path: Path) -> None:
    path = tmp_path / "a"
    command = [sys.executable, "-c", _WRITES, str(path)]
    writers = [subprocess.Popen(command, env=clean_environment()) for _ in range(3)]
    assert [one.wait(timeout=200) for one in writers] == [0, 0, 0]
    assert len(json_lines(path)) == 3 * (1 + 200 * 3)
    assert spent_in(path) == pytest.approx(3 * 200 * 0.75)
    # Read in turn by one that has a limit.
    with pytest.raises(SpendingLimitError, match=r"\$450.0000 of \$450.0000 spent, \$150.0000 of it on attempts"):
        Account(path, SpendingLimit(450.0)).reserve_blocking(1.0, "m")


def test_a_line_is_written_without_a_pause(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(seconds: float) -> None:
        raise AssertionError("even a pause of nothing hands the interpreter to another thread")

    monkeypatch.setattr(time, "sleep", refuse)
    account = Account(tmp_path / "a")
    account.record_cost(account.reserve_blocking(1.0, "m"), 0.5)
    assert len(json_lines(tmp_path / "a")) == 3


def test_calls_without_a_limit_wait_for_no_lock(tmp_path: Path) -> None:
    account = Account(tmp_path / "a")
    account.open()
    with locked(tmp_path / "a", wait=True):
        account.record_cost(account.reserve_blocking(1.0, "m"), 0.5)
    assert spent_in(tmp_path / "a") == 0.5


def test_without_a_limit_it_is_written_down_all_the_same(server: ModelServer, tmp_path: Path) -> None:
    reply = ask(server.url, Account(tmp_path / "a"))
    session, reserved, settled = json_lines(tmp_path / "a")
    assert session == {"session": str(os.getpid())}
    assert (reserved["model"], reserved["reserved_usd"]) == (SPEC, pytest.approx(most()))
    assert settled == {"attempt": reserved["attempt"], "cost_usd": reply.usage.cost_usd}


def test_an_unknown_price_is_refused_before_any_call(server: ModelServer, tmp_path: Path) -> None:
    with pytest.raises(FatalModelError, match="price of openai/my-own-model is not known"):
        load_chat_model("openai/my-own-model", options(server.url), account=Account(None, SpendingLimit(1.0)))
    load_chat_model("openai/my-own-model", options(server.url), account=Account(tmp_path / "a"))
    assert not (tmp_path / "a").exists()


def test_offline_models_need_no_money(tmp_path: Path) -> None:
    model = load_chat_model("offline/extractive", account=Account(tmp_path / "a", SpendingLimit(0.0)))
    assert asyncio.run(model.complete(REQUEST)).usage.cost_usd == 0.0
    assert not (tmp_path / "a").exists()
