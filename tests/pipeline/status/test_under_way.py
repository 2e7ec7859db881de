"""Which runs are looked at together: what is unfinished first, then what ended last, within a day and not too many."""

import os
from pathlib import Path

import pytest
from msgspec import structs

from longmemeval.core.journal import Journal
from longmemeval.errors import HarnessError
from longmemeval.pipeline.status import state_of_unfinished, watch_named, watch_recent
from longmemeval.records import Answer
from longmemeval.results.lines import ANSWERS
from longmemeval.results.listing import list_runs
from longmemeval.results.manifest import read_manifest, runs_by_change, write_manifest
from longmemeval.settings import Folders
from tests.pipeline.graded_runs import graded_run, labels
from tests.pipeline.helpers import colours, folders_in

_DAY = 86_400


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    """Twelve runs that ended an hour after each other, the last of them after twelve hours."""
    dataset, folders = colours(tmp_path / "d.json", 2), folders_in(tmp_path)
    for number in range(12):
        graded_run(dataset, folders, f"r{number:02}", labels(1, 1))
        os.utime(folders.results_dir / f"r{number:02}" / "run.json", (3600.0 * number, 3600.0 * number))
    return folders


def seen(folders: Folders, now: float) -> list[str]:
    return [one.run for one in watch_recent(folders, now).look().runs]


@pytest.mark.slow
def test_the_last_ten_of_a_day_are_looked_at(folders: Folders) -> None:
    newest = [f"r{number:02}" for number in reversed(range(12))]
    assert list(runs_by_change(folders.results_dir)) == newest
    assert runs_by_change(folders.results_dir)["r03"] == 3 * 3600.0
    assert seen(folders, 12 * 3600.0) == newest[:10]
    assert seen(folders, _DAY + 9 * 3600.0) == ["r11", "r10", "r09"]
    assert seen(folders, 3.0 * _DAY) == []
    assert watch_recent(folders, 3.0 * _DAY).look().is_over


def test_what_is_unfinished_comes_first_however_old(folders: Folders) -> None:
    folder = folders.results_dir / "r02"
    write_manifest(folder, structs.replace(read_manifest(folder), status="interrupted"))
    os.utime(folder / "run.json", (0.0, 0.0))
    assert seen(folders, 12 * 3600.0)[:2] == ["r02", "r11"]
    assert seen(folders, 3.0 * _DAY) == ["r02"]
    states = {one.run: state_of_unfinished(one, folders) for one in list_runs(folders.results_dir)}
    assert [run for run, state in states.items() if state] == ["r02"]


def test_named_runs_keep_their_order_and_tell_whether_all_is_over(folders: Folders) -> None:
    watching = watch_named(["r05", "r01"], folders)
    assert [one.run for one in watching.look().runs] == ["r05", "r01"]
    with Journal(folders.results_dir / "r01" / ANSWERS, Answer):
        assert not watching.look().is_over
    assert watching.look().is_over
    with pytest.raises(HarnessError, match="Did you mean 'r05'"):
        watch_named(["r055"], folders)


def test_a_run_that_cannot_be_read_is_listed_without_a_state(folders: Folders) -> None:
    (folders.results_dir / "r00" / "run.json").write_text("{")
    (one,) = [run for run in list_runs(folders.results_dir) if run.run == "r00"]
    assert state_of_unfinished(one, folders) is None
