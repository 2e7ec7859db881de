"""The best run is chosen on one part of the haystacks, and what it is worth is read off the others."""

import json
import random
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from longmemeval.errors import HarnessError
from longmemeval.pipeline.sweep.holdout import Holdout, chosen, held_out, holdout_line, split
from longmemeval.results.graded.graded_run import load_graded
from longmemeval.settings import Folders
from tests.benchmarks.locomo.test_loader import make_conversation
from tests.pipeline.graded_runs import graded_run, labels
from tests.pipeline.helpers import colours
from tests.pipeline.sweeps import swept
from tests.support import longmemeval

UNITS = {f"q{number}": f"h{number // 2}" for number in range(20)}


def test_haystacks_are_held_out_whole() -> None:
    held = split(UNITS, 0.5, seed=0)
    assert len(held) == 10
    assert all((f"q{2 * number}" in held) == (f"q{2 * number + 1}" in held) for number in range(10))
    assert split(UNITS, 0.5, seed=0) == held != split(UNITS, 0.5, seed=1)
    assert len(split(UNITS, 0.01, seed=0)) == 2
    assert len(split(UNITS, 0.99, seed=0)) == 18


def test_known_answer(tmp_path: Path, folders: Folders) -> None:
    """On questions 0 to 5 `a` leads with 4 right to 3 of `b`; on 6 to 9 `b` with 4 right to 1."""
    ten = colours(tmp_path / "ten.json", 10)
    graded_run(ten, folders, "a", [*labels(4, 2), *labels(1, 3)])
    graded_run(ten, folders, "b", [*labels(3, 3), *labels(4)])
    gold: dict[str, Any] = {"reads_gold": True, "memory": {"name": "oracle", "preset": "oracle", "parameters": {}}}
    graded_run(ten, folders, "gold", labels(10), settings=gold)
    names = [question.question_id for question in ten.questions()]
    found = held_out(load_graded(["a", "b", "gold"], folders), names[6:])
    assert isinstance(found, Holdout)
    assert (found.winner, found.tied, found.best) == ("a", (), "b")
    assert (found.chosen_by, found.held_out, found.haystacks) == (6, 4, (6, 4))
    assert (found.score, found.held_out_score, found.best_score) == (4 / 6, 0.25, 1.0)
    assert found.others == pytest.approx(5 / 8 - 7 / 12)
    assert found.lost == pytest.approx(4 / 6 - 1 / 4 + 5 / 8 - 7 / 12)
    assert holdout_line(found) == (
        "Chosen on 6 questions (6 haystacks): a, 66.7%. On the 4 questions held out (4 haystacks) it has 25.0% "
        f"[{found.interval[0] * 100:.1f}, {found.interval[1] * 100:.1f}]: 45.8 points lost besides the change of "
        "all of them (+4.2); b would have 100.0% there."
    )
    assert held_out(load_graded(["a", "gold"], folders), names[6:]) is None


def test_repeats_are_one_configuration_and_ties_are_said(tmp_path: Path, folders: Folders) -> None:
    """`lucky` was best once, but its repeats have 4.5 of 6 in the mean, as many as no other run has."""
    ten = colours(tmp_path / "ten.json", 10)
    graded_run(ten, folders, "lucky", labels(6, 4), settings={"repeat": 1})
    graded_run(ten, folders, "lucky-2", labels(3, 7), settings={"repeat": 2})
    model = {"model": {"spec": "m"}}
    graded_run(ten, folders, "steady", labels(5, 5), settings=model)
    graded_run(ten, folders, "same", labels(5, 5), settings={"model": {"spec": "n"}})
    names = [question.question_id for question in ten.questions()]
    found = held_out(load_graded(["lucky", "lucky-2", "steady", "same"], folders), names[6:])
    assert found is not None
    assert (found.winner, found.tied, found.score) == ("steady", ("same",), 5 / 6)
    assert "83.3%, as high as same. " in holdout_line(found)


@pytest.mark.slow
def test_the_best_of_many_equals_loses_and_a_run_that_is_better_does_not() -> None:
    """Of 30 coins the best looks better than it is; one that is really better is so on the other half too."""
    units = {f"q{number}": f"h{number}" for number in range(200)}
    lost: dict[float, list[float]] = {0.5: [], 0.9: []}
    for seed in range(20):
        for share, found in lost.items():
            draw = random.Random(seed)
            shares = {f"run{number}": share if number == 3 else 0.5 for number in range(30)}
            runs = {run: {one: float(draw.random() < own) for one in units} for run, own in shares.items()}
            found.append(chosen(runs, units, split(units, 0.5, seed)).lost)
    assert fmean(lost[0.5]) > 0.05 > abs(fmean(lost[0.9]))


def test_a_sweep_reports_it(tmp_path: Path) -> None:
    report = swept(tmp_path, memories=["last-k", "bm25", "none"], holdout=0.5)
    (found,) = report.comparisons
    assert found.holdout is not None
    assert found.holdout.haystacks == (2, 2)
    again = longmemeval("sweep", "sweep.yaml", cwd=tmp_path)
    assert holdout_line(found.holdout) in again.stdout
    document = json.loads(longmemeval("sweep", "sweep.yaml", "--json", cwd=tmp_path).stdout)
    assert document["holdout"][0]["winner"] == found.holdout.winner
    assert document["holdout"][0]["lost"] == found.holdout.lost


def test_one_haystack_is_refused_before_anything_is_done(tmp_path: Path) -> None:
    data = tmp_path / "one.json"
    data.write_text(json.dumps([make_conversation("c0")]))
    with pytest.raises(HarnessError, match="over one haystack"):
        swept(tmp_path, dataset="one.json", holdout=0.5)
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize("share", [0, 1, 1.5, "half"])
def test_what_is_no_share_is_refused(tmp_path: Path, share: object) -> None:
    with pytest.raises(HarnessError, match="holdout"):
        swept(tmp_path, holdout=share)
    assert not (tmp_path / "results").exists()
