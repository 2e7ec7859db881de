"""Whatever goes wrong on the way to a model: every question ends answered, once, as if nothing had been."""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from longmemeval.dataset import Dataset
from longmemeval.errors import EndpointDownError
from longmemeval.llm.options import ModelOptions
from longmemeval.pipeline.evaluate.evaluate import EvaluateOptions, evaluate
from longmemeval.pipeline.prepare.prepare import PrepareOptions, prepare
from longmemeval.pipeline.run.answering import RunReport
from longmemeval.pipeline.run.plan import RunOptions
from longmemeval.pipeline.run.run import run
from longmemeval.pipeline.verify.verify import verify
from longmemeval.results.graded.graded_run import Evaluation
from longmemeval.results.selection import Selection
from longmemeval.settings import Folders
from tests.pipeline.helpers import answer_all, answers, colours, folders_in, manifest, start
from tests.server import Fault, ModelServer, black_hole, mixed_faults, nobody
from tests.support import fewer, json_lines, longmemeval

MANY = fewer(500, 150)
SOME = Selection(limit=60)
# Waits are short, so that these tests are; nothing else about them is unusual.
PATIENT = {"timeout_s": 3.0, "max_attempts": 12, "max_wait_s": 0.05}
SOON = {"timeout_s": 3.0, "max_wait_s": 0.05, "give_up_after_s": 4.0}


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer(reply) as running:
        yield running


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> tuple[Dataset, Folders]:
    folder = tmp_path_factory.mktemp("many")
    dataset, folders = colours(folder / "colours.json", MANY), folders_in(folder)
    prepare(dataset, ["none"], options=PrepareOptions(jobs=1), folders=folders)
    return dataset, folders


@pytest.fixture
def workspace(prepared: tuple[Dataset, Folders], tmp_path: Path) -> tuple[Dataset, Folders]:
    """The same fixtures, and results of one's own."""
    dataset, folders = prepared
    return dataset, folders.model_copy(update={"results_dir": tmp_path / "results"})


def right(number: int) -> str:
    """The reply to question `number`."""
    return f"Bicycle {number} is {'green' if number % 3 else 'plaid'}."


def reply(body: dict[str, Any]) -> str:
    """Answers what colour a bicycle has; as a judge, says yes to every answer that is not plaid."""
    prompt = body["messages"][-1]["content"]
    if "Answer yes or no" in prompt or "Is the model response correct" in prompt:
        return "no" if "plaid" in prompt else "yes"
    numbers = re.findall(r"bicycle(\d+)\?", prompt)
    return right(int(numbers[-1]))


def ask(server: ModelServer, dataset: Dataset, folders: Folders, selection: Selection, **patience: object) -> RunReport:
    model_options = structs.replace(ModelOptions(server.url), **patience)
    options = RunOptions(run_id="r", concurrency=32, model_options=model_options)
    return run(dataset, "none", "openai/local", selection=selection, options=options, folders=folders)


def judge(server: ModelServer, folders: Folders, **patience: object) -> Evaluation:
    model_options = structs.replace(ModelOptions(server.url), **patience)
    options = EvaluateOptions(judge="openai/judge", concurrency=32, model_options=model_options)
    return evaluate("r", options=options, folders=folders)


def assert_all_answered(folders: Folders, count: int) -> None:
    """Every question has one answer, and it is the right one."""
    final = [one for one in answers(folders) if one["status"] == "ok"]
    assert {one["question_id"]: one["hypothesis"] for one in final} == {
        f"q{number}": right(number) for number in range(count)
    }
    assert len(final) == count
    assert manifest(folders)["status"] == "completed"
    assert manifest(folders)["totals"]["answered"] == count
    assert verify("r", folders=folders).problems == ()


def labels(folders: Folders) -> dict[str, bool | None]:
    (file,) = (folders.results_dir / "r" / "judgements").glob("*.jsonl")
    return {line["question_id"]: line["label"] for line in json_lines(file)}


def test_every_question_is_answered_once_whatever_goes_wrong(
    server: ModelServer, workspace: tuple[Dataset, Folders]
) -> None:
    dataset, folders = workspace
    server.plan = mixed_faults(0)
    report = ask(server, dataset, folders, Selection(), **PATIENT)
    assert (report.answered, report.failed, report.empty) == (MANY, 0, ())
    # None failed on the way either.
    assert len(answers(folders)) == MANY
    assert_all_answered(folders, MANY)
    assert len(server.chat_requests) > MANY * 1.1
    asked = Counter(one.body["messages"][-1]["content"] for one in server.chat_requests)
    tries = {one["prompt_sha256"]: one["attempts"] for one in answers(folders)}
    assert sum(asked.values()) == sum(tries.values())
    server.plan = mixed_faults(1)
    judged = judge(server, folders, **PATIENT)
    assert (judged.newly_judged, judged.failed) == (MANY, 0)
    assert labels(folders) == {f"q{number}": number % 3 > 0 for number in range(MANY)}


