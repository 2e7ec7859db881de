"""Baselines: small files of stable bytes, and a verdict that needs the whole interval beyond the margin."""

import json
from pathlib import Path

import pytest

from longmemeval.dataset import Dataset
from longmemeval.errors import HarnessError
from longmemeval.pipeline.compare.baseline import (
    AgainstBaseline,
    compare_to_baseline,
    load_baseline,
    regression,
    save_baseline,
)
from longmemeval.results.graded.graded_run import Evaluation, load_graded
from longmemeval.settings import Folders
from tests.pipeline.graded_runs import F1, LENIENT, STRICT, graded_run, labels
from tests.pipeline.helpers import colours


@pytest.fixture(scope="module")
def hundred(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return colours(tmp_path_factory.mktemp("data") / "hundred.json", 100)


def graded(folders: Folders, run_id: str) -> Evaluation:
    (run,) = load_graded([run_id], folders)
    return run


def held(folders: Folders, run_id: str, baseline: str | Path, margin: float = 0.0) -> AgainstBaseline:
    return compare_to_baseline(graded(folders, run_id), load_baseline(str(baseline), folders), margin=margin)


def test_a_file_says_what_the_run_says(hundred: Dataset, folders: Folders, tmp_path: Path) -> None:
    graded_run(hundred, folders, "old", [None, *labels(79, 20)])
    graded_run(hundred, folders, "new", labels(60, 40))
    save_baseline(graded(folders, "old"), tmp_path / "b.json")
    assert held(folders, "new", tmp_path / "b.json") == held(folders, "new", "old")


def test_bytes_are_stable_sorted_and_without_texts(hundred: Dataset, folders: Folders, tmp_path: Path) -> None:
    scores = {f"q{number}": number % 2 == 0 for number in range(100)}
    graded_run(hundred, folders, "r", scores)
    save_baseline(graded(folders, "r"), tmp_path / "one.json")
    save_baseline(graded(folders, "r"), tmp_path / "two.json")
    data = (tmp_path / "one.json").read_bytes()
    assert data == (tmp_path / "two.json").read_bytes()
    document = json.loads(data)
    assert set(document) == {"format", "run", "dataset", "judge", "metric", "settings_sha256", "credits"}
    assert document["dataset"] == {"name": "hundred", "content_sha256": hundred.content_sha256}
    assert document["judge"] == {"id": STRICT.id, "model": "test/strict", "official": False}
    assert list(document["credits"]) == sorted(scores)
    assert document["credits"] == {name: float(right) for name, right in scores.items()}
    assert b"bicycle" not in data
    assert len(data) < 3000


def test_a_deliberate_regression(hundred: Dataset, folders: Folders) -> None:
    graded_run(hundred, folders, "old", labels(80, 20))
    graded_run(hundred, folders, "new", labels(0, 12) + labels(68, 20), settings={"model": {"spec": "m"}})
    result = held(folders, "new", "old")
    assert result.difference == pytest.approx(-0.12)
    assert result.interval == pytest.approx((-0.19, -0.06), abs=0.011)
    assert (result.worse, result.same_settings, result.won) == (True, False, ())
    assert result.lost == tuple(sorted(f"q{number}" for number in range(12)))
    error = regression([result])
    assert error is not None
    assert error.exit_code == 4
    told = str(error)
    assert told.startswith("Run 'new' is 12.0 points worse than baseline 'old', 95% CI of the difference [")
    assert (
        "margin 0.0 points. It lost 12 questions and won 0; lost: q0, q1, q10, q11, q2, q3, q4, q5, q6, q7 and 2"
        in told
    )
    assert "Their settings differ too." in told
    assert "\n" not in told


@pytest.mark.slow
@pytest.mark.parametrize(("lost", "won", "margin", "worse"), [
    (12, 0, 0.0, True),
    (12, 0, 0.05, True),
    (12, 0, 0.12, False),
    (3, 2, 0.0, False),
    (1, 0, 0.0, False),
    (0, 0, 0.0, False),
    (0, 12, 0.0, False),
])  # fmt: skip
def test_the_whole_interval_must_lie_beyond_the_margin(
    hundred: Dataset, folders: Folders, lost: int, won: int, margin: float, worse: bool
) -> None:
    kept = labels(60 - lost, 40 - won)
    graded_run(hundred, folders, "old", labels(60, 40))
    graded_run(hundred, folders, "new", labels(0, lost) + kept[: 60 - lost] + labels(won) + kept[60 - lost :])
    result = held(folders, "new", "old", margin)
    assert (len(result.lost), len(result.won), result.worse) == (lost, won, worse)
    assert (regression([result]) is not None) == worse


@pytest.mark.slow
def test_what_does_not_fit_is_refused(hundred: Dataset, folders: Folders, tmp_path: Path) -> None:
    graded_run(hundred, folders, "old", labels(80, 20))
    graded_run(hundred, folders, "few", labels(8, 2))
    graded_run(hundred, folders, "lenient", labels(80, 20), judge=LENIENT)
    graded_run(hundred, folders, "scores", [0.5] * 100, judge=F1)
    graded_run(colours(tmp_path / "other.json", 99), folders, "other", labels(80, 19))
    with pytest.raises(
        HarnessError, match=r"different questions: 10, 0 of them not shared; 100, 90 of them not shared"
    ):
        held(folders, "few", "old")
    with pytest.raises(HarnessError, match=rf"different judges: {LENIENT.id}; {STRICT.id}\. .*--judge {STRICT.id}"):
        held(folders, "lenient", "old")
    with pytest.raises(HarnessError, match="different metrics: F1; accuracy"):
        held(folders, "scores", "old")
    with pytest.raises(HarnessError, match=r"different data: other with content .*; hundred with content"):
        held(folders, "other", "old")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b'{"format": 2, "anything": 1}', "has format 2, but this version only understands up to 1"),
        (b'{"format": 1}', "not a baseline: Object missing required field"),
        (b"\xff\xfe", "not a baseline"),
        (b"", "not a baseline"),
    ],
)
def test_other_files_are_refused(folders: Folders, tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / "b.json").write_bytes(content)
    with pytest.raises(HarnessError, match=said):
        load_baseline(str(tmp_path / "b.json"), folders)


def test_neither_a_file_nor_a_run(hundred: Dataset, folders: Folders) -> None:
    graded_run(hundred, folders, "release-1", labels(80, 20))
    with pytest.raises(HarnessError, match=r"baseline 'relaese-1'.* Did you mean 'release-1'"):
        load_baseline("relaese-1", folders)
