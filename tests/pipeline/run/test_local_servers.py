"""Runs on local servers: the window that the server tells, loading before the first question, silent truncation."""

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from longmemeval.benchmarks.longmemeval.loader import LongMemEvalDataset
from longmemeval.dataset import Dataset
from longmemeval.errors import HarnessError
from longmemeval.llm.options import ModelOptions
from longmemeval.pipeline.evaluate.evaluate import EvaluateOptions, evaluate
from longmemeval.pipeline.prepare.prepare import PrepareOptions, prepare
from longmemeval.pipeline.run.answering import RunReport
from longmemeval.pipeline.run.plan import RunOptions
from longmemeval.pipeline.run.run import run
from longmemeval.pipeline.verify.verify import verify
from longmemeval.reading.configuration import reading_configuration
from longmemeval.report.tables.comparison import footnotes
from longmemeval.settings import Folders
from tests.local_servers import LocalServer
from tests.pipeline.helpers import answers, colours, folders_in, manifest, prepared_colours
from tests.server import nobody
from tests.support import record, write_dataset

SIZE = 3000


@pytest.fixture
def prepared(tmp_path: Path) -> tuple[Dataset, Folders]:
    return prepared_colours(tmp_path, memory="full-history")


def ask(
    prepared: tuple[Dataset, Folders],
    address: str,
    *,
    model: str = "openai/tiny",
    told: list[str] | None = None,
    reading: dict[str, Any] | None = None,
    **changes: Any,
) -> RunReport:
    options = RunOptions(
        run_id="r",
        concurrency=1,
        model_options=ModelOptions(address, max_attempts=2, max_wait_s=0.01),
        reading=reading_configuration(**(reading or {})),
        tell=told.append if told is not None else None,
    )
    return run(prepared[0], "full-history", model, options=structs.replace(options, **changes), folders=prepared[1])


def window(folders: Folders) -> object:
    return manifest(folders)["settings"]["reading"]["context_window"]


def test_the_window_is_used_said_and_recorded_with_its_source(prepared: tuple[Dataset, Folders]) -> None:
    told: list[str] = []
    with LocalServer("vllm", SIZE) as server:
        assert ask(prepared, server.url, told=told).answered == 4
    assert window(prepared[1]) == SIZE
    assert manifest(prepared[1])["environment"]["model_server"] == {"context_window": SIZE, "source": "/v1/models"}
    assert any("3,000 tokens" in line for line in told)
    assert verify("r", folders=prepared[1]).problems == ()


@pytest.mark.parametrize(("policy", "answered"), [("error", 0), ("drop-oldest", 4)])
def test_what_exceeds_the_loaded_window_is_handled_by_the_policy(
    prepared: tuple[Dataset, Folders], policy: str, answered: int
) -> None:
    reading = {"on_overflow": policy, "max_tokens": 20}
    with LocalServer("ollama", 1140) as server:
        report = ask(prepared, server.url, reading=reading)
        calls = server.chat_requests
    assert (report.answered, report.shortened, report.truncated) == (answered, answered, 0)
    assert len(calls) == answered
    assert all(one["prompt_tokens"] <= 120 for one in answers(prepared[1]))


def test_a_larger_window_than_the_servers_is_refused(prepared: tuple[Dataset, Folders]) -> None:
    with LocalServer("ollama", SIZE) as server:
        with pytest.raises(HarnessError, match="--context-window 9,000"):
            ask(prepared, server.url, reading={"context_window": 9000})
        assert ask(prepared, server.url, reading={"context_window": 2000}).answered == 4
    assert window(prepared[1]) == 2000


def test_loading_is_no_latency_and_recorded(prepared: tuple[Dataset, Folders]) -> None:
    told: list[str] = []
    with LocalServer("ollama", SIZE, loaded=False, loading_s=0.5) as server:
        ask(prepared, server.url, told=told)
        limits = [request.body["max_tokens"] for request in server.chat_requests]
    assert limits == [1, 500, 500, 500, 500]
    assert manifest(prepared[1])["environment"]["model_server"]["loading_s"] >= 0.5
    assert max(one["latency_ms"] for one in answers(prepared[1])) < 400
    assert manifest(prepared[1])["totals"]["usage"]["calls"] == 4
    assert any(line.startswith("Loading the model took") for line in told)


