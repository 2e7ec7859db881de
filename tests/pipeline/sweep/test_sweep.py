"""A sweep does what is left to do and nothing else, goes on past what fails, and refuses what cannot work."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from longmemeval.errors import FatalModelError, FixtureError, HarnessError
from longmemeval.pipeline.estimate.stages import Calls
from longmemeval.pipeline.sweep.sweep import SweepReport
from longmemeval.pipeline.verify.verify import verify
from longmemeval.results.listing import named_runs, planned_runs
from tests.benchmarks.locomo.test_loader import make_conversation
from tests.benchmarks.longmemeval.test_loader import write
from tests.pipeline.helpers import colours, folders_in, manifest
from tests.pipeline.sweeps import BASE, LEXICAL, OFFLINE, PRICED, estimated, served, swept
from tests.server import ModelServer, Refusal
from tests.support import json_lines, tree


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-tests")
    with ModelServer(lambda body: "green") as server:
        yield server


def accuracies(report: SweepReport, judge: int = 0) -> dict[str, float]:
    runs = report.comparisons[judge].comparison.runs
    return {one.summary.run_id: one.summary.metrics.overall.accuracy for one in runs}


# Doing it


@pytest.mark.slow
def test_everything_is_run_graded_and_compared(tmp_path: Path) -> None:
    report = swept(tmp_path, readings=["direct", "con"])
    assert report.runs == ("s_none_m_direct", "s_none_m_con", "s_last-k_m_direct", "s_last-k_m_con")
    assert (report.newly_answered, report.newly_judged, report.failures) == (16, 16, ())
    assert accuracies(report) == dict(zip(report.runs, (0.0, 0.0, 1.0, 1.0), strict=True))
    assert len(report.comparisons[0].comparison.pairs) == 6
    assert set(report.comparisons[0].front) <= set(report.runs)
    folders = folders_in(tmp_path)
    assert [verify(run_id, folders=folders).problems for run_id in report.runs] == [()] * 4
    assert manifest(folders, "s_last-k_m_con")["settings"]["reading"]["method"] == "con"
    assert len(json_lines(folders.prepared_dir / "colours" / "default" / "prepare.jsonl")) == 4


@pytest.mark.slow
def test_what_is_yet_to_run_is_on_record(tmp_path: Path) -> None:
    results = folders_in(tmp_path).results_dir
    estimated(tmp_path)
    assert planned_runs(results) == []
    swept(tmp_path)
    assert planned_runs(results) == []
    shutil.rmtree(results / "s_last-k_m_direct")
    (one,) = planned_runs(results)
    assert (one.run, one.memory, one.model, one.questions) == ("s_last-k_m_direct", "last-k", OFFLINE, 4)
    assert (one.status, one.sweep, one.dataset) == ("planned", "s", "colours")


@pytest.mark.slow
def test_runs_record_their_sweep(tmp_path: Path) -> None:
    """`s_none`, the other sweep's name, is how the ids of this sweep begin."""
    mine = swept(tmp_path).runs
    other = swept(tmp_path, name="s_none", memories=["none"]).runs
    results = folders_in(tmp_path).results_dir
    assert sorted(named_runs([], results, sweep="s")) == sorted(mine)
    assert named_runs([], results, sweep="s_none") == list(other)


@pytest.mark.slow
def test_second_time_no_byte_changes(tmp_path: Path) -> None:
    first = swept(tmp_path)
    before = tree(tmp_path)
    times = {path: path.stat().st_mtime_ns for path in (tmp_path / "results").rglob("*")}
    again = swept(tmp_path)
    assert (again.newly_answered, again.newly_judged) == (0, 0)
    assert (again.estimate.complete, again.estimate.runs) == (2, ())
    assert first.estimate.planning.startswith("4 questions are too few for a significant difference")
    assert again.estimate.planning == ""
    assert again.comparisons == first.comparisons
    assert tree(tmp_path) == before
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "results").rglob("*")} == times


