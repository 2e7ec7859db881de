"""An empty reply is no answer: it is asked for again, told of, and never judged. A reply that was cut is told of."""

import json
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from longmemeval.judges.offline.lexical import LEXICAL_JUDGE
from longmemeval.pipeline.evaluate.evaluate import EvaluateOptions, evaluate
from longmemeval.pipeline.verify.verify import verify
from longmemeval.reading.configuration import reading_configuration
from longmemeval.results.formats.hypotheses import adopt_hypotheses
from longmemeval.results.graded.graded_run import Evaluation
from longmemeval.settings import Folders
from tests.pipeline.helpers import answer_all, answers, ask, folders_in, manifest, patience, prepared_colours
from tests.server import ModelServer
from tests.support import longmemeval, next_steps


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer(lambda body: "It is green.") as running:
        yield running


def judged(folders: Folders, server: ModelServer) -> Evaluation:
    return evaluate("r", options=EvaluateOptions(judge="openai/judge", model_options=patience(server)), folders=folders)


def test_an_empty_reply_is_asked_for_again(tmp_path: Path, server: ModelServer) -> None:
    dataset, folders = prepared_colours(tmp_path)
    server.faults.extend(["empty", "no-choices"])
    report = ask(dataset, folders, server)
    assert (report.answered, report.empty) == (4, ())
    assert [one["attempts"] for one in answers(folders)] == [3, 1, 1, 1]
    assert answers(folders)[0]["usage"]["calls"] == 3
    assert manifest(folders)["status"] == "completed"


def test_what_stays_empty_is_no_answer_and_is_asked_again_on_resume(tmp_path: Path, server: ModelServer) -> None:
    dataset, folders = prepared_colours(tmp_path)
    server.faults.extend(["empty"] * 3 + ["null-content"] * 2)
    report = ask(dataset, folders, server)
    assert (report.answered, report.failed, report.empty) == (2, 2, ("q0", "q1"))
    first, second, *_ = answers(folders)
    assert (first["status"], first["finish_reason"], first["hypothesis"]) == ("error", "stop", "")
    assert first["error"] == "The reply is empty (finish reason: stop; 3 attempts)."
    assert (second["status"], second["finish_reason"]) == ("error", "length")
    assert "2 attempts" in second["error"]
    assert "higher --max-tokens" in second["error"]
    assert first["usage"]["prompt_tokens"] > 0
    assert (manifest(folders)["status"], manifest(folders)["totals"]["empty"]) == ("incomplete", 2)
    assert verify("r", folders=folders).problems == ()
    # The judge sees the two answers that there are.
    asked = len(server.chat_requests)
    server.responder = lambda body: "yes"
    metrics = judged(folders, server).metrics
    assert len(server.chat_requests) - asked == 2
    assert (metrics.overall.n, metrics.overall.correct, metrics.overall.not_evaluated) == (4, 2, 2)
    server.responder = lambda body: "It is green."
    again = ask(dataset, folders, server)
    assert (again.newly_answered, again.answered, again.empty) == (2, 4, ())
    assert manifest(folders)["status"] == "completed"
    assert [one["question_id"] for one in answers(folders)] == ["q0", "q1", "q2", "q3", "q0", "q1"]
    # The scores were made before two of the answers were there.
    (stale,) = verify("r", folders=folders).problems
    assert "is older than the last lines of answers.jsonl" in stale
    server.responder = lambda body: "yes"
    assert judged(folders, server).metrics.overall.correct == 4
    assert verify("r", folders=folders).problems == ()


def test_the_summary_names_empty_and_cut_replies_and_what_comes_next(tmp_path: Path, server: ModelServer) -> None:
    dataset, _ = prepared_colours(tmp_path)
    server.faults.extend(["null-content"] * 2 + ["cut"])
    command = ("run", "--dataset", dataset.path, "--memory", "last-k", "--model", "openai/local", "--run-id", "r")
    calls = ("--api-base", server.url, "--max-attempts", "2", "--concurrency", "1")
    done = longmemeval(*command, *calls, cwd=tmp_path, code=1)
    assert "Run r: 3 of 4 questions answered" in done.stdout
    assert "Cut off at --max-tokens (finish reason: length): 1 answer" in done.stdout
    assert "Only empty replies: 1 question: q0" in done.stderr
    assert "Begin a new run with a higher --max-tokens" in done.stderr
    (suggested,) = next_steps(done.stdout)
    assert suggested == [*map(str, command[:-2]), *calls, "--resume", "r"]
    again = longmemeval(*suggested, cwd=tmp_path)
    assert "(1 now)" in again.stdout
    assert next_steps(again.stdout)[0][:2] == ["evaluate", "r"]


