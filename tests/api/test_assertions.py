"""The assertions for people's own test suites."""

from collections.abc import Callable
from pathlib import Path

import pytest

import longmemeval as lme
from longmemeval.testing import assert_no_regression, assert_recall
from tests.api.test_objects import Notes
from tests.pipeline.graded_runs import graded_run, labels
from tests.pipeline.helpers import colours, folders_in


@pytest.mark.slow
def test_recall_is_asserted(tmp_path: Path) -> None:
    data, folders = colours(tmp_path / "d.json", 4), folders_in(tmp_path)
    assert_recall("bm25", data, at=5, least=0.9, folders=folders)
    with pytest.raises(AssertionError, match=r"last-k: recall@1 of \w+ is [\d.]+%, expected at least 90.0%"):
        assert_recall("last-k", data, at=1, least=0.9, folders=folders)
    with pytest.raises(AssertionError, match="Notes: recall@10 is not known"):
        assert_recall(Notes, data, folders=folders)
    wrong: Callable[..., None] = assert_recall
    with pytest.raises(lme.HarnessError, match="Did you mean 'least'"):
        wrong("bm25", data, leest=0.9)
    assert not folders.results_dir.exists()


@pytest.mark.slow
def test_a_regression_fails_and_so_does_what_cannot_be_decided(tmp_path: Path) -> None:
    data, folders = colours(tmp_path / "d.json", 200), folders_in(tmp_path)
    for name, right in (("old", 120), ("same", 120), ("worse", 40)):
        graded_run(data, folders, name, labels(right, 200 - right))
    # Twenty lost, twenty won: no difference, and an interval far wider than three points.
    graded_run(data, folders, "other", [*labels(100, 20), *labels(20, 60)])
    assert_no_regression("same", "old", folders=folders)
    with pytest.raises(AssertionError, match=r"Worse: worse vs\. old: -40\.0 points"):
        assert_no_regression("worse", "old", folders=folders)
    with pytest.raises(
        AssertionError, match=r"Undecided: other vs\. old: 0\.0 points, .* 200 questions are too few to decide"
    ):
        assert_no_regression("other", lme.Run.open("old", folders=folders), folders=folders)
    assert_no_regression("other", "old", undecided_passes=True, folders=folders)
    assert_no_regression("other", "old", margin=0.2, folders=folders)