@pytest.mark.slow
def test_only_what_an_added_entry_asks_for_is_done(tmp_path: Path) -> None:
    swept(tmp_path)
    before = tree(tmp_path / "results", without=("index.jsonl", "s_plan.json"))
    report = swept(tmp_path, memories=["bm25", "none", "last-k", "combined"], judges=[LEXICAL], repeat=2)
    assert len(report.runs) == 8
    assert report.newly_answered == 4 * 6
    after = tree(tmp_path / "results")
    assert {name: after[name] for name in before} == before
    assert manifest(folders_in(tmp_path), "s_none_m_direct_r2")["settings"]["repeat"] == 2
    assert len(report.comparisons[0].comparison.repeats) == 4


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
def test_prompts_that_do_not_fit_are_failures_that_the_estimate_foretells(tmp_path: Path) -> None:
    readings = [{"method": "direct", "name": "tight", "context_window": 1540}, "direct"]
    report = swept(tmp_path, memories=["last-k"], readings=readings)
    (failure,) = report.failures
    assert failure.run_id == "s_last-k_m_tight"
    assert "fit the model's window" in failure.what
    # Without an answer there is no score.
    assert accuracies(report) == {"s_last-k_m_direct": 1.0}
    (left,) = estimated(tmp_path, memories=["last-k"], readings=readings).runs
    assert left.answering.work == Calls(OFFLINE, 0, 0, 0, 0.0, "all 4 prompts", counted=4, too_long=4)


@pytest.mark.slow
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
    assert [failure.what.partition(" by ")[0] for failure in report.failures] == ["3 answers could not be graded"]
    assert report.newly_judged == 1


# What is refused before anything is done


@pytest.mark.slow
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
        ({"dataset": "others.json"}, "dataset content"),
    ],
)
def test_run_that_was_begun_as_something_else(tmp_path: Path, change: dict[str, Any], told: str) -> None:
    swept(tmp_path, memories=["none"])
    colours(tmp_path / "others.json", 4, question_date="2023/06/30 (Fri) 23:40")
    before = tree(tmp_path, without=("sweep.yaml",))
    with pytest.raises(HarnessError, match="'s_none_m_direct' was started with other settings") as error:
        swept(tmp_path, **{"memories": ["bm25", "none"], **change})
    assert told in str(error.value)
    assert tree(tmp_path, without=("sweep.yaml",)) == before


@pytest.mark.slow
def test_preparation_made_otherwise(tmp_path: Path) -> None:
    swept(tmp_path, memories=["hybrid"])
    before = tree(tmp_path, without=("sweep.yaml",))
    with pytest.raises(FixtureError):
        swept(tmp_path, memories=["hybrid"], prepare={"embedder": "hashing:64"})
    assert tree(tmp_path, without=("sweep.yaml",)) == before


@pytest.mark.slow
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


def test_unknown_provider_of_a_judge_is_no_surprise_at_the_end(tmp_path: Path) -> None:
    with pytest.raises(FatalModelError, match="opnai"):
        swept(tmp_path, judges=["opnai/x"])
    assert not (tmp_path / "results").exists()


@pytest.mark.slow
def test_questions_that_a_judge_leaves_out_are_settled(tmp_path: Path) -> None:
    """Mem0's score leaves LoCoMo's adversarial questions out: the sweep is done all the same, and stays done."""
    write(tmp_path / "talks.json", make_conversation())
    first = swept(tmp_path, dataset="talks.json", judges=["offline/mem0-f1"])
    assert (first.failures, first.newly_judged, len(first.comparisons)) == ((), 10, 1)
    before = tree(tmp_path / "results")
    again = swept(tmp_path, dataset="talks.json", judges=["offline/mem0-f1"])
    assert (again.failures, again.newly_judged) == ((), 0)
    assert tree(tmp_path / "results") == before


def test_a_dead_endpoint_is_given_up_once_and_the_other_models_have_their_turn(
    tmp_path: Path, server: ModelServer
) -> None:
    server.plan = lambda: 503
    models = [served(server, "openai/local", "dead") | {"max_attempts": 6}, {"spec": OFFLINE, "name": "m"}]
    changes: dict[str, Any] = {"memories": ["none", "last-k"], "models": models, "repeat": 2, "give_up_after": 1.0}
    report = swept(tmp_path, **changes)
    told = {failure.run_id: failure.what for failure in report.failures}
    assert list(told) == [
        "s_none_dead_direct",
        "s_last-k_dead_direct",
        "s_none_dead_direct_r2",
        "s_last-k_dead_direct_r2",
    ]
    first, *others = told.values()
    assert "has failed every call" in first
    assert all("its endpoint failed earlier in this sweep" in what for what in others)
    assert len(server.chat_requests) < 30
    server.plan = lambda: None
    again = swept(tmp_path, **changes)
    assert (again.newly_answered, again.failures) == (4 * 4, ())