@pytest.mark.variants
@pytest.mark.parametrize("fault", [500, "drop", "hang"])
def test_an_endpoint_that_is_dead_from_the_start(
    server: ModelServer, workspace: tuple[Dataset, Folders], fault: Fault
) -> None:
    dataset, folders = workspace
    server.plan = lambda: fault
    with pytest.raises(EndpointDownError, match=r"failed every call.*0 of 60 answers are kept"):
        ask(server, dataset, folders, SOME, **SOON)
    assert len(server.chat_requests) < 32 + 20
    assert answers(folders) == []
    assert manifest(folders)["status"] == "incomplete"
    server.plan = lambda: None
    assert ask(server, dataset, folders, SOME, **SOON).newly_answered == 60
    assert_all_answered(folders, 60)


@pytest.mark.thorough
@pytest.mark.parametrize("network", ["refuses", "swallows", "fails"])
def test_judging_at_an_endpoint_that_is_dead_from_the_start(
    server: ModelServer, workspace: tuple[Dataset, Folders], network: str
) -> None:
    dataset, folders = workspace
    ask(server, dataset, folders, SOME)
    server.plan = lambda: 500
    with black_hole() as hole:
        url = {"refuses": nobody(), "swallows": hole, "fails": server.url}[network]
        options = ModelOptions(url, timeout_s=3.0, max_wait_s=0.05, give_up_after_s=4.0)
        with pytest.raises(EndpointDownError, match=r"0 of 60 answers have a label and keep it"):
            evaluate(
                "r", options=EvaluateOptions("openai/judge", model_options=options, concurrency=32), folders=folders
            )
    assert not (folders.results_dir / "r" / "metrics").exists()
    server.plan = lambda: None
    assert judge(server, folders).newly_judged == 60
    assert verify("r", folders=folders).problems == ()


def test_evaluate_without_network_says_so_within_seconds(workspace: tuple[Dataset, Folders], tmp_path: Path) -> None:
    dataset, folders = workspace
    answer_all(dataset, folders, memory="none", selection=SOME)
    places = ("--prepared-dir", folders.prepared_dir, "--results-dir", folders.results_dir)
    process = start("evaluate", "r", "--judge", "openai/judge", "--api-base", nobody(), *places, cwd=tmp_path)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "cannot be reached" in told
    assert "No connection could be made" in told
    assert "0 of 60 answers have a label and keep it" in told


def dying(server: ModelServer, after: int, fault: Fault) -> Callable[[], Fault | None]:
    """The server answers so many requests, and then nothing."""
    return lambda: fault if len(server.chat_requests) > after else None


@pytest.mark.variants
@pytest.mark.parametrize("fault", [503, "drop", "hang"])
def test_an_endpoint_that_dies_on_the_way(
    server: ModelServer, workspace: tuple[Dataset, Folders], fault: Fault
) -> None:
    dataset, folders = workspace
    server.plan = dying(server, 25, fault)
    with pytest.raises(EndpointDownError, match="25 of 60 answers are kept"):
        ask(server, dataset, folders, SOME, **SOON)
    kept = answers(folders)
    assert len(kept) == 25
    server.plan = lambda: None
    assert ask(server, dataset, folders, SOME, **SOON).newly_answered == 35
    assert answers(folders)[:25] == kept
    assert_all_answered(folders, 60)
    asked = len(server.chat_requests)
    server.plan = dying(server, asked + 20, fault)
    with pytest.raises(EndpointDownError, match="20 of 60 answers have a label and keep it"):
        judge(server, folders, **SOON)
    assert len(labels(folders)) == 20
    server.plan = lambda: None
    assert judge(server, folders, **SOON).newly_judged == 40
    assert labels(folders) == {f"q{number}": number % 3 > 0 for number in range(60)}


def test_commands_say_what_the_endpoint_said_and_how_to_go_on(
    server: ModelServer, workspace: tuple[Dataset, Folders], tmp_path: Path
) -> None:
    dataset, folders = workspace
    server.plan = dying(server, 3, 503)
    places = ("--prepared-dir", folders.prepared_dir, "--results-dir", folders.results_dir)
    command = (
        "run", "--dataset", dataset.path, "--memory", "none", "--model", "openai/local", "--limit", "12", *places,
        "--run-id", "r", "--api-base", server.url, "--give-up-after", "4", "--max-attempts", "50",
    )  # fmt: skip
    ended = longmemeval(*command, cwd=tmp_path, code=1)
    told = " ".join(ended.stderr.split())
    assert "has failed every call for" in told
    assert "Last error: The server is busy or failed, 503: refused on purpose" in told
    assert "(run 'r': 3 of 12 answers are kept)" in told
    assert "Rerun the same command when it answers again" in told
    assert "Traceback" not in told
    assert "never awaited" not in told
    server.plan = lambda: None
    again = longmemeval(*command, cwd=tmp_path)
    assert "Run r: 12 of 12 questions answered" in again.stdout
    assert "(9 now)" in again.stdout
