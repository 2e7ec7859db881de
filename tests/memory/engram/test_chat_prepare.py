"""`prepare --fact-model`: facts by a chat model through the pipeline, over real HTTP."""

import json
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from longmemeval.benchmarks.registry import load_dataset
from longmemeval.core.part_options import PartOptions
from longmemeval.dataset import Dataset
from longmemeval.errors import HarnessError, SpendingLimitError
from longmemeval.llm.costs import REPLIES
from longmemeval.llm.options import SpendingLimit
from longmemeval.memory.engram import part as engram_part
from longmemeval.memory.engram.part import FACTS, FactsFile
from longmemeval.pipeline.prepare.prepare import PrepareOptions, PrepareReport, prepare
from longmemeval.pipeline.verify.verify import verify
from longmemeval.settings import Folders
from longmemeval.storage.fixture import Fixture
from tests.memory.engram.test_chat import TWO_HOMES, fact, replying
from tests.pipeline.helpers import answer_all, answers, folders_in, start, stop_when
from tests.pipeline.prepare.test_paid_calls import asked, recorded, stored
from tests.server import ModelServer
from tests.support import longmemeval, record, write_dataset

MODEL = "openai/gpt-4o-mini"
SESSIONS = 4
SAID = "I live in Ghent. We have a flat in Lille. This is week {}."


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-a-key")
    with ModelServer(replying(fact(), fact(object="Paris", evidence="I live in Paris"))) as running:
        yield running


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    ids = ["answer_1", *(f"s{number}" for number in range(2, SESSIONS + 1))]
    one = record(
        haystack_sessions=[[{"role": "user", "content": SAID.format(number)}] for number in range(SESSIONS)],
        haystack_session_ids=ids,
        haystack_dates=[f"2023/05/0{number + 1} (Mon) 10:00" for number in range(SESSIONS)],
        answer_session_ids=ids[:1],
    )
    return load_dataset(write_dataset(tmp_path / "d.json", one))


def made(dataset: Dataset, folders: Folders, server: ModelServer, **options: object) -> tuple[FactsFile, PrepareReport]:
    chosen = PrepareOptions(jobs=1, fact_model=MODEL, api_base=server.url).replaced(**options)
    report = prepare(dataset, ["engram-lean"], options=chosen, folders=folders)
    assert verify("d/default", folders=folders).problems == ()
    return Fixture.open(folders.prepared_dir / "d/default/q1").part(FACTS), report


def part(folders: Folders) -> bytes:
    return (folders.prepared_dir / "d/default/q1/engram.json").read_bytes()


def test_a_call_for_each_session_counted_cached_and_answered_from(
    dataset: Dataset, folders: Folders, server: ModelServer
) -> None:
    file, report = made(dataset, folders, server)
    assert report.usage.calls == len(server.chat_requests) == SESSIONS
    assert report.dropped == {"engram": {"evidence": SESSIONS}}
    assert file.dropped == {"evidence": SESSIONS}
    assert [one.episode_ids[-1] for one in file.facts if one.expired_at is None] == ["s4:0"]
    assert len([one for one in file.facts if one.expired_at]) == SESSIONS - 1
    assert "answer_1" not in str([one.body for one in server.chat_requests])
    before = part(folders)
    assert made(dataset, folders, server, force=True)[1].usage.cached_calls == SESSIONS
    assert (part(folders), len(server.chat_requests)) == (before, SESSIONS)
    answer_all(dataset, folders, memory="engram-lean")
    assert answers(folders)[0]["status"] == "ok"
    options = PrepareOptions(dry_run=True, force=True, fact_model=MODEL, api_base=server.url)
    estimate = prepare(dataset, ["engram-lean"], options=options, folders=folders).estimate
    assert estimate["sessions for the fact model"] == SESSIONS
    assert estimate["facts, USD (about)"] > 0
    info = json.loads((folders.prepared_dir / "d/default/q1/meta.json").read_text())["parts"]["engram"]
    assert info["told"] == {"facts": SESSIONS, "dropped_evidence": SESSIONS}


