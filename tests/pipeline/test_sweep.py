"""A sweep does what is left to do and nothing else, goes on past what fails, and knows what it will cost."""

import json
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from longmemeval.datasets.catalogue import catalogue_entry, data_file
from longmemeval.errors import FatalModelError, FixtureError, HarnessError
from longmemeval.llm.spending import SpendingLimitError
from longmemeval.llm.tokens import token_counter
from longmemeval.pipeline.sweep import SweepReport, sweep
from longmemeval.pipeline.sweep_estimate import SweepEstimate, Work
from longmemeval.pipeline.verify import verify
from longmemeval.prices import price
from longmemeval.settings import Folders
from tests.pipeline.helpers import answers, colours, folders_in, lines_in, litter, manifest, start, stop_when, timeless
from tests.server import ModelServer, Refusal
from tests.support import json_lines, longmemeval, record, tree, write_dataset

OFFLINE = "offline/extractive"
LEXICAL = "offline/lexical"
PRICED = "openai/gpt-4o-mini"
BASE: dict[str, Any] = {
    "name": "s",
    "dataset": "colours.json",
    "prepare": {"jobs": 1},
    "memories": ["none", "last-k"],
    "models": [{"spec": OFFLINE, "name": "m"}],
    "judges": [LEXICAL],
}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-tests")
    with ModelServer(lambda body: "green") as server:
        yield server


def written(folder: Path, **changes: object) -> Path:
    """A small sweep's file after `changes`, beside the data it names."""
    file = folder / "sweep.yaml"
    file.write_text(yaml.safe_dump(BASE | changes, sort_keys=False))
    if not (folder / "colours.json").exists():
        colours(folder / "colours.json", 4)
    return file


def swept(folder: Path, *, max_cost: float | None = None, **changes: object) -> SweepReport:
    return sweep(written(folder, **changes), max_cost=max_cost, where=folders_in(folder))


def estimated(folder: Path, **changes: object) -> SweepEstimate:
    return sweep(written(folder, **changes), dry_run=True, where=folders_in(folder)).estimate


def served(server: ModelServer, spec: str = PRICED, name: str = "m") -> dict[str, object]:
    return {"spec": spec, "name": name, "api_base": server.url, "max_attempts": 1}


def accuracies(report: SweepReport, judge: int = 0) -> dict[str, float]:
    runs = report.comparisons[judge].comparison.runs
    return {one.summary.run_id: one.summary.metrics.overall.accuracy for one in runs}


# Doing it


def test_everything_is_run_graded_and_compared(tmp_path: Path) -> None:
    report = swept(tmp_path, readings=["direct", "con"])
    assert report.runs == ("s_none_m_direct", "s_none_m_con", "s_last-k_m_direct", "s_last-k_m_con")
    assert (report.newly_answered, report.newly_judged, report.failures) == (16, 16, ())
    assert accuracies(report) == dict(zip(report.runs, (0.0, 0.0, 1.0, 1.0), strict=True))
    assert len(report.comparisons[0].comparison.pairs) == 6
    assert set(report.comparisons[0].front) <= set(report.runs)
    where = folders_in(tmp_path)
    assert [verify(run_id, where=where).problems for run_id in report.runs] == [()] * 4
    assert manifest(where, "s_last-k_m_con")["settings"]["reading"]["method"] == "con"
    assert len(json_lines(where.prepared_dir / "colours" / "default" / "prepare.jsonl")) == 4


def test_second_time_no_byte_changes(tmp_path: Path) -> None:
    first = swept(tmp_path)
    before = tree(tmp_path)
    times = {path: path.stat().st_mtime_ns for path in (tmp_path / "results").rglob("*")}
    again = swept(tmp_path)
    assert (again.newly_answered, again.newly_judged) == (0, 0)
    assert (again.estimate.complete, again.estimate.runs) == (2, ())
    assert again.comparisons == first.comparisons
    assert tree(tmp_path) == before
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "results").rglob("*")} == times


def test_only_what_an_added_entry_asks_for_is_done(tmp_path: Path) -> None:
    swept(tmp_path)
    before = tree(tmp_path / "results", without=("index.jsonl",))
    report = swept(tmp_path, memories=["bm25", "none", "last-k", "combined"], judges=[LEXICAL], repeat=2)
    assert len(report.runs) == 8
    assert report.newly_answered == 4 * 6
    after = tree(tmp_path / "results")
    assert {name: after[name] for name in before} == before
    assert manifest(folders_in(tmp_path), "s_none_m_direct_r2")["settings"]["repeat"] == 2
    assert len(report.comparisons[0].comparison.repeats) == 4


