"""A process that dies at any moment loses nothing that was finished; the same command again ends as if undisturbed."""

import json
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from longmemeval.datasets.catalogue import catalogue_entry, data_file
from longmemeval.pipeline.verify import verify
from longmemeval.settings import Folders
from tests.pipeline.helpers import (
    answer_all,
    answers,
    folders_in,
    lines_in,
    litter,
    manifest,
    prepared_colours,
    start,
    stop_when,
    timeless,
)
from tests.server import ModelServer
from tests.support import json_lines, longmemeval

PREPARE = ("prepare", "--dataset", "many.json", "--memory", "combined")
RUN = ("run", "--dataset", "many.json", "--memory", "full-history", "--model", "offline/extractive", "--run-id", "r")


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a data set of which preparing takes a second or two: the shipped haystacks, several times."""
    folder = tmp_path_factory.mktemp("many")
    records = json.loads(data_file(catalogue_entry("sample"), folder).read_text())[:40]
    copies = [one | {"question_id": f"{one['question_id']}-{copy}"} for copy in range(3) for one in records]
    (folder / "many.json").write_text(json.dumps(copies))
    return folder


@pytest.fixture(scope="module")
def undisturbed(many: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same, prepared and answered without any fault."""
    folder = with_data(many, tmp_path_factory.mktemp("undisturbed"))
    longmemeval(*PREPARE, "--jobs", "1", cwd=folder)
    longmemeval(*RUN, cwd=folder)
    return folder


def with_data(many: Path, folder: Path) -> Path:
    (folder / "many.json").symlink_to(many / "many.json")
    return folder


def fixtures_in(folder: Path) -> int:
    return len(list((folder / "prepared-data").glob("many/default/*/meta.json")))


def same_fixtures(folder: Path, undisturbed: Path) -> None:
    """Fixtures are equal, and the journal of the work tells none twice."""
    journal = "many/default/prepare.jsonl"
    now, then = timeless(folder / "prepared-data"), timeless(undisturbed / "prepared-data")
    assert {**now, journal: None} == {**then, journal: None}
    told = Counter(line["haystack_id"] for line in json_lines(folder / "prepared-data" / journal))
    assert set(told.values()) == {1}
    assert litter(folder / "prepared-data") == []


def moment(count: Callable[[], int], wanted: int) -> Callable[[], bool]:
    """Some moment within the 20 ms after `count` has reached `wanted`."""

    def reached() -> bool:
        if count() < wanted:
            return False
        time.sleep(random.random() / 50)
        return True

    return reached


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_prepare_survives_kill_at_random_moments(many: Path, undisturbed: Path, tmp_path: Path, jobs: str) -> None:
    folder = with_data(many, tmp_path)
    reached = 0
    for _ in range(3):
        wanted = reached + random.randint(1, 12)
        process = start(*PREPARE, "--jobs", jobs, cwd=folder)
        stop_when(process, moment(lambda: fixtures_in(folder), wanted), signal.SIGKILL)
        assert process.returncode == -signal.SIGKILL
        reached = fixtures_in(folder)
        assert reached < 120
    done = longmemeval(*PREPARE, "--jobs", jobs, cwd=folder)
    assert f"({reached} were there)" in done.stdout
    same_fixtures(folder, undisturbed)


def test_run_survives_kill_at_random_moments(many: Path, undisturbed: Path, tmp_path: Path) -> None:
    folder = with_data(many, tmp_path)
    (folder / "prepared-data").symlink_to(undisturbed / "prepared-data")
    journal = folder / "results" / "r" / "answers.jsonl"
    for _ in range(4):
        wanted = lines_in(journal) + random.randint(1, 15)
        stop_when(start(*RUN, cwd=folder), moment(lambda: lines_in(journal), wanted), signal.SIGKILL)
    assert lines_in(journal) < 120
    assert manifest(folders_in(folder))["status"] == "running"
    assert verify("r", where=folders_in(folder)).problems == ()
    longmemeval(*RUN, cwd=folder)
    assert timeless(folder / "results") == timeless(undisturbed / "results")
    assert litter(folder) == []


