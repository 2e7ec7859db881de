"""Workers change the time that preparing takes, and nothing else."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from longmemeval.benchmarks.registry import load_dataset
from longmemeval.errors import FatalModelError, FixtureError, SpendingLimitError
from longmemeval.pipeline.prepare.prepare import PrepareOptions, prepare
from longmemeval.pipeline.workers import run_bounded
from longmemeval.records import Question
from longmemeval.results.selection import Selection
from longmemeval.settings import Folders
from tests.forking import Forked
from tests.pipeline.helpers import colours, folders_in, start, stop_when
from tests.support import tree

SOME = Selection(limit=20)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Folders:
    """The shipped sample prepared without any worker."""
    folders = folders_in(tmp_path_factory.mktemp("alone"))
    prepare(load_dataset("sample"), ["combined"], selection=SOME, options=PrepareOptions(jobs=1), folders=folders)
    return folders


def parts(folders: Folders) -> dict[str, bytes]:
    return tree(folders.prepared_dir, without=("meta.json", "prepare.jsonl"))


@pytest.mark.variants
@pytest.mark.parametrize(
    ("jobs", "executor"), [pytest.param(2, None, marks=pytest.mark.slow), (2, "threads"), (5, "threads")]
)
def test_parts_are_equal_to_the_last_byte(alone: Folders, tmp_path: Path, jobs: int, executor: str | None) -> None:
    folders = folders_in(tmp_path)
    options = PrepareOptions(jobs=jobs, executor=executor)
    report = prepare(load_dataset("sample"), ["combined"], selection=SOME, options=options, folders=folders)
    assert report.prepared == 20
    assert len(parts(folders)) == 4 * 20  # db, vector, its graph, working-memory
    assert parts(folders) == parts(alone)


@pytest.mark.slow
def test_error_in_a_worker_process_reaches_the_user_whole(tmp_path: Path) -> None:
    folders = folders_in(tmp_path)
    in_the_way = folders.prepared_dir / "d" / "default" / "q3"
    in_the_way.parent.mkdir(parents=True)
    in_the_way.write_text("a file where a fixture belongs")
    dataset = colours(tmp_path / "d.json", 6)
    with pytest.raises(FixtureError, match="The fixture cannot be written") as caught:
        prepare(dataset, ["last-k"], options=PrepareOptions(jobs=2), folders=folders)
    assert caught.value.where == str(in_the_way)
    assert "rerun the same `longmemeval prepare`" in caught.value.fix
    in_the_way.unlink()
    prepare(dataset, ["last-k"], folders=folders)
    assert len(list(folders.prepared_dir.glob("d/default/*/meta.json"))) == 6


def children_of(process: Forked) -> list[int]:
    """The worker processes of a command."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
            worker = b"LokyProcess" in (stat.parent / "cmdline").read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if parent == process.pid and worker:
            found.append(int(stat.parent.name))
    return found


def test_death_of_a_worker_is_told_and_the_same_command_mends_it(alone: Folders, tmp_path: Path) -> None:
    prepared = tmp_path / "prepared-data" / "sample" / "default"
    command = ("prepare", "--dataset", "sample", "--memory", "combined", "--limit", "20", "--jobs", "2")
    process = start(*command, cwd=tmp_path)

    def one_is_killed() -> bool:
        if not list(prepared.glob("*/meta.json")):
            return False
        os.kill(children_of(process)[0], signal.SIGKILL)
        return True

    # Signal 0 does nothing: the command itself goes on.
    told = stop_when(process, one_is_killed, 0)
    assert process.returncode == 2
    assert told.startswith("Error: A worker process crashed")
    assert "Traceback" not in told
    prepare(load_dataset("sample"), ["combined"], selection=SOME, folders=folders_in(tmp_path))
    assert parts(folders_in(tmp_path)) == parts(alone)


def questions(dataset_file: Path, count: int) -> list[Question]:
    return list(colours(dataset_file, count).questions())


def test_work_begins_in_order_and_never_exceeds_the_limit(tmp_path: Path) -> None:
    begun: list[str] = []
    under_way = most = 0

    async def work(question: Question) -> None:
        nonlocal under_way, most
        begun.append(question.question_id)
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0.001 * (len(begun) % 3))
        under_way -= 1

    asyncio.run(run_bounded(questions(tmp_path / "d.json", 20), work, 3))
    assert begun == [f"q{number}" for number in range(20)]
    assert most == 3


def test_first_error_ends_what_is_under_way(tmp_path: Path) -> None:
    finished: list[str] = []
    cancelled: list[str] = []

    async def work(question: Question) -> None:
        if question.question_id == "q2":
            raise FatalModelError("no key")
        try:
            await asyncio.sleep(0 if question.question_id == "q0" else 60)
        except asyncio.CancelledError:
            cancelled.append(question.question_id)
            raise
        finished.append(question.question_id)

    with pytest.raises(FatalModelError, match="no key"):
        asyncio.run(run_bounded(questions(tmp_path / "d.json", 9), work, 3))
    assert finished == ["q0"]
    assert "q1" in cancelled
    assert len(cancelled) <= 2


def test_when_money_runs_out_nothing_new_begins_and_the_rest_is_finished(tmp_path: Path) -> None:
    begun: list[str] = []
    finished: list[str] = []

    async def work(question: Question) -> None:
        begun.append(question.question_id)
        if question.question_id == "q3":
            raise SpendingLimitError("nothing is left")
        await asyncio.sleep(0.05)
        finished.append(question.question_id)

    with pytest.raises(SpendingLimitError, match="nothing is left"):
        asyncio.run(run_bounded(questions(tmp_path / "d.json", 9), work, 4))
    assert begun == ["q0", "q1", "q2", "q3"]
    assert finished == ["q0", "q1", "q2"]


def test_no_questions_are_no_work() -> None:
    async def work(question: Question) -> None:
        raise AssertionError(question)

    asyncio.run(run_bounded([], work, 3))