def test_second_judge_grades_the_answers_that_are_there(tmp_path: Path) -> None:
    swept(tmp_path)
    scripted = tmp_path / "labels.json"
    scripted.write_text(json.dumps({f"q{number}": "yes" for number in range(4)}))
    report = swept(tmp_path, judges=[LEXICAL, f"offline/scripted:{scripted}"])
    assert (report.newly_answered, report.newly_judged) == (0, 8)
    assert set(accuracies(report, 1).values()) == {1.0}
    assert accuracies(report, 0) == {"s_none_m_direct": 0.0, "s_last-k_m_direct": 1.0}


def test_finished_sweep_needs_no_key_and_no_model(
    tmp_path: Path, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = swept(tmp_path, models=[served(server)])
    asked = len(server.requests)
    monkeypatch.delenv("OPENAI_API_KEY")
    again = swept(tmp_path, models=[served(server)])
    assert again.comparisons == first.comparisons
    assert len(server.requests) == asked


# What fails


def test_questions_that_fail_are_told_and_the_others_go_on(tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    script.write_text(json.dumps({"q0": "red", "q1": "green"}))
    models = [{"spec": f"offline/scripted:{script}", "name": "half"}, *BASE["models"]]
    report = swept(tmp_path, memories=["last-k"], models=models)
    (failure,) = report.failures
    assert failure.run_id == "s_last-k_half_direct"
    assert failure.what.startswith("2 of 4 questions failed, the first: q2: No answer for question 'q2'")
    assert accuracies(report) == {"s_last-k_half_direct": 0.5, "s_last-k_m_direct": 1.0}
    script.write_text(json.dumps({f"q{number}": "red" for number in range(4)}))
    again = swept(tmp_path, memories=["last-k"], models=models)
    assert (again.newly_answered, again.newly_judged, again.failures) == (2, 2, ())


def test_model_that_refuses_everything_does_not_stop_the_others(tmp_path: Path, server: ModelServer) -> None:
    server.faults.append(Refusal(401, "bad key"))
    models = [served(server, "openai/local", "refused"), *BASE["models"]]
    report = swept(tmp_path, memories=["last-k"], models=models, concurrency=1)
    (failure,) = report.failures
    assert failure.run_id == "s_last-k_refused_direct"
    assert accuracies(report) == {"s_last-k_m_direct": 1.0}
    assert manifest(folders_in(tmp_path), failure.run_id)["status"] == "failed"
    again = swept(tmp_path, memories=["last-k"], models=models, concurrency=1)
    assert again.failures == ()
    assert accuracies(again)["s_last-k_refused_direct"] == 0.25


def test_prompts_that_do_not_fit_are_failures_that_the_estimate_foretells(tmp_path: Path) -> None:
    readings = [{"method": "direct", "name": "tight", "context_window": 1540}, "direct"]
    report = swept(tmp_path, memories=["last-k"], readings=readings)
    (failure,) = report.failures
    assert failure.run_id == "s_last-k_m_tight"
    assert "fit the model's window" in failure.what
    assert accuracies(report) == {"s_last-k_m_tight": 0.0, "s_last-k_m_direct": 1.0}
    (left,) = estimated(tmp_path, memories=["last-k"], readings=readings).runs
    assert left.answering == Work(
        OFFLINE, 0, 0, 0, 0.0, "all 4 prompts; 4 do not fit the model's window and would fail"
    )


def test_answers_that_were_changed_are_a_failure(tmp_path: Path) -> None:
    swept(tmp_path)
    journal = tmp_path / "results" / "s_none_m_direct" / "answers.jsonl"
    journal.write_text(journal.read_text().replace("nothing in the history", "nothing at all"))
    report = swept(tmp_path)
    assert [failure.run_id for failure in report.failures] == ["s_none_m_direct"]
    assert "was changed after the run ended" in report.failures[0].what


def test_judge_without_labels_is_a_failure(tmp_path: Path) -> None:
    scripted = tmp_path / "labels.json"
    scripted.write_text(json.dumps({"q0": "yes"}))
    report = swept(tmp_path, memories=["last-k"], judges=[f"offline/scripted:{scripted}"])
    assert [failure.what.partition(" by ")[0] for failure in report.failures] == ["3 answers have no label"]
    assert report.newly_judged == 1


# What is refused before anything is done


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"memories": [{"preset": "last-k", "name": "none"}]}, "memory.preset: was 'none', now 'last-k'"),
        ({"models": [{"spec": "openai/x", "name": "m", "api_base": "http://localhost:1"}]}, "model.spec"),
        ({"readings": [{"method": "con", "name": "direct"}]}, "reading.method: was 'direct', now 'con'"),
        ({"readings": [{"method": "direct", "name": "direct", "max_tokens": 7}]}, "model.max_tokens: was 500, now 7"),
        ({"readings": [{"method": "direct", "name": "direct", "context_window": 9}]}, "reading.context_window"),
        ({"selection": {"limit": 2}}, "questions: was '4 ("),
        ({"prepare": {"name": "other"}}, "preparation: was 'default', now 'other'"),
        ({"dataset": "others.json"}, "data set content"),
    ],
)
def test_run_that_was_begun_as_something_else(tmp_path: Path, change: dict[str, Any], told: str) -> None:
    swept(tmp_path, memories=["none"])
    colours(tmp_path / "others.json", 4, question_date="2023/06/30 (Fri) 23:40")
    before = tree(tmp_path, without=("sweep.yaml",))
    with pytest.raises(HarnessError, match="'s_none_m_direct' was begun with other settings") as error:
        swept(tmp_path, **{"memories": ["bm25", "none"], **change})
    assert told in str(error.value)
    assert tree(tmp_path, without=("sweep.yaml",)) == before