def test_killed_run_over_http_never_asks_an_answered_question_again(
    many: Path, undisturbed: Path, tmp_path: Path
) -> None:
    folder = with_data(many, tmp_path)
    (folder / "prepared-data").symlink_to(undisturbed / "prepared-data")
    command = ("run", "--dataset", "many.json", "--memory", "last-k", "--model", "openai/local", "--limit", "24")
    journal = folder / "results" / "r" / "answers.jsonl"
    with ModelServer(lambda body: f"Reply to {len(body['messages'][0]['content'])} letters.") as server:
        server.faults.extend(["slow:0.1"] * 24)
        served = ("--api-base", server.url, "--run-id", "r", "--concurrency", "3")
        stop_when(start(*command, *served, cwd=folder), lambda: lines_in(journal) >= 5, signal.SIGKILL)
        kept, asked = json_lines(journal), len(server.chat_requests)
        longmemeval(*command, *served, cwd=folder)
    final = json_lines(journal)
    assert final[: len(kept)] == kept
    assert len(final) == len({one["question_id"] for one in final}) == 24
    assert len(server.chat_requests) - asked == 24 - len(kept)
    prompts = json_lines(folder / "results" / "r" / "prompts.jsonl")
    assert sorted(one["question_id"] for one in prompts) == sorted(one["question_id"] for one in final)
    for one in final:
        (prompt,) = [p for p in prompts if p["question_id"] == one["question_id"]]
        assert one["hypothesis"] == f"Reply to {len(prompt['messages'][0]['content'])} letters."


def test_interrupt_ends_a_run_at_once_and_keeps_its_answers(many: Path, undisturbed: Path, tmp_path: Path) -> None:
    folder = with_data(many, tmp_path)
    (folder / "prepared-data").symlink_to(undisturbed / "prepared-data")
    journal = folder / "results" / "r" / "answers.jsonl"
    process = start(*RUN, cwd=folder)
    told = stop_when(process, lambda: lines_in(journal) >= 3, signal.SIGINT)
    where = folders_in(folder)
    kept = answers(where)
    assert process.returncode == 130
    assert told.splitlines()[-1].startswith("Interrupted. What was finished is kept")
    assert "Traceback" not in told
    assert 3 <= len(kept) < 120
    assert manifest(where)["status"] == "interrupted"
    assert manifest(where)["totals"]["answered"] == len(kept)
    longmemeval(*RUN, cwd=folder)
    assert answers(where)[: len(kept)] == kept
    assert timeless(folder / "results") == timeless(undisturbed / "results")


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_interrupt_of_prepare_keeps_finished_fixtures(many: Path, undisturbed: Path, tmp_path: Path, jobs: str) -> None:
    folder = with_data(many, tmp_path)
    process = start(*PREPARE, "--jobs", jobs, cwd=folder)
    told = stop_when(process, lambda: fixtures_in(folder) >= 3, signal.SIGINT)
    assert process.returncode == 130
    assert told == "Interrupted. What was finished is kept; the same command again goes on from there.\n"
    reached = fixtures_in(folder)
    assert 3 <= reached < 120
    done = longmemeval(*PREPARE, "--jobs", jobs, cwd=folder)
    assert f"Prepared {120 - reached} haystacks ({reached} were there)" in done.stdout
    same_fixtures(folder, undisturbed)


def test_half_written_last_line_is_dropped_and_redone(tmp_path: Path) -> None:
    dataset, where = prepared_colours(tmp_path, 6)
    answer_all(dataset, where)
    whole = timeless(where.results_dir)
    for name in ("answers.jsonl", "prompts.jsonl"):
        journal = where.results_dir / "r" / name
        lines = journal.read_bytes().splitlines(keepends=True)
        journal.write_bytes(b"".join(lines[:4]) + lines[4][:-20])
    as_if_killed(where)
    assert answer_all(dataset, where).newly_answered == 2
    assert timeless(where.results_dir) == whole


def as_if_killed(where: Folders) -> None:
    """The manifest as a process leaves it that dies while it answers."""
    path = where.results_dir / "r" / "run.json"
    path.write_text(json.dumps(manifest(where) | {"status": "running", "ended_at": "", "files": {}}))