def test_the_bytes_do_not_depend_on_the_order_of_replies(
    dataset: Dataset, folders: Folders, server: ModelServer
) -> None:
    server.responder = replying(*TWO_HOMES, verdict="elaboration")
    file, _ = made(dataset, folders, server)
    assert file.verdicts == {"same": SESSIONS}
    first = part(folders)
    (folders.cache_dir / REPLIES).unlink()
    server.faults.extend(["slow:0.2", "slow:0.1"])
    made(dataset, folders, server, force=True)
    assert part(folders) == first


def test_what_cannot_be_read_at_all_is_a_failed_call_and_tried_again(
    dataset: Dataset, folders: Folders, server: ModelServer
) -> None:
    """Bytes that are no UTF-8, and half of a pair of signs, which JSON can write and nothing else can."""
    half = {"choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "\ud83d"}}]}
    server.faults.extend([b'{"choices": "\xff\xfe\xe9"}', json.dumps(half | {"model": "m", "id": "1"}).encode()])
    file, _ = made(dataset, folders, server)
    assert len([one for one in file.facts if one.expired_at is None]) == 1


def test_another_version_of_the_engine_is_another_recipe(monkeypatch: pytest.MonkeyPatch) -> None:
    tools: Any = SimpleNamespace(options=PartOptions())
    before = FACTS.recipe(tools)
    assert set(before) == {"extractor", "version", "patterns_sha256"}
    monkeypatch.setattr(engram_part, "_VERSION", 2)
    assert FACTS.recipe(tools) == {**before, "engine": 2}


def test_a_prompt_of_ones_own_is_another_recipe(
    dataset: Dataset, folders: Folders, server: ModelServer, tmp_path: Path
) -> None:
    made(dataset, folders, server)
    own = tmp_path / "boats.txt"
    own.write_text("Write down boats alone.")
    with pytest.raises(HarnessError, match="another recipe"):
        made(dataset, folders, server, fact_prompt=own)
    other = folders_in(tmp_path / "other")
    made(dataset, other, server, fact_prompt=own)
    assert "Write down boats alone." in str(server.chat_requests[-1].body)
    with pytest.raises(HarnessError, match="another recipe"):
        prepare(dataset, ["engram-lean"], folders=folders)
    for text, said in ((b"", "is empty"), (b"\xff", "is not UTF-8")):
        own.write_bytes(text)
        with pytest.raises(HarnessError, match=said):
            made(dataset, folders_in(tmp_path / "third"), server, fact_prompt=own)


def test_a_limit_stops_cleanly_and_the_next_prepare_goes_on(
    dataset: Dataset, folders: Folders, server: ModelServer
) -> None:
    with pytest.raises(SpendingLimitError):
        made(dataset, folders, server, spending=SpendingLimit(0.0028))
    paid = len(server.chat_requests)
    assert 0 < paid < SESSIONS
    file, report = made(dataset, folders, server, spending=SpendingLimit(1.0))
    assert len(server.chat_requests) == SESSIONS
    assert report.usage.cached_calls == paid
    assert len(file.facts) == SESSIONS


def test_killed_in_the_middle_nothing_is_paid_twice(dataset: Dataset, server: ModelServer, tmp_path: Path) -> None:
    model = ("--fact-model", MODEL, "--api-base", server.url, "--jobs", "1")
    command = ("prepare", "--dataset", "d.json", "--memory", "engram-lean", *model)
    server.faults.extend(["slow:0"] * 2 + ["slow:25"] * 2)
    process = start(*command, cwd=tmp_path)
    stop_when(process, lambda: len(server.requests) == SESSIONS and stored(tmp_path, REPLIES) == 2, signal.SIGKILL)
    done = longmemeval(*command, cwd=tmp_path)
    assert "Note: an earlier prepare stopped" in done.stderr
    assert "Discarded from the replies for engram: 4 for evidence" in done.stdout
    assert sorted(Counter(asked(server)).values()) == [1, 1, 2, 2]
    assert recorded(tmp_path)["paid"] == SESSIONS
    shown = longmemeval("inspect", "q1", "--dataset", "d.json", "--all", cwd=tmp_path).stdout
    assert "user lives in Ghent" in shown
    assert "discarded: 4 for evidence" in shown
    facts = ("facts", "q1", "--dataset", "d.json", "--prepared")
    found = longmemeval(*facts, "default", "--json", cwd=tmp_path).stdout
    assert [one["object"] for one in json.loads(found)] == ["Ghent"]
    assert "other" in longmemeval(*facts, "other", cwd=tmp_path, code=2).stderr