def test_preparation_made_otherwise(tmp_path: Path) -> None:
    swept(tmp_path, memories=["hybrid"])
    before = tree(tmp_path, without=("sweep.yaml",))
    with pytest.raises(FixtureError):
        swept(tmp_path, memories=["hybrid"], prepare={"embedder": "hashing:64"})
    assert tree(tmp_path, without=("sweep.yaml",)) == before


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"dataset": "sampel"}, "Did you mean 'sample'"),
        ({"dataset": "absent.json"}, "absent.json"),
        ({"judges": ["offline/lexcal"]}, "Did you mean 'offline/lexical'"),
        ({"votes": 2, "judges": ["openai/x"]}, "majority"),
        ({"models": ["opnai/x"]}, "Unknown model provider 'opnai'"),
        ({"models": ["openai/gpt-4o-mini"]}, "OPENAI_API_KEY"),
        ({"judges": [PRICED]}, "OPENAI_API_KEY"),
        ({"models": [f"offline/scripted:{Path(__file__).parent}/absent.json"]}, "cannot be read"),
        ({"models": [{"spec": "openai/own", "api_base": "http://localhost:1"}], "max_cost": 1}, "price of openai/own"),
        ({"selection": {"question_ids": ["q9"]}}, "has no question 'q9'"),
        ({"readings": [{"method": "direct", "context_window": 1000}]}, "no room for a prompt"),
    ],
)
def test_what_can_be_known_before_is_told_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: dict[str, Any], told: str
) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_API_BASE"):
        monkeypatch.delenv(name, raising=False)
    if "readings" in change:
        swept(tmp_path)
        shutil.rmtree(tmp_path / "results")
    with pytest.raises(HarnessError) as error:
        swept(tmp_path, **change)
    assert told in str(error.value)
    assert not (tmp_path / "results").exists()
    assert "readings" in change or not (tmp_path / "prepared-data").exists()


# What it costs


def sized(folder: Path, count: int) -> None:
    """A data set whose haystacks have messages of 40 and 20 characters."""
    sessions = [[{"role": "user", "content": "a" * 40, "has_answer": True}, {"role": "assistant", "content": "b" * 20}]]
    one = {"haystack_sessions": sessions, "haystack_dates": ["2023/05/20 (Sat) 02:21"]}
    ids = {"haystack_session_ids": ["answer_1"], "question": "q" * 12}
    write_dataset(folder / "colours.json", *(record(f"q{number:02}", **one, **ids) for number in range(count)))


def test_haystacks_tell_the_prompts_of_full_history_before_they_are_prepared(tmp_path: Path) -> None:
    sized(tmp_path, 3)
    estimate = estimated(tmp_path, memories=["full-history", "last-k"], models=[PRICED], judges=[PRICED])
    full, last = estimate.runs
    tokens = 3 * sum(token_counter(PRICED).count(text) for text in ("a" * 40, "b" * 20))
    # $0.15 and $0.60 for a million tokens; a reply may have 500.
    dollars = full.answering.dollars
    assert full.answering == Work(PRICED, 3, tokens, 1500, dollars, "the size of all 3 haystacks")
    assert dollars == pytest.approx(tokens * 0.15e-6 + 1500 * 0.6e-6)
    assert last.answering == Work(PRICED, None, None, None, None, "known after prepare")
    assert estimate.preparation.estimate["messages"] == 6
    assert estimate.unknown == ("the prompts of 1 runs, known after prepare",)
    (judging,) = full.judging
    assert (judging.calls, judging.completion_tokens, judging.basis) == (3, 30, "all 3 prompts")
    assert estimate.calls == 3 + 3 + 3
    assert not (tmp_path / "results").exists()
    assert not (tmp_path / "prepared-data").exists()


