"""`status` tells from files alone how far runs and preparations are, while they are written and when they died."""

import json
import shutil
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest
from msgspec import structs

from longmemeval.core.journal import Journal, Writer, is_locked, lock_file
from longmemeval.core.text.figures import duration
from longmemeval.judges.offline.lexical import lexical_judge
from longmemeval.llm.costs import Account
from longmemeval.llm.options import SpendingLimit
from longmemeval.pipeline import progress as shown
from longmemeval.pipeline.evaluate.evaluate import EvaluateOptions, evaluate
from longmemeval.pipeline.status import RunState, RunWatch, unfinished_preparations
from longmemeval.records import Answer, Judgement
from longmemeval.report.tables.status import sentences
from longmemeval.results.lines import ANSWERS, judgements_file
from longmemeval.results.manifest import read_manifest, write_manifest
from longmemeval.results.preparation import PREPARE_JOURNAL, PrepareRecord
from longmemeval.settings import Folders
from tests.cli.conftest import Command, command
from tests.pipeline.helpers import answer_all, folders_in, prepared_colours
from tests.support import tree

__all__ = ["command"]
JUDGE = lexical_judge().identity.id


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Folders:
    """A finished and graded run of ten questions."""
    dataset, folders = prepared_colours(tmp_path_factory.mktemp("status"), 10)
    answer_all(dataset, folders)
    evaluate("r", options=EvaluateOptions(judge="offline/lexical"), folders=folders)
    return folders


@pytest.fixture
def folder(made: Folders, tmp_path: Path) -> Path:
    """A copy of its folder."""
    shutil.copytree(made.results_dir, tmp_path / "results")
    return tmp_path / "results" / "r"


def as_begun(folder: Path, answered: int) -> None:
    """The run as it is under way, with so many answers, the last of them in the middle of being written."""
    write_manifest(folder, structs.replace(read_manifest(folder), status="running", ended_at="", files={}))
    for name in ("judgements", "metrics"):
        shutil.rmtree(folder / name, ignore_errors=True)
    lines = (folder / ANSWERS).read_bytes().splitlines(keepends=True)
    (folder / ANSWERS).write_bytes(b"".join(lines[:answered]) + lines[answered][:25])


def wrote(path: Path, *, host: str = "", lines: int = 0) -> None:
    """Say in the lock file of a journal who writes to it."""
    writer = Writer(pid=77, host=host or socket.gethostname(), since=1000.0, lines=lines)
    lock_file(path).write_bytes(msgspec.json.encode(writer))


def state(folder: Path, now: float | None = None) -> RunState:
    return RunWatch(folder).look(now)


def test_a_finished_run_has_its_score(folder: Path) -> None:
    found = state(folder)
    assert (found.state, found.is_over, found.questions) == ("completed", True, 10)
    assert [(one.name, one.done, one.total) for one in found.work] == [("answer", 10, 10), (f"judge {JUDGE}", 10, 10)]
    stored = json.loads((folder / "metrics" / f"{JUDGE}.json").read_text())["overall"]
    (score,) = found.scores
    assert (score.value, score.interval) == (stored["accuracy"], tuple(stored["interval"]))
    assert not score.interim


def test_a_run_under_way_has_rate_and_time_left(folder: Path) -> None:
    as_begun(folder, 7)
    with Journal(folder / "other.jsonl", Answer):  # Locks of other journals mean nothing.
        assert state(folder).state == "died"
    with Journal(folder / ANSWERS, Answer) as journal:
        assert is_locked(folder / ANSWERS)
        # Two lines were there when it began a hundred seconds ago: five since, three to come.
        wrote(folder / ANSWERS, lines=2)
        journal.append(Answer("q0", "", "error", error="refused"))
        found = state(folder, 1100.0)
        (work,) = found.work
    assert (found.state, work.alive, work.pid, work.done, work.total) == ("running", True, 77, 7, 10)
    assert work.per_second == pytest.approx(6 / 100)
    # Two were done before, six tried since, two have not been tried.
    assert work.seconds_left == pytest.approx(2 / (6 / 100))
    told = "\n".join(sentences(found))
    assert "r: running (process 77 on " in told
    assert "answer: 7 of 10 done, 3.6/min, 33 s left" in told


def test_each_line_is_read_once_and_half_a_line_later(folder: Path) -> None:
    whole = (folder / ANSWERS).read_bytes()
    as_begun(folder, 4)
    watch = RunWatch(folder)
    assert watch.look().work[0].done == 4
    (folder / ANSWERS).write_bytes(whole)
    assert watch.look().work[0].done == 10


def test_a_run_whose_process_died_says_so(folder: Path) -> None:
    as_begun(folder, 4)
    wrote(folder / ANSWERS)
    found = state(folder)
    assert (found.state, found.is_over, found.work[0].died, found.work[0].per_second) == ("died", True, True, None)
    assert "crashed. Process 77 ended unexpectedly. Rerun the same command to continue" in "\n".join(sentences(found))
    wrote(folder / ANSWERS, host="elsewhere")
    found = state(folder)
    assert (found.state, found.is_over) == ("away", False)
    assert "running on elsewhere, or crashed there" in "\n".join(sentences(found))


def test_a_score_over_some_labels_is_called_interim(folder: Path) -> None:
    path = judgements_file(folder, JUDGE)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:4]))
    shutil.rmtree(folder / "metrics")
    right = sum(json.loads(line)["label"] for line in lines[:4])
    with Journal(path, Judgement):
        found = state(folder)
        (score,) = found.scores
        told = "\n".join(sentences(found))
    assert (found.state, score.judged, score.of, score.value, score.interim) == ("judging", 4, 10, right / 4, True)
    assert score.interval is not None
    assert 0 <= score.interval[0] <= right / 4 <= score.interval[1] <= 1
    assert "interim accuracy" in told
    assert "over 4 of 10" in told
    assert state(folder).state == "completed"


