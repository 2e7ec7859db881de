"""A run that cannot come to anything ends at once and says why: every context too long, answers moved away."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from longmemeval.errors import FatalModelError, HarnessError, IntegrityError
from longmemeval.llm.options import ModelOptions
from longmemeval.pipeline.evaluate.evaluate import EvaluateOptions, evaluate
from longmemeval.pipeline.run.plan import RunOptions
from longmemeval.pipeline.run.run import run
from longmemeval.pipeline.verify.verify import verify
from longmemeval.pipeline.workers import ENOUGH_FAILURES, AllFailedError
from longmemeval.reading.configuration import reading_configuration
from tests.pipeline.helpers import answer_all, answers, ask, manifest, prepared_colours, start, stop_when
from tests.server import Fault, ModelServer, Refusal
from tests.support import longmemeval

TOO_LONG = Refusal(400, "This model's maximum context length is 8192 tokens", code="context_length_exceeded")


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer(lambda body: "It is green.") as running:
        yield running


@pytest.mark.parametrize(
    ("fault", "why", "remedy"),
    [
        (TOO_LONG, "maximum context length is 8192", "--on-overflow drop-oldest"),
        (Refusal(400, "'top_p' is not supported"), "'top_p' is not supported", ""),
    ],
)
def test_a_run_ends_early_when_every_question_fails_in_the_same_way(
    tmp_path: Path, server: ModelServer, fault: Fault, why: str, remedy: str
) -> None:
    dataset, folders = prepared_colours(tmp_path, 60)
    server.plan = lambda: fault
    with pytest.raises(AllFailedError) as caught:
        ask(dataset, folders, server, concurrency=4)
    told = str(caught.value)
    assert "questions failed in the same way and none was answered, so the rest is not tried" in told
    assert why in told
    assert remedy in told
    assert caught.value.exit_code == 1
    assert ENOUGH_FAILURES <= len(answers(folders)) <= ENOUGH_FAILURES + 4
    assert manifest(folders)["status"] == "failed"
    assert verify("r", folders=folders).problems == ()


def test_a_model_that_spends_its_limit_before_the_first_word_ends_a_run_early(
    tmp_path: Path, server: ModelServer
) -> None:
    dataset, folders = prepared_colours(tmp_path, 60)
    server.plan = lambda: "null-content"
    with pytest.raises(FatalModelError, match="--reasoning-budget"):
        ask(dataset, folders, server, concurrency=4)
    assert len(server.chat_requests) < 20
    assert manifest(folders)["status"] == "failed"
    assert verify("r", folders=folders).problems == ()
    server.plan = lambda: None
    assert ask(dataset, folders, server, concurrency=4).answered == 60


@pytest.mark.slow
def test_prompts_that_our_own_check_finds_too_long_end_a_run_early(tmp_path: Path) -> None:
    dataset, folders = prepared_colours(tmp_path, 60)
    options = RunOptions(run_id="r", reading=reading_configuration(max_tokens=50, context_window=1051))
    with pytest.raises(AllFailedError, match=r"1 fit the model's window.*--budget.*--on-overflow drop-oldest"):
        run(dataset, "last-k", "offline/extractive", options=options, folders=folders)
    assert ENOUGH_FAILURES <= len(answers(folders)) < 60


def test_one_answer_is_enough_to_go_on(tmp_path: Path, server: ModelServer) -> None:
    dataset, folders = prepared_colours(tmp_path, 40)
    faults: list[Fault] = [TOO_LONG] * 10
    server.faults.extend(faults)
    server.faults.append("slow:0")
    server.faults.extend([TOO_LONG] * 29)
    report = ask(dataset, folders, server, concurrency=1)
    assert (report.answered, report.failed) == (1, 39)
    # Also when the answers are those of an earlier start.
    server.plan = lambda: TOO_LONG
    assert ask(dataset, folders, server, concurrency=4).answered == 1


def test_failures_of_several_kinds_do_not_end_a_run(tmp_path: Path, server: ModelServer) -> None:
    dataset, folders = prepared_colours(tmp_path, 30)
    server.faults.extend([TOO_LONG, 400] * 15)
    report = ask(dataset, folders, server, concurrency=1)
    assert (report.answered, report.failed) == (0, 30)


REFUSED = Refusal(400, "model 'judge' is not loaded; 'temperature' must be 1")


@pytest.mark.variants
@pytest.mark.parametrize(
    ("fault", "why", "ended"),
    [
        (REFUSED, "calls of the judge failed in the same way and none was answered, so the rest", AllFailedError),
        ("null-content", "spent its whole limit", FatalModelError),
    ],
)
@pytest.mark.parametrize("votes", [1, 3])
def test_judging_ends_early_when_every_call_fails_in_the_same_way(
    tmp_path: Path, server: ModelServer, fault: Fault, why: str, ended: type[HarnessError], votes: int
) -> None:
    dataset, folders = prepared_colours(tmp_path, 60)
    answer_all(dataset, folders)
    server.plan, server.responder = lambda: fault, lambda body: "yes"
    patience = ModelOptions(server.url, max_attempts=2, max_wait_s=0.01)
    options = EvaluateOptions(judge="openai/judge", votes=votes, concurrency=4, model_options=patience)
    with pytest.raises(ended) as caught:
        evaluate("r", options=options, folders=folders)
    assert why in str(caught.value)
    assert len(server.chat_requests) < 2 * (ENOUGH_FAILURES + 4 * votes) < 120
    assert not (folders.results_dir / "r" / "metrics").exists()
    # Once the endpoint is mended, the same command goes on.
    server.plan = lambda: None
    again = evaluate("r", options=options, folders=folders)
    assert (again.newly_judged, again.failed) == (60, 0)
    assert verify("r", folders=folders).problems == ()


@pytest.mark.thorough
def test_one_label_is_enough_to_go_on_judging(tmp_path: Path, server: ModelServer) -> None:
    dataset, folders = prepared_colours(tmp_path, 40)
    answer_all(dataset, folders)
    server.responder = lambda body: "yes"
    unloaded = Refusal(400, "model 'judge' is not loaded")
    server.faults.extend([unloaded] * 10)
    server.faults.append("slow:0")
    server.faults.extend([unloaded] * 29)
    options = EvaluateOptions(judge="openai/judge", concurrency=1, model_options=ModelOptions(server.url))
    assert evaluate("r", options=options, folders=folders).failed == 39
    # Also when the labels are those of an earlier start.
    server.plan = lambda: unloaded
    assert evaluate("r", options=options, folders=folders).failed == 39


def test_the_command_tells_what_the_judges_endpoint_said(tmp_path: Path, server: ModelServer) -> None:
    dataset, folders = prepared_colours(tmp_path, 40)
    answer_all(dataset, folders)
    server.plan = lambda: REFUSED
    done = longmemeval("evaluate", "r", "--judge", "openai/judge", "--api-base", server.url, cwd=tmp_path, code=1)
    told = " ".join(done.stderr.split())
    assert "model 'judge' is not loaded; 'temperature' must be 1" in told
    assert "Traceback" not in told
    assert done.stdout == ""


def moved(path: Path) -> None:
    path.rename(path.with_name("elsewhere.jsonl"))


def folder_moved(path: Path) -> None:
    path.parent.rename(path.parent.with_name("away"))


def at_request(server: ModelServer, number: int, happens: Callable[[], object]) -> Callable[[object], str]:
    """A responder on whose watch something happens once."""
    done = threading.Lock()

    def answer(body: object) -> str:
        if len(server.chat_requests) >= number and done.acquire(blocking=False):
            happens()
        return "yes"

    return answer


@pytest.mark.parametrize("happens", [moved, Path.unlink, folder_moved])
def test_answers_that_are_moved_away_stop_the_run_at_once(
    tmp_path: Path, server: ModelServer, happens: Callable[[Path], None]
) -> None:
    dataset, folders = prepared_colours(tmp_path, 60)
    journal = folders.results_dir / "r" / "answers.jsonl"
    server.responder = at_request(server, 9, lambda: happens(journal))
    # Of a folder that is gone the prompts are missed first.
    with pytest.raises(IntegrityError, match=r"(answers|prompts)\.jsonl was moved, deleted or replaced.*Put it back"):
        ask(dataset, folders, server, concurrency=2)
    assert len(server.chat_requests) < 16
    if happens is moved:
        # The manifest is as the run left it when it was begun, and nothing is lost.
        assert manifest(folders)["status"] == "running"
        (journal.with_name("elsewhere.jsonl")).rename(journal)
        server.responder = lambda body: "It is green."
        report = ask(dataset, folders, server, concurrency=4)
        assert (report.answered, manifest(folders)["status"]) == (60, "completed")
        assert len({one["question_id"] for one in answers(folders)}) == len(answers(folders)) == 60


def test_judgements_that_are_moved_away_stop_the_judge_at_once(tmp_path: Path, server: ModelServer) -> None:
    dataset, folders = prepared_colours(tmp_path, 40)
    answer_all(dataset, folders)
    judgements = folders.results_dir / "r" / "judgements"
    server.responder = at_request(server, 5, lambda: moved(next(judgements.glob("*.jsonl"))))
    options = EvaluateOptions(judge="openai/judge", concurrency=2, model_options=ModelOptions(server.url))
    with pytest.raises(IntegrityError, match="was moved, deleted or replaced"):
        evaluate("r", options=options, folders=folders)
    assert len(server.chat_requests) < 12


def test_the_command_says_so(tmp_path: Path, server: ModelServer) -> None:
    dataset, folders = prepared_colours(tmp_path, 60)
    server.plan = lambda: "slow:0.05"
    process = start(
        "run", "--dataset", dataset.path, "--memory", "last-k", "--model", "openai/local", "--run-id", "r",
        "--api-base", server.url, cwd=tmp_path,
    )  # fmt: skip
    journal = folders.results_dir / "r" / "answers.jsonl"

    def taken_away() -> bool:
        if not journal.exists() or not journal.stat().st_size:
            return False
        journal.unlink()
        return True

    # Signal 0 does nothing: the command finds out by itself.
    told = stop_when(process, taken_away, 0)
    assert process.returncode == 3
    assert "answers.jsonl was moved, deleted or replaced while it was being written" in " ".join(told.split())
    assert "Traceback" not in told