def test_after_an_offline_run_comes_an_offline_judge(tmp_path: Path) -> None:
    dataset, _ = prepared_colours(tmp_path)
    command = ("run", "--dataset", dataset.path, "--memory", "last-k", "--model", "offline/extractive", "--run-id", "r")
    for _ in range(2):
        done = longmemeval(*command, cwd=tmp_path)
        assert next_steps(done.stdout) == [["evaluate", "r", "--judge", "offline/lexical"]]
    longmemeval("evaluate", "r", "--judge", "offline/lexical", cwd=tmp_path)


def test_cut_replies_are_counted(tmp_path: Path, server: ModelServer) -> None:
    dataset, folders = prepared_colours(tmp_path)
    server.faults.extend(["cut", "cut"])
    report = ask(dataset, folders, server)
    assert (report.answered, report.cut) == (4, 2)
    assert manifest(folders)["totals"]["cut"] == 2
    assert manifest(folders)["status"] == "completed"


def test_answers_that_broke_off_for_another_reason_are_kept_and_told(tmp_path: Path, server: ModelServer) -> None:
    dataset, folders = prepared_colours(tmp_path)
    server.choice = lambda body: {"finish_reason": "pause_turn"}
    report = ask(dataset, folders, server)
    assert (report.answered, report.cut, report.broke_off) == (4, 0, {"pause_turn": 4})
    assert {one["finish_reason"] for one in answers(folders)} == {"pause_turn"}
    assert verify("r", folders=folders).problems == ()
    again = ("run", "--dataset", dataset.path, "--memory", "last-k", "--model", "openai/colours", "--run-id", "s")
    told = longmemeval(*again, "--api-base", server.url, cwd=tmp_path).stdout
    assert "Broken off (finish reason: pause_turn): 4 answers" in told


def test_a_reply_that_was_broken_off_is_asked_for_again(tmp_path: Path, server: ModelServer) -> None:
    dataset, folders = prepared_colours(tmp_path)
    server.choice = lambda body: {"finish_reason": "stop" if len(server.chat_requests) > 2 else "error"}
    assert ask(dataset, folders, server).answered == 4
    assert len(server.chat_requests) == 6


def test_a_refusal_is_told_in_its_own_words(tmp_path: Path, server: ModelServer) -> None:
    dataset, folders = prepared_colours(tmp_path)
    server.message = lambda body: {"content": None, "refusal": "I cannot help with that."}
    report = ask(dataset, folders, server)
    assert (report.answered, len(server.chat_requests)) == (0, 8)
    assert "the server said: I cannot help with that." in report.failures.commonest


def test_notes_that_broke_off_are_named(tmp_path: Path, server: ModelServer) -> None:
    dataset, folders = prepared_colours(tmp_path)
    notes = iter(["length"])
    server.choice = lambda body: {"finish_reason": next(notes, "stop")}
    ask(dataset, folders, server, reading=reading_configuration("con-separate"))
    assert [note for one in answers(folders) for note in one["notes"] if "broke off" in note] == [
        "1 reply before the answer broke off (length)"
    ]


def test_a_note_that_stays_empty_is_an_empty_note(tmp_path: Path, server: ModelServer) -> None:
    dataset, folders = prepared_colours(tmp_path, 1)
    server.faults.extend(["empty"] * 3)
    report = ask(dataset, folders, server, reading=reading_configuration("con-separate"))
    assert (report.answered, report.empty) == (1, ())


def test_an_empty_hypothesis_of_another_system_stays_an_answer(tmp_path: Path) -> None:
    dataset, folders = prepared_colours(tmp_path)
    answer_all(dataset, folders)
    file = tmp_path / "theirs.jsonl"
    file.write_text("".join(json.dumps({"question_id": f"q{one}", "hypothesis": ""}) + "\n" for one in range(4)))
    adopted = adopt_hypotheses(file, dataset, folders_in(tmp_path).results_dir)
    evaluation = evaluate(adopted.run_id, options=EvaluateOptions(judge=LEXICAL_JUDGE), folders=folders)
    assert evaluation.newly_judged == 4
    assert msgspec.to_builtins(evaluation.metrics.overall)["not_evaluated"] == 0