def test_tokens_of_haystacks_by_rule_of_thumb(tmp_path: Path) -> None:
    sized(tmp_path, 3)
    (run,) = estimated(tmp_path, memories=["full-history"]).runs
    # 40 / 4 + 20 / 4 for each of three questions.
    assert run.answering == Work(OFFLINE, 3, 45, 1500, 0.0, "the size of all 3 haystacks")
    assert run.judging == (Work(LEXICAL, 0, 0, 0, 0.0, "rules, no model"),)


@pytest.mark.parametrize("method", ["direct", "con", "con-separate"])
def test_where_fixtures_are_there_the_estimate_is_what_is_then_sent(
    tmp_path: Path, server: ModelServer, method: str
) -> None:
    server.responder = lambda body: "a fixed note of six words"
    models, readings = [served(server)], [method]
    swept(tmp_path, memories=["combined", "oracle"], prepare={"jobs": 1})
    estimate = estimated(tmp_path, memories=["combined", "oracle"], models=models, readings=readings, name="t")
    swept(tmp_path, memories=["combined", "oracle"], models=models, readings=readings, name="t")
    where = folders_in(tmp_path)
    for run in estimate.runs:
        sent = answers(where, run.run_id)
        assert run.questions_left == 4
        assert run.answering.calls == sum(one["usage"]["calls"] for one in sent)
        tokens = sum(one["prompt_tokens"] for one in sent)
        if method == "con-separate":
            # The answering prompt holds the notes, which are not known before: taken to be as long as may be.
            assert (run.answering.prompt_tokens or 0) > tokens + 4 * 500
        else:
            assert run.answering.prompt_tokens == tokens


def test_twenty_questions_stand_for_all(tmp_path: Path) -> None:
    sized(tmp_path, 50)
    swept(tmp_path, memories=["full-history"], judges=[LEXICAL])
    (run,) = estimated(tmp_path, name="t", memories=["full-history"], judges=[PRICED]).runs
    whole = answers(folders_in(tmp_path), "s_full-history_m_direct")
    assert run.answering.basis == "20 of 50 prompts"
    assert run.answering.prompt_tokens == sum(one["prompt_tokens"] for one in whole)
    assert (run.answering.calls, run.answering.completion_tokens) == (50, 25_000)
    assert (run.judging[0].calls, run.judging[0].completion_tokens, run.judging[0].basis) == (
        50,
        500,
        "20 of 50 prompts",
    )


def test_unknown_price_is_said_and_not_zero(tmp_path: Path, server: ModelServer) -> None:
    swept(tmp_path)
    estimate = estimated(tmp_path, name="t", models=[served(server, "openai/own")])
    assert [run.answering.dollars for run in estimate.runs] == [None, None]
    assert estimate.unknown == ("the price of openai/own",)
    assert "not in the price table" in estimate.notes[0]
    assert estimate.calls == 8
    assert server.requests == []


