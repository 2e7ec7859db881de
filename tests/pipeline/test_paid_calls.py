"""A `prepare` that is killed loses no paid call: the journal has its cost, the caches its result, nobody pays twice."""

import signal
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from longmemeval.errors import HarnessError
from longmemeval.pipeline.build import REPLIES, PrepareRecord
from longmemeval.pipeline.journal import Journal
from longmemeval.pipeline.paid_calls import paid_session, settle
from longmemeval.receipts import Receipts
from longmemeval.records import Usage
from longmemeval.sqlite_cache import SqliteCache
from tests.pipeline.helpers import colours, start, stop_when
from tests.server import ModelServer
from tests.support import json_lines, longmemeval

HAYSTACKS = 6
BLOCKED = "slow:25"


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer(lambda body: '{"edits": []}') as running:
        yield running


def asked(server: ModelServer) -> list[str]:
    """What the server was asked, one text for each call."""
    return [str(request.body.get("input") or request.body.get("messages")) for request in server.requests]


def journal(folder: Path) -> list[dict[str, Any]]:
    return json_lines(folder / "prepared-data" / "d" / "default" / "prepare.jsonl")


def recorded(folder: Path) -> Counter[str]:
    """The sum of the usage of all lines; `paid` are calls that no cache answered."""
    total: Counter[str] = Counter()
    for line in journal(folder):
        total.update(line.get("usage", {}))
    total["paid"] = total["calls"] - total["cached_calls"]
    return total


def settled(count: Callable[[], int], wanted: int) -> Callable[[], bool]:
    """Whether `count` is as wanted, and what was answered before has had the time to be stored."""

    def reached() -> bool:
        if count() < wanted:
            return False
        time.sleep(0.5)
        return True

    return reached


def test_killed_while_a_model_keeps_the_working_memory(server: ModelServer, tmp_path: Path) -> None:
    jobs, answered = 2, 5
    colours(tmp_path / "d.json", HAYSTACKS)
    model = ("--working-memory-model", "openai/gpt-4o-mini", "--api-base", server.url)
    command = ("prepare", "--dataset", "d.json", "--memory", "working-memory", *model, "--jobs", str(jobs))
    server.faults.extend(["slow:0"] * answered + [BLOCKED] * jobs)
    process = start(*command, cwd=tmp_path)
    stop_when(process, settled(lambda: len(server.requests), answered + jobs), signal.SIGKILL)
    before = asked(server)
    done = longmemeval(*command, cwd=tmp_path)
    assert "Note: an earlier prepare was stopped" in done.stderr
    # Three sessions a haystack; only the calls that nobody answered were made again.
    calls = Counter(asked(server))
    assert len(calls) == 3 * HAYSTACKS
    assert sorted(calls - Counter(set(calls))) == sorted(before[-jobs:])
    assert recorded(tmp_path)["paid"] == 3 * HAYSTACKS
    assert recorded(tmp_path)["unpriced_calls"] == 0
    assert recorded(tmp_path)["cost_usd"] > 0
    (unfinished,) = [line for line in journal(tmp_path) if line["work"] == "unfinished"]
    assert 0 < unfinished["usage"]["calls"] <= answered
    (cache,) = tmp_path.rglob(REPLIES)
    assert SqliteCache(cache).receipts() == {}


def test_killed_while_texts_are_embedded(server: ModelServer, tmp_path: Path) -> None:
    colours(tmp_path / "d.json", 150)
    embedder = ("--embedder", "openai:text-embedding-3-small", "--api-base", server.url)
    command = ("prepare", "--dataset", "d.json", "--memory", "semantic-recall", *embedder, "--jobs", "1")
    server.embedding_faults.extend(["slow:0", BLOCKED])
    process = start(*command, cwd=tmp_path)
    stop_when(process, settled(lambda: len(server.requests), 2), signal.SIGKILL)
    assert not any("usage" in line for line in journal(tmp_path))
    refused = asked(server)[1]
    longmemeval(*command, cwd=tmp_path)
    sent = Counter(text for request in server.requests for text in request.body["input"])
    assert {text for text, times in sent.items() if times > 1} == set(server.requests[1].body["input"])
    assert asked(server).count(refused) <= 2
    assert recorded(tmp_path)["paid"] == len(server.requests) - 1
    assert [line["work"] for line in journal(tmp_path)][:3] == ["started", "unfinished", "started"]


def test_an_error_leaves_no_call_unrecorded(server: ModelServer, tmp_path: Path) -> None:
    colours(tmp_path / "d.json", HAYSTACKS)
    model = ("--working-memory-model", "openai/gpt-4o-mini", "--api-base", server.url)
    server.faults.extend(["slow:0"] * 4 + [401])
    longmemeval("prepare", "--dataset", "d.json", "--memory", "working-memory", *model, cwd=tmp_path, code=2)
    assert [line["work"] for line in journal(tmp_path)] == ["started", "fixture", "unfinished"]
    assert recorded(tmp_path)["paid"] == 4


def usage(calls: int) -> Usage:
    return Usage(calls=calls, prompt_tokens=10 * calls, cost_usd=0.001 * calls)


def test_killed_between_journal_and_cache_nothing_is_counted_twice(tmp_path: Path) -> None:
    """Receipts that are in the journal already are dropped; what comes later under the same session is not."""
    cache = SqliteCache(tmp_path / REPLIES)
    with Journal(tmp_path / "prepare.jsonl", PrepareRecord) as lines:

        def fail() -> None:
            with paid_session(lines, tmp_path, pays=True) as session:
                receipts = Receipts(session)
                receipts.store(cache, {b"a": b"1"}, usage(1))
                receipts.store(cache, {b"b": b"2"}, usage(2))
                numbers = tuple(receipts.numbers[:1])
                lines.append(PrepareRecord("fixture", "", usage=usage(1), cache=REPLIES, receipts=numbers))
                raise HarnessError("on purpose")

        with pytest.raises(HarnessError, match="on purpose"):
            fail()
        session = lines.records()[0].session
        assert [line.usage.calls for line in lines.records()] == [0, 1, 2]
        assert cache.receipts() == {}
        # As it stands when the process dies after the line "unfinished" and before the receipts are dropped.
        with sqlite3.connect(tmp_path / REPLIES) as raw:
            raw.execute("INSERT INTO receipts VALUES (2, ?, '{}')", (session,))
        assert settle(lines, tmp_path) == Usage()
        assert cache.receipts() == {}
        # And a worker that outlived its parent by a moment.
        Receipts(session).store(cache, {}, usage(4))
        Receipts("of another preparation").store(cache, {}, usage(8))
        assert settle(lines, tmp_path) == usage(4)
        assert [line.usage.calls for line in lines.records()] == [0, 1, 2, 4]
    assert [account for account, _ in cache.receipts().values()] == ["of another preparation"]
