"""Warnings of the scores in a list of runs."""

from pathlib import Path
from typing import Any

import pytest

from longmemeval.results.graded import graded_run as listed
from longmemeval.results.graded.graded_run import warnings_of
from longmemeval.results.graded.judge_checks import CHECK, FOLDER
from longmemeval.results.listing import list_runs
from longmemeval.results.scores.warnings import ScoreWarning
from tests.pipeline.graded_runs import graded_run, labels
from tests.pipeline.helpers import colours, folders_in


def test_graded_runs_are_looked_at_unless_there_are_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset, folders = colours(tmp_path / "d.json", 3), folders_in(tmp_path)
    graded_run(dataset, folders, "whole", labels(1, 2))
    graded_run(dataset, folders, "part", labels(1, 2), status="interrupted")
    found = warnings_of(list_runs(folders.results_dir), folders)
    assert (set(found.by_run) <= {"whole", "part"}, found.unknown) == (True, 2 - len(found.by_run))
    assert "whole" in found.by_run
    monkeypatch.setattr(listed, "_LOOKED_AT", len(found.by_run) - 1)
    many = warnings_of([one for one in list_runs(folders.results_dir) if one.run in found.by_run], folders)
    assert (many.by_run, many.unknown) == ({}, len(found.by_run))


def test_a_run_whose_data_is_gone_is_counted_as_not_looked_at(tmp_path: Path) -> None:
    dataset, folders = colours(tmp_path / "d.json", 3), folders_in(tmp_path)
    graded_run(dataset, folders, "whole", labels(1, 2))
    (tmp_path / "d.json").unlink()
    found = warnings_of(list_runs(folders.results_dir), folders)
    assert (found.by_run, found.unknown) == ({}, 1)


def test_what_was_checked_is_kept_for_the_same_bytes_alone(tmp_path: Path) -> None:
    dataset, folders = colours(tmp_path / "d.json", 10), folders_in(tmp_path)
    folders.prepared_dir.mkdir()
    folder = graded_run(dataset, folders, "r", labels(6, 4))
    first = warnings_of(list_runs(folders.results_dir), folders)
    assert (folders.cache_dir / "view.sqlite").exists()
    assert set(first.by_run) == {"r"}
    assert warnings_of(list_runs(folders.results_dir), folders) == first
    answers = folder / "answers.jsonl"
    answers.write_bytes(answers.read_bytes().replace(b'"hypothesis":"', b'"hypothesis":"not ', 1))
    assert warnings_of(list_runs(folders.results_dir), folders).unknown == 1


def test_unchanged_runs_are_looked_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset, folders = colours(tmp_path / "d.json", 10), folders_in(tmp_path)
    folders.prepared_dir.mkdir()
    graded_run(dataset, folders, "r", labels(6, 4))
    graded_run(dataset, folders, "s", labels(5, 5))
    looked_at, look = list[str](), listed._look_at

    def counted(run_id: str, *rest: Any) -> tuple[ScoreWarning, ...]:
        looked_at.append(run_id)
        return look(run_id, *rest)

    monkeypatch.setattr(listed, "_look_at", counted)
    first = warnings_of(list_runs(folders.results_dir), folders)
    assert warnings_of(list_runs(folders.results_dir), folders) == first
    assert sorted(looked_at) == ["r", "s"]
    check = folders.results_dir / FOLDER / "judge" / "c" / CHECK
    check.parent.mkdir(parents=True)
    check.write_bytes(b"{}")  # It may be about the judge of both.
    assert warnings_of(list_runs(folders.results_dir), folders) == first
    assert sorted(looked_at) == ["r", "r", "s", "s"]
