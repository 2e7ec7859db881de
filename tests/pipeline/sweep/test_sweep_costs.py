"""A sweep knows before what it will cost, and a limit holds."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from longmemeval.errors import HarnessError, SpendingLimitError
from longmemeval.llm.costs import price
from longmemeval.llm.tokens import framing_tokens, token_counter
from longmemeval.pipeline.estimate.stages import Calls
from longmemeval.pipeline.sweep.sweep import sweep
from tests.pipeline.helpers import answers, colours, folders_in
from tests.pipeline.sweeps import LEXICAL, PRICED, estimated, served, swept, written
from tests.server import ModelServer
from tests.support import json_lines, record, write_dataset


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-tests")
    with ModelServer(lambda body: "green") as server:
        yield server


def sized(folder: Path, count: int) -> None:
    """A data set whose haystacks have messages of 40 and 20 characters."""
    sessions = [[{"role": "user", "content": "a" * 40, "has_answer": True}, {"role": "assistant", "content": "b" * 20}]]
    one = {"haystack_sessions": sessions, "haystack_dates": ["2023/05/20 (Sat) 02:21"]}
    ids = {"haystack_session_ids": ["answer_1"], "question": "q" * 12}
    write_dataset(folder / "colours.json", *(record(f"q{number:02}", **one, **ids) for number in range(count)))


@pytest.mark.slow
def test_haystacks_tell_the_prompts_of_full_history_before_they_are_prepared(tmp_path: Path) -> None:
    sized(tmp_path, 3)
    estimate = estimated(tmp_path, memories=["full-history", "last-k"], models=[PRICED], judges=[PRICED])
    full, last = estimate.runs
    work = full.answering.work
    tokens, dollars = work.prompt_tokens, work.dollars
    assert (tokens, dollars) != (None, None)
    assert work == Calls(PRICED, 3, tokens, 1500, dollars, "all 3 prompts", tokens or 0, tokens or 0, 3)
    # $0.15 and $0.60 for a million tokens; a reply may have 500.
    assert dollars == pytest.approx((tokens or 0) * 0.15e-6 + 1500 * 0.6e-6)
    most = last.answering.work
    assert most.bounded
    assert 0 < most.least_prompt_tokens < most.most_prompt_tokens == tokens
    assert estimate.before_prepare == [last]
    assert estimate.preparation.estimate["messages"] == 6
    assert estimate.unknown == ()
    assert (estimate.least_prompt_tokens, estimate.most_prompt_tokens) == (
        sum(run.answering.work.least_prompt_tokens + run.judging[0].work.least_prompt_tokens for run in estimate.runs),
        sum(run.answering.work.most_prompt_tokens + run.judging[0].work.most_prompt_tokens for run in estimate.runs),
    )
    judging = full.judging[0].work
    assert (judging.calls, judging.completion_tokens, judging.basis) == (3, 30, "all 3 prompts")
    assert estimate.calls == 3 + 3 + 3 + 3
    assert not (tmp_path / "results").exists()
    assert not (tmp_path / "prepared-data").exists()
    swept(tmp_path, name="t", memories=["full-history"])
    assert estimated(tmp_path, memories=["full-history"], models=[PRICED]).runs[0].answering.work == work


@pytest.mark.slow
def test_tokens_of_haystacks_by_rule_of_thumb(tmp_path: Path) -> None:
    sized(tmp_path, 3)
    (run,) = estimated(tmp_path, memories=["full-history"]).runs
    work = run.answering.work
    swept(tmp_path, name="t", memories=["full-history"])
    sent = answers(folders_in(tmp_path), "t_full-history_m_direct")
    # A quarter of the characters: a model that nobody calls has no frame around them.
    assert work.prompt_tokens == sum(one["prompt_tokens"] for one in sent) > 3 * (10 + 5)
    assert (work.calls, work.dollars, work.basis) == (3, 0.0, "all 3 prompts")
    assert [one.work for one in run.judging] == [Calls(LEXICAL, 0, 0, 0, 0.0, "rules, no model")]


@pytest.mark.parametrize("method", ["direct", "con", "con-separate"])
def test_where_fixtures_are_there_the_estimate_is_what_is_then_sent(
    tmp_path: Path, server: ModelServer, method: str
) -> None:
    server.responder = lambda body: "a fixed note of six words"
    models, readings = [served(server)], [method]
    swept(tmp_path, memories=["combined", "oracle"], prepare={"jobs": 1})
    estimate = estimated(tmp_path, memories=["combined", "oracle"], models=models, readings=readings, name="t")
    swept(tmp_path, memories=["combined", "oracle"], models=models, readings=readings, name="t")
    folders = folders_in(tmp_path)
    for run in estimate.runs:
        sent = answers(folders, run.run_id)
        assert run.questions_left == 4
        assert run.answering.work.calls == sum(one["usage"]["calls"] for one in sent)
        tokens = sum(one["prompt_tokens"] for one in sent)
        if method == "con-separate":
            # The answering prompt holds the notes, which are not known before: taken to be as long as may be.
            assert run.answering.work.calls is not None
            calls = run.answering.work.calls
            assert run.answering.work.prompt_tokens == tokens + (calls - 4) * (500 - 6) + calls * framing_tokens(1)
        else:
            assert run.answering.work.prompt_tokens == tokens + 4 * framing_tokens(1)


@pytest.mark.slow
def test_twenty_questions_stand_for_all(tmp_path: Path) -> None:
    sized(tmp_path, 50)
    swept(tmp_path, memories=["full-history"], judges=[LEXICAL])
    (run,) = estimated(tmp_path, name="t", memories=["full-history"], judges=[PRICED]).runs
    whole = answers(folders_in(tmp_path), "s_full-history_m_direct")
    assert run.answering.work.basis == "20 of 50 prompts"
    assert run.answering.work.prompt_tokens == sum(one["prompt_tokens"] for one in whole)
    assert (run.answering.work.calls, run.answering.work.completion_tokens) == (50, 25_000)
    assert (run.judging[0].work.calls, run.judging[0].work.completion_tokens, run.judging[0].work.basis) == (
        50,
        500,
        "20 of 50 prompts",
    )


def test_unknown_price_is_said_and_not_zero(tmp_path: Path, server: ModelServer) -> None:
    swept(tmp_path)
    estimate = estimated(tmp_path, name="t", models=[served(server, "openai/own")])
    assert [run.answering.work.dollars for run in estimate.runs] == [None, None]
    assert estimate.unknown == ("the price of openai/own",)
    assert "not in the price table" in estimate.notes[0]
    assert estimate.calls == 8
    assert server.requests == []


@pytest.mark.slow
def test_only_what_is_left_is_estimated(tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    script.write_text(json.dumps({"q0": "red"}))
    models = [{"spec": f"offline/scripted:{script}", "name": "half"}]
    swept(tmp_path, memories=["none"], models=models)
    script.write_text(json.dumps({f"q{number}": "red" for number in range(4)}))
    (run,) = estimated(tmp_path, memories=["none"], models=models, judges=[LEXICAL, PRICED]).runs
    assert (run.questions_left, run.answering.work.calls) == (3, 3)
    assert run.judging[1].work.calls == 4


def long_replies(folder: Path, server: ModelServer) -> dict[str, Any]:
    """A sweep whose replies are longer than what is reserved for them: the estimate is too low."""
    server.responder = lambda body: "red " * 100
    colours(folder / "colours.json", 6)
    reading = {"method": "direct", "name": "direct", "max_tokens": 10}
    return {"memories": ["none"], "models": [served(server)], "readings": [reading], "concurrency": 1}


def test_limit_stops_before_it_is_passed_and_a_higher_one_goes_on(tmp_path: Path, server: ModelServer) -> None:
    (tmp_path / "probe").mkdir()
    changes = long_replies(tmp_path / "probe", server)
    swept(tmp_path / "probe", **changes)
    reserved = max(most(one.body) for one in server.chat_requests)
    cost = answers(folders_in(tmp_path / "probe"), "s_none_m_direct")[0]["usage"]["cost_usd"]
    # Room for three answers at their true cost, and not for what a fourth could cost.
    limit = 3 * cost + reserved / 2
    changes, folders = long_replies(tmp_path, server), folders_in(tmp_path)
    asked = len(server.chat_requests)
    with pytest.raises(SpendingLimitError, match="higher --max-cost; it continues from here"):
        swept(tmp_path, max_cost=limit, **changes)
    kept = answers(folders, "s_none_m_direct")
    assert len(kept) == len(server.chat_requests) - asked == 3
    spent = sum(one["usage"]["cost_usd"] for one in kept)
    assert spent <= limit
    with pytest.raises(HarnessError, match=rf"\${spent:.4f} is spent, and --max-cost is \${limit:.4f}"):
        swept(tmp_path, max_cost=limit, **changes)
    assert len(answers(folders, "s_none_m_direct")) == 3
    report = swept(tmp_path, max_cost=7 * cost, **changes)
    assert report.newly_answered == 3
    assert report.estimate.spent == pytest.approx(spent)
    assert answers(folders, "s_none_m_direct")[:3] == kept
    assert len(server.chat_requests) - asked == 6


def most(body: dict[str, Any]) -> float:
    """What a request of these tests can cost if its reply is as long as was allowed."""
    tokens = sum(token_counter(PRICED).count(one["content"]) for one in body["messages"])
    dollars = price(PRICED, tokens, body["max_tokens"])
    assert dollars is not None
    return dollars


def test_runs_and_judges_share_one_limit(tmp_path: Path, server: ModelServer) -> None:
    changes = long_replies(tmp_path, server) | {"memories": ["none", "last-k"], "judges": [PRICED]}
    changes |= {"api_base": server.url, "selection": {"limit": 2}}
    report = swept(tmp_path, max_cost=1.0, **changes)
    folders = folders_in(tmp_path)
    spent = sum(
        one["usage"]["cost_usd"]
        for file in folders.results_dir.rglob("*.jsonl")
        if file.name == "answers.jsonl" or file.parent.name == "judgements"
        for one in json_lines(file)
    )
    assert len(server.chat_requests) == 2 * 2 * 2
    more = estimated(tmp_path, **changes | {"selection": {"limit": 2}, "repeat": 2})
    assert report.estimate.spent == 0.0
    assert more.spent == pytest.approx(spent)
    assert (more.complete, len(more.runs)) == (2, 2)


def test_estimate_above_the_limit_is_refused_before_any_call(tmp_path: Path, server: ModelServer) -> None:
    swept(tmp_path)
    dollars = estimated(tmp_path, name="t", models=[served(server)]).dollars
    assert dollars > 4 * 2 * 500 * 0.6e-6
    with pytest.raises(HarnessError, match=rf"up to \${dollars:.4f} more, and --max-cost is \$0.0001"):
        swept(tmp_path, name="t", models=[served(server)], max_cost=0.0001)
    with pytest.raises(HarnessError, match=r"--max-cost is \$0.0002"):
        sweep(written(tmp_path, name="t", models=[served(server)], max_cost=0.0002), folders=folders_in(tmp_path))
    assert server.requests == []
    assert not (tmp_path / "results" / "t_none_m_direct").exists()


def test_estimate_is_made_again_when_fixtures_are_there(tmp_path: Path, server: ModelServer) -> None:
    with pytest.raises(HarnessError, match="The sweep may cost up to"):
        swept(tmp_path, memories=["last-k"], models=[served(server)], max_cost=0.0001)
    assert (tmp_path / "prepared-data" / "colours").exists()
    assert server.requests == []