def test_dollars_of_the_limit(folder: Path) -> None:
    account = Account(folder / "spending.jsonl", SpendingLimit(5.0))
    account.record_cost(account.reserve_blocking(0.5, "m"), 0.25)
    account.reserve_blocking(0.75, "m")
    found = state(folder)
    assert (found.spent_usd, found.limit_usd) == (1.0, 5.0)
    assert "spent: $1.0000 of $5.0000" in "\n".join(sentences(found))


def test_preparations_under_way(tmp_path: Path) -> None:
    folders = folders_in(tmp_path)
    path = folders.prepared_dir / "data" / "default" / PREPARE_JOURNAL
    with Journal(path, PrepareRecord) as journal:
        journal.append(PrepareRecord("fixture", "", haystack_id="h0"))
        journal.expects(4)
        journal.append(PrepareRecord("embeddings", ""))
        journal.append(PrepareRecord("fixture", "", haystack_id="h1"))
        (watch,) = unfinished_preparations(folders.prepared_dir)
        found = watch.look()
        assert (found.preparation, found.state, found.work.done, found.work.total) == ("data/default", "running", 1, 4)
    assert watch.look().state == "ended"
    assert unfinished_preparations(folders.prepared_dir) == []
    wrote(path)
    assert watch.look().state == "died"


def test_command_line(folder: Path, command: Command) -> None:
    where = f"--results-dir {folder.parent} --prepared-dir {folder.parent}/none"
    before = tree(folder)
    assert json.loads(command(f"status r {where} --json").stdout)["state"] == "completed"
    as_table = command(f"status {where}").stdout
    assert "completed" in as_table
    assert "10 of 10" in as_table
    assert {one["run"] for one in json.loads(command(f"status {where} --json").stdout)["runs"]} == {"r"}
    (folder.parent / "broken").mkdir()
    (folder.parent / "broken" / "run.json").write_text("{")
    assert "damaged" in command(f"status {where}").stdout
    assert tree(folder) == before
    missing = command(f"status q {where}")
    assert (missing.code, "Unknown run 'q'" in missing.stderr) == (2, True)


def test_watching_ends_with_the_run(folder: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = read_manifest(folder)
    as_begun(folder, 3)
    looks = 0
    with Journal(folder / ANSWERS, Answer) as journal:

        def sleep(seconds: float) -> None:
            nonlocal looks
            looks += 1
            if looks == 1:
                journal.append(Answer("q9", "said", "ok"))
            else:
                journal.__exit__(None, None, None)
                write_manifest(folder, ended)

        monkeypatch.setattr(time, "sleep", sleep)
        done = command(f"status r --results-dir {folder.parent} --watch --json")
    states = [json.loads(line)["runs"][0] for line in done.stdout.splitlines()]
    assert [one["state"] for one in states] == ["running", "running", "completed"]
    assert [one["work"][0]["done"] for one in states] == [3, 4, 4]
    assert (done.code, done.stderr) == (0, "")


def test_who_watches_may_leave(folder: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(seconds: float) -> None:
        raise KeyboardInterrupt

    as_begun(folder, 3)
    with Journal(folder / ANSWERS, Answer):
        monkeypatch.setattr(time, "sleep", interrupted)
        done = command(f"status r --results-dir {folder.parent} --watch")
    assert (done.code, done.stderr) == (0, "")
    assert "answer: 3 of 10 done" in done.stdout


@pytest.mark.parametrize(
    ("seconds", "told"), [(0.4, "0 s"), (89, "89 s"), (120, "2 min"), (7500, "2 h 5 min"), (273_600, "3 d 4 h")]
)
def test_durations(seconds: float, told: str) -> None:
    assert duration(seconds) == told


@pytest.fixture
def style() -> Iterator[Callable[[shown.Style], None]]:
    yield shown.show_progress
    shown.show_progress("auto")


def test_progress_as_events(style: Callable[[shown.Style], None], capsys: pytest.CaptureFixture[str]) -> None:
    style("json")
    with suppress(ValueError), shown.progress("run", 3) as bar:
        bar.advance()
        bar.advance(note="cache hits 50%")
        raise ValueError
    events = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [(one["event"], one["done"], one["total"], one["title"]) for one in events] == [
        ("begin", 0, 3, "run"),
        ("step", 1, 3, "run"),
        ("step", 2, 3, "run"),
        ("end", 2, 3, "run"),
    ]
    assert events[2]["note"] == "cache hits 50%"
    assert events[2]["seconds_left"] >= 0


def test_progress_in_lines(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    with shown.progress("run", 3) as bar:
        bar.advance()
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(shown, "_LINE_EVERY_S", 0.01)
    told = ""
    with shown.progress("run", 3, lambda: "2 of 9 batches") as bar:
        bar.advance(2)
        while told.count("\n") < 2:
            time.sleep(0.005)
            told += capsys.readouterr().err
    line = told.splitlines()[-1]
    assert line.startswith("run: 2 of 3, ")
    assert line.endswith(", 2 of 9 batches")


def test_progress_option(made: Folders, command: Command, style: object) -> None:
    where = f"--prepared-dir {made.prepared_dir} --results-dir {made.results_dir}"
    data = made.prepared_dir.parent / "colours.json"
    asked = f"run -d {data} -m last-k --model offline/extractive --run-id events {where}"
    done = command(f"{asked} --progress json --limit 2 --json")
    assert json.loads(done.stdout)["answered"] == 2
    events = [json.loads(line) for line in done.stderr.splitlines() if line.startswith("{")]
    assert [one["event"] for one in events] == ["begin", "step", "step", "end"]
    assert {one["title"] for one in events} == {"events"}