def test_only_what_is_left_is_estimated(tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    script.write_text(json.dumps({"q0": "red"}))
    models = [{"spec": f"offline/scripted:{script}", "name": "half"}]
    swept(tmp_path, memories=["none"], models=models)
    script.write_text(json.dumps({f"q{number}": "red" for number in range(4)}))
    (run,) = estimated(tmp_path, memories=["none"], models=models, judges=[LEXICAL, PRICED]).runs
    assert (run.questions_left, run.answering.calls) == (3, 3)
    assert run.judging[1].calls == 4


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
    changes, where = long_replies(tmp_path, server), folders_in(tmp_path)
    asked = len(server.chat_requests)
    with pytest.raises(SpendingLimitError, match="higher --max-cost: it goes on from here"):
        swept(tmp_path, max_cost=limit, **changes)
    kept = answers(where, "s_none_m_direct")
    assert len(kept) == len(server.chat_requests) - asked == 3
    spent = sum(one["usage"]["cost_usd"] for one in kept)
    assert spent <= limit
    with pytest.raises(HarnessError, match=rf"\${spent:.4f} are spent, and --max-cost is \${limit:.4f}"):
        swept(tmp_path, max_cost=limit, **changes)
    assert len(answers(where, "s_none_m_direct")) == 3
    report = swept(tmp_path, max_cost=7 * cost, **changes)
    assert report.newly_answered == 3
    assert report.estimate.spent == pytest.approx(spent)
    assert answers(where, "s_none_m_direct")[:3] == kept
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
    where = folders_in(tmp_path)
    spent = sum(
        one["usage"]["cost_usd"]
        for file in where.results_dir.rglob("*.jsonl")
        if file.name != "index.jsonl" and file.name != "prompts.jsonl"
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
        sweep(written(tmp_path, name="t", models=[served(server)], max_cost=0.0002), where=folders_in(tmp_path))
    assert server.requests == []
    assert not (tmp_path / "results" / "t_none_m_direct").exists()


def test_estimate_is_made_again_when_fixtures_are_there(tmp_path: Path, server: ModelServer) -> None:
    with pytest.raises(HarnessError, match="The sweep may cost up to"):
        swept(tmp_path, memories=["last-k"], models=[served(server)], max_cost=0.0001)
    assert (tmp_path / "prepared-data" / "colours").exists()
    assert server.requests == []


def test_unknown_provider_of_a_judge_is_no_surprise_at_the_end(tmp_path: Path) -> None:
    with pytest.raises(FatalModelError, match="opnai"):
        swept(tmp_path, judges=["opnai/x"])
    assert not (tmp_path / "results").exists()


# Dying


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sweep over thirty of the shipped haystacks, done without any fault."""
    folder = tmp_path_factory.mktemp("many")
    records = json.loads(data_file(catalogue_entry("sample"), folder).read_text())[:30]
    (folder / "colours.json").write_text(json.dumps(records))
    written(folder, memories=["full-history", "bm25"], readings=["direct", "con"])
    longmemeval("sweep", "sweep.yaml", cwd=folder)
    return folder


def with_data(many: Path, folder: Path) -> Folders:
    for name in ("colours.json", "sweep.yaml"):
        (folder / name).symlink_to(many / name)
    return folders_in(folder)


def test_killed_sweep_goes_on_where_it_was(many: Path, tmp_path: Path) -> None:
    where = with_data(many, tmp_path)
    first, last = where.results_dir / "s_full-history_m_direct", where.results_dir / "s_bm25_m_con"
    moments = [
        lambda: lines_in(tmp_path / "prepared-data" / "colours" / "default" / "prepare.jsonl") >= 5,
        lambda: lines_in(first / "answers.jsonl") >= 10,
        lambda: any(lines_in(file) >= 5 for file in (first / "judgements").glob("*.jsonl")),
        lambda: lines_in(last / "answers.jsonl") >= 5,
    ]
    for moment in moments:
        stop_when(start("sweep", "sweep.yaml", cwd=tmp_path), moment, signal.SIGKILL)
    kept = answers(where, first.name)
    longmemeval("sweep", "sweep.yaml", cwd=tmp_path)
    assert answers(where, first.name) == kept
    assert comparable(tmp_path / "results") == comparable(many / "results")
    assert litter(tmp_path) == []


def comparable(results: Path) -> dict[str, object]:
    """All files without times; hashes of what holds times are left out too."""
    return {name: _without_hash(content) for name, content in timeless(results).items()}


def _without_hash(content: object) -> object:
    if not isinstance(content, bytes):
        return content
    return {key: value for key, value in json.loads(content).items() if key != "judgements_sha256"}


def test_interrupt_ends_the_whole_sweep_and_keeps_what_is_there(many: Path, tmp_path: Path) -> None:
    where = with_data(many, tmp_path)
    journal = where.results_dir / "s_full-history_m_con" / "answers.jsonl"
    process = start("sweep", "sweep.yaml", cwd=tmp_path)
    told = stop_when(process, lambda: lines_in(journal) >= 5, signal.SIGINT)
    assert process.returncode == 130
    assert "Interrupted. What was finished is kept" in told
    assert "Traceback" not in told
    assert not (where.results_dir / "s_bm25_m_direct").exists()
    assert manifest(where, "s_full-history_m_con")["status"] == "interrupted"
    kept = answers(where, "s_full-history_m_con")
    longmemeval("sweep", "sweep.yaml", cwd=tmp_path)
    assert answers(where, "s_full-history_m_con")[: len(kept)] == kept
    assert comparable(tmp_path / "results") == comparable(many / "results")
