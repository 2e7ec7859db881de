"""Options of model calls from the command to the provider, in run.json and a judge's id, and in runs that go on."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from longmemeval.benchmarks.longmemeval.judge import DEFAULT_JUDGE
from longmemeval.core.text.figures import UNKNOWN
from longmemeval.errors import HarnessError
from longmemeval.llm.http import endpoints
from longmemeval.llm.options import ModelOptions, ReasoningEffort, generation_of
from longmemeval.pipeline.evaluate.evaluate import EvaluateOptions, evaluate
from longmemeval.pipeline.verify.verify import sign, verify
from longmemeval.report.documents import comparison_document
from longmemeval.report.tables.comparison import effort_tables
from longmemeval.results.graded.graded_run import Evaluation
from longmemeval.settings import Folders
from tests.batch_server import BatchServer
from tests.pipeline.batches.batched import BATCH
from tests.pipeline.claims.test_catalogue import ROW, write
from tests.pipeline.helpers import (
    answer_all,
    answers,
    ask,
    compare,
    folders_in,
    manifest,
    prepared_colours,
    start,
    stop_when,
)
from tests.pipeline.verify.test_signature import make_key
from tests.server import ModelServer, ReasoningServer, Refusal
from tests.support import json_lines, longmemeval

LINE = ["run", "--dataset", "colours.json", "--memory", "last-k", "--model", "openai/my-gpt5", "--concurrency", "1"]
CHOSEN = ["--reasoning-effort", "low", "--temperature", "0.5", "--top-p", "0.9", "--model-seed", "7"]
CHOSEN += ["--model-option", 'cache={"keep": true}', "--model-option", "tier=flex"]
SENT = {"reasoning_effort": "low", "temperature": 0.5, "top_p": 0.9, "seed": 7, "cache": {"keep": True}, "tier": "flex"}


def graded(
    folders: Folders, server: ModelServer, judge: str, effort: ReasoningEffort | None = None, limit: int | None = None
) -> Evaluation:
    connection = ModelOptions(server.url, max_attempts=3, max_wait_s=0.01, reasoning_effort=effort, max_tokens=limit)
    options = EvaluateOptions(judge=judge, model_options=connection, concurrency=1)
    return evaluate("r", options=options, folders=folders)


def judgements(folders: Folders, judge_id: str) -> list[dict[str, Any]]:
    return json_lines(folders.results_dir / "r" / "judgements" / f"{judge_id}.jsonl")


def test_they_are_sent_recorded_kept_after_a_kill_and_repeated_by_like(tmp_path: Path) -> None:
    _, folders = prepared_colours(tmp_path)
    with ReasoningServer(lambda body: "It is green.") as server:
        server.plan = lambda: "hang" if len(server.chat_requests) == 3 else None
        line = [*LINE, "--api-base", server.url, *CHOSEN, "--run-id", "r"]
        stop_when(start(*line, cwd=tmp_path), lambda: len(server.chat_requests) == 3, signal.SIGKILL)
        refused = longmemeval(*LINE, "--api-base", server.url, "--run-id", "r", cwd=tmp_path, code=2).stderr
        longmemeval(*line, cwd=tmp_path)
        longmemeval("run", "--like", "r", "--run-id", "again", "--strict", cwd=tmp_path)
        bodies = [request.body for request in server.chat_requests]
    assert "reasoning_effort" in refused
    assert len(bodies) == 3 + 2 + 4
    assert all({name: body[name] for name in SENT} == SENT for body in bodies)
    assert {body["max_tokens"] for body in bodies} == {8692}
    model = manifest(folders)["settings"]["model"]
    assert (model["temperature"], model["max_tokens"]) == (0.5, 500)
    options = {"reasoning_effort": "low", "top_p": 0.9, "seed": 7}
    assert model["options"] == options | {"model_options": {"cache": {"keep": True}, "tier": "flex"}}
    assert manifest(folders, "again")["settings"] == manifest(folders)["settings"]
    assert [one["asked"] for one in answers(folders)] == [{"max_tokens": 8692, "reasoning_tokens": 300}] * 4
    assert verify("r", folders=folders).problems == ()


def test_without_them_nothing_is_recorded(tmp_path: Path) -> None:
    dataset, folders = prepared_colours(tmp_path)
    with ModelServer() as server:
        ask(dataset, folders, server)
        bodies = [request.body for request in server.chat_requests]
    assert list(manifest(folders)["settings"]["model"]) == ["spec", "api_base", "temperature", "max_tokens"]
    assert all("asked" not in one for one in answers(folders))
    assert {json.dumps([body["temperature"], body["max_tokens"], body["n"]]) for body in bodies} == {"[0.0, 500, 1]"}


@pytest.mark.parametrize("effort", ["low", "medium", "high"])
def test_a_judge_that_reasons_gives_every_verdict_under_an_id_of_its_own(
    tmp_path: Path, effort: ReasoningEffort
) -> None:
    dataset, folders = prepared_colours(tmp_path)
    answer_all(dataset, folders)
    with ReasoningServer(lambda body: "yes") as server:
        chosen = graded(folders, server, "openai/my-gpt5", effort).metrics
        plain = graded(folders, server, "openai/gpt-4o-mini").metrics
    assert chosen.overall.correct == 4
    added = {"reasoning_effort": effort, "room": "reasoning"}
    assert chosen.judge.parameters == {"max_tokens": 10, "n": 1, "temperature": 0.0} | added
    assert plain.judge.parameters == {"max_tokens": 10, "n": 1, "temperature": 0.0}
    limits = {one["asked"]["max_tokens"] for one in judgements(folders, chosen.judge.id)}
    assert limits == {{"low": 8202, "medium": 16394, "high": 32778}[effort]}
    assert verify("r", folders=folders).problems == ()


def test_an_official_judge_that_was_not_asked_officially_is_not_official(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset, folders = prepared_colours(tmp_path)
    answer_all(dataset, folders)
    with ModelServer(lambda body: "yes", served_model="gpt-4o-2024-08-06") as server:
        monkeypatch.setitem(endpoints.OWN_ADDRESSES, "openai", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
        server.limits = lambda body: Refusal(400, "Unsupported: 'temperature'") if "temperature" in body else {}
        found = graded(folders, server, DEFAULT_JUDGE).metrics
        assert (found.overall.correct, found.judge.official) == (4, False)
        assert len(server.chat_requests) == 5
    note = "the server refuses temperature: it is not sent"
    lines = judgements(folders, found.judge.id)
    assert [one["asked"] for one in lines] == [{"deviations": [note]}] * 4


def test_batches_carry_them_and_ask_once_more_with_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Server(ReasoningServer, BatchServer):
        pass

    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    dataset, folders = prepared_colours(tmp_path)
    with Server(lambda body: "It is green.") as server:
        chosen = ModelOptions(
            server.url, max_attempts=3, max_wait_s=0.01, reasoning_effort="low", model_option=("tier=flex",)
        )
        ask(dataset, folders, server, batch=BATCH, model_options=chosen)
        assert [line["body"]["max_tokens"] for line in server.lines(0)] == [8692] * 4
        assert {(line["body"]["reasoning_effort"], line["body"]["tier"]) for line in server.lines(0)} == {
            ("low", "flex")
        }
        server.spends[None] = 900
        ask(dataset, folders, server, batch=BATCH, run_id="alias")
        limits = [sorted(line["body"]["max_tokens"] for line in server.lines(number)) for number in (1, 2)]
    assert limits == [[500] * 4, [16884] * 4]
    assert [one["asked"]["max_tokens"] for one in answers(folders, "alias")] == [16884] * 4
    assert manifest(folders, "alias")["totals"]["empty"] == 0


def test_a_starving_reader_stops_early(tmp_path: Path) -> None:
    prepared_colours(tmp_path, 30)
    with ReasoningServer() as server:
        server.spends[None] = 10**6
        line = [*LINE, "--api-base", server.url, "--run-id", "r"]
        told = longmemeval(*line, cwd=tmp_path, code=2).stderr
        assert len(server.chat_requests) == 6
    assert "3 times in a row" in told
    assert "--reasoning-budget TOKENS" in told


def test_tokens_of_reasoning_are_a_column_where_some_run_has_them(tmp_path: Path) -> None:
    dataset, folders = prepared_colours(tmp_path)
    with ReasoningServer(lambda body: "yes") as server:
        server.spends = {None: 0, "low": 300}
        told = ModelOptions(server.url, max_attempts=3, max_wait_s=0.01, reasoning_effort="low")
        ask(dataset, folders, server, model_options=told)
        ask(dataset, folders, server, run_id="plain")
        ask(dataset, folders, server, run_id="other", memory="full-history")
        judged = graded(folders, server, "openai/my-judge", "low").summary
    assert judged.reasoning_tokens == 8 * 300  # Answers and judgements.
    for name in ("r", "plain", "other"):
        evaluate(name, options=EvaluateOptions(judge="offline/lexical"), folders=folders)

    def shown(*names: str) -> tuple[list[Any], dict[str, str] | None]:
        found = compare(names, judge="offline/lexical", folders=folders)
        table, rows = effort_tables(found)[0], comparison_document(found)["rows"]
        place = table.headings.index("reasoning\ntokens") if "reasoning\ntokens" in table.headings else None
        cells = None if place is None else {row[0].split(",")[-1].strip(): row[place] for row in table.rows}
        return [row.get("reasoning_tokens", "no column") for row in rows], cells

    figures, cells = shown("r", "plain")
    assert figures == [1200, None]
    assert cells is not None
    assert sorted(cells.values()) == sorted(["1,200", UNKNOWN])
    assert shown("plain", "other") == (["no column"] * 2, None)


def test_what_is_recorded_can_be_given_again() -> None:
    options = ModelOptions(
        top_p=0.5, model_seed=3, reasoning_budget=9, max_tokens=7, model_option=("a=1", "b=text", 'c={"d": 2}')
    )
    again = ModelOptions(**generation_of(options.recorded))
    assert again.recorded == options.recorded
    assert options.connection.recorded == {}


def test_a_sweep_names_them_by_model(tmp_path: Path) -> None:
    prepared_colours(tmp_path)
    with ReasoningServer(lambda body: "yes") as server:
        models = [
            {"spec": "openai/my-gpt5", "name": effort, "api_base": server.url, "reasoning_effort": effort}
            for effort in ("low", "high")
        ]
        content: dict[str, Any] = {"name": "s", "dataset": "colours.json", "memories": ["last-k"], "models": models}
        content |= {"judges": ["openai/judge"], "api_base": server.url, "judge_options": {"reasoning_effort": "medium"}}
        (tmp_path / "s.yaml").write_text(json.dumps(content))
        longmemeval("sweep", "s.yaml", cwd=tmp_path, OPENAI_API_KEY="sk-test")
        sent = [(request.body["model"], request.body["reasoning_effort"]) for request in server.chat_requests]
    assert sorted(sent) == [*[("judge", "medium")] * 8, *[("my-gpt5", "high")] * 4, *[("my-gpt5", "low")] * 4]


def test_a_judge_with_a_limit_of_its_own_is_another_judge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A judge that writes a sentence before its verdict needs more than the official ten tokens."""
    dataset, folders = prepared_colours(tmp_path)
    answer_all(dataset, folders)
    with ReasoningServer(lambda body: "The answer names the colour that the user told, so it is right: yes") as server:
        server.spends = {None: 0, "low": 300}
        monkeypatch.setitem(endpoints.OWN_ADDRESSES, "openai", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
        plain, wide = (graded(folders, server, DEFAULT_JUDGE, limit=limit).metrics.judge for limit in (None, 64))
        assert [request.body["max_tokens"] for request in server.chat_requests] == [10] * 4 + [64] * 4
        # With room for reasoning on top; for the check of a judge; and from the command line.
        graded(folders, server, DEFAULT_JUDGE, "low", 64)
        assert {request.body["max_tokens"] for request in server.chat_requests[8:]} == {64 + 8192}
        asked = len(server.chat_requests)
        line = ["--max-tokens", "65", "--api-base", server.url]
        longmemeval("evaluate", "r", "--judge", "openai/judge", *line, cwd=tmp_path)
        longmemeval("judge", "check", "openai/judge", "-d", "colours.json", *line, cwd=tmp_path)
        assert len(server.chat_requests) > asked + 4
        assert {request.body["max_tokens"] for request in server.chat_requests[asked:]} == {65}
    official = {"max_tokens": 10, "n": 1, "temperature": 0.0}
    assert (plain.official, plain.parameters) == (True, official)
    assert (wide.official, wide.parameters) == (False, official | {"max_tokens": 64})
    assert plain.id != wide.id
    assert {one["label"] for one in judgements(folders, wide.id)} == {True}
    assert verify("r", folders=folders).problems == ()


def test_a_claim_has_options_for_reader_judge_and_question_model(tmp_path: Path) -> None:
    prepared_colours(tmp_path, memory="bm25")
    settings = {"dataset": "colours.json", "memory": "bm25", "parameters": {"decompose": "model"}}
    settings |= {"model": "openai/reader", "model_options": {"reasoning_effort": "low", "model_option": ["tier=flex"]}}
    settings |= {"query_model": "openai/asker,reasoning_effort=medium", "judge": "openai/judge"}
    settings |= {"judge_options": {"reasoning_effort": "high", "max_tokens": 64}}
    path = write(tmp_path, benchmark="longmemeval", settings=settings, rows=[ROW | {"value": 0.5}], n=4)
    (tmp_path / "data").mkdir(exist_ok=True)
    (tmp_path / "colours.json").rename(tmp_path / "data" / "colours.json")
    with ReasoningServer(lambda body: "[] yes") as server:
        line = ["claims", "try", f"{path}/one", "--api-base", server.url]
        longmemeval(*line, cwd=tmp_path, OPENAI_API_KEY="sk-test")
        fields = ("model", "reasoning_effort", "tier", "max_tokens")
        sent = {tuple(request.body.get(field) for field in fields) for request in server.chat_requests}
        asked = len(server.chat_requests)
        longmemeval(*line, cwd=tmp_path, OPENAI_API_KEY="sk-test")
        assert len(server.chat_requests) == asked
    assert {one[:3] for one in sent} == {
        ("reader", "low", "flex"), ("asker", "medium", None), ("judge", "high", None)
    }  # fmt: skip
    assert ("judge", "high", None, 64 + 32768) in sent
    (run,) = (file.parent for file in (tmp_path / "results").glob("*/run.json"))
    recorded = manifest(folders_in(tmp_path), run.name)["settings"]
    assert recorded["model"]["options"] == {"reasoning_effort": "low", "model_options": {"tier": "flex"}}
    assert recorded["query_model"]["spec"] == settings["query_model"]
    (judge,) = (json.loads(file.read_text())["judge"] for file in run.glob("metrics/*.json"))
    assert {"reasoning_effort": "high", "max_tokens": 64}.items() <= judge["parameters"].items()


def test_a_signature_holds_them(tmp_path: Path) -> None:
    private, public = make_key(tmp_path, "key")
    prepared_colours(tmp_path)
    folders = folders_in(tmp_path)
    with ReasoningServer(lambda body: "It is green.") as server:
        longmemeval(*LINE, "--api-base", server.url, *CHOSEN, "--run-id", "r", cwd=tmp_path)
    sign("r", private, folders=folders)
    assert verify("r", public_key=public, folders=folders).problems == ()
    file = folders.results_dir / "r" / "run.json"
    file.write_text(file.read_text().replace('"reasoning_effort": "low"', '"reasoning_effort": "high"'))
    assert "high" in file.read_text()
    assert any("run.json" in one for one in verify("r", public_key=public, folders=folders).problems)


def test_the_limit_of_answers_is_an_option_of_reading(tmp_path: Path) -> None:
    dataset, folders = prepared_colours(tmp_path)
    with ModelServer() as server, pytest.raises(HarnessError, match="ReadingOptions"):
        ask(dataset, folders, server, model_options=ModelOptions(server.url, max_tokens=64))