def test_no_model_is_loaded_for_a_run_that_cannot_begin(tmp_path: Path) -> None:
    unprepared = colours(tmp_path / "colours.json", 2), folders_in(tmp_path)
    with LocalServer("ollama", SIZE, loaded=False) as server:
        with pytest.raises(HarnessError, match="not prepared"):
            ask(unprepared, server.url)
        assert not server.chat_requests


def test_a_finished_run_asks_no_server(prepared: tuple[Dataset, Folders]) -> None:
    with LocalServer("vllm", SIZE) as server:
        ask(prepared, server.url)
        address, before = server.url, len(server.requests)
        assert ask(prepared, address).newly_answered == 0
        assert len(server.requests) == before
    assert ask(prepared, address).answered == 4


def cut_short(folders: Folders) -> None:
    """Make the run one that was interrupted after its first answer."""
    folder = folders.results_dir / "r"
    path = folder / "answers.jsonl"
    path.write_text(path.read_text().splitlines(keepends=True)[0])
    document = json.loads((folder / "run.json").read_text())
    document |= {"status": "interrupted", "files": {}, "totals": {"answered": 1}}
    (folder / "run.json").write_text(json.dumps(document))


@pytest.mark.parametrize(
    ("first", "then", "kept"), [(SIZE, 2 * SIZE, SIZE), (SIZE, None, SIZE), (None, SIZE, None), (SIZE, 2000, 0)]
)
def test_a_run_goes_on_with_the_window_that_it_began_with(
    prepared: tuple[Dataset, Folders], first: int | None, then: int | None, kept: int | None
) -> None:
    with LocalServer("vllm" if first else "plain", first) as server:
        ask(prepared, server.url)
        cut_short(prepared[1])
        server.kind, server.window = ("vllm", then) if then else ("plain", None)
        if kept == 0:  # A smaller one would cut what the first answers were given from.
            with pytest.raises(HarnessError, match="context_window"):
                ask(prepared, server.url)
        else:
            assert ask(prepared, server.url).answered == 4
            assert window(prepared[1]) == kept


def test_a_run_without_answers_begins_again_with_a_larger_window(prepared: tuple[Dataset, Folders]) -> None:
    with LocalServer("ollama", 1520) as server:
        assert ask(prepared, server.url).answered == 0
        server.window = SIZE
        assert ask(prepared, server.url).answered == 4
    assert window(prepared[1]) == SIZE


def test_a_server_that_is_not_there_is_told_as_before(prepared: tuple[Dataset, Folders]) -> None:
    report = ask(prepared, nobody())
    assert report.answered == 0
    assert "No connection" in report.failures.commonest


def test_silent_truncation_ends_in_answers_totals_and_notes(tmp_path: Path) -> None:
    session = [{"role": "user", "content": "My bicycle is green. " + "tea " * 3000}]
    dataset = LongMemEvalDataset(write_dataset(tmp_path / "long.json", record(haystack_sessions=[session] * 3)))
    prepared = dataset, folders_in(tmp_path)
    prepare(dataset, ["full-history"], options=PrepareOptions(jobs=1), folders=prepared[1])
    with LocalServer("plain", 2000) as server:
        report = ask(prepared, server.url)
    assert (report.answered, report.truncated) == (1, 1)
    assert manifest(prepared[1])["totals"]["truncated"] == 1
    (one,) = answers(prepared[1])
    assert "1,002" in one["asked"]["deviations"][0]
    graded = evaluate("r", options=EvaluateOptions(judge="offline/lexical"), folders=prepared[1])
    assert graded.summary.truncated == 1
    assert any("truncated 1 prompt" in line for line in footnotes([graded.summary]))
