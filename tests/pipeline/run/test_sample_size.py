"""`run --dry-run --detect`: the questions that a difference takes, by the formula and by simulation."""

from pathlib import Path

import numpy as np
import pytest

from longmemeval.benchmarks.registry import load_dataset
from longmemeval.pipeline.estimate.stages import Calls, Stage
from longmemeval.pipeline.run.estimate import RunEstimate
from longmemeval.pipeline.run.sample_size import SampleSize, sample_size
from longmemeval.statistics.paired import mcnemar
from longmemeval.statistics.power import DISCORDANT
from tests.conftest import real_file
from tests.pipeline.helpers import colours
from tests.support import longmemeval


def forecast(left: int, dollars: float | None = 2.0, seconds: float | None = 30.0) -> RunEstimate:
    """Of `left` questions, at twice `dollars` where replies are as long as they may be."""
    most = None if dollars is None else 2 * dollars
    work = Calls("openai/gpt-4o-mini", left, 100, 100, most, "")
    return RunEstimate(left, left, (Stage("answers", work, 50, dollars, seconds),), "", None)


def size_of(path: Path, points: float, questions: int = 40, *, max_cost: float | None = None) -> SampleSize:
    dataset = colours(path / "colours.json", questions)
    return sample_size(dataset, points, forecast(questions), max_cost=max_cost)


@pytest.mark.parametrize(("points", "needed"), [(3.0, 1742), (5.0, 626), (10.0, 155)])
def test_the_questions_are_those_of_connors_formula(tmp_path: Path, points: float, needed: int) -> None:
    size = size_of(tmp_path, points)
    assert size.needed is not None
    assert size.needed.questions == needed
    assert size.needed.points <= points
    assert size.available.questions == 40
    assert size.available.points > points


def test_so_many_questions_show_the_difference_four_times_in_five(tmp_path: Path) -> None:
    size = size_of(tmp_path, 5.0)
    assert size.needed is not None
    generator = np.random.default_rng(7)
    won, lost = (DISCORDANT + 0.05) / 2, (DISCORDANT - 0.05) / 2
    draws = generator.multinomial(size.needed.questions, [won, lost, 1 - DISCORDANT], size=1500)
    shown = np.mean([mcnemar(int(a), int(b)) < 0.05 for a, b, _ in draws])
    # The exact test is a little weaker than the formula.
    assert 0.75 < shown < 0.83


def test_money_and_time_grow_with_the_questions(tmp_path: Path) -> None:
    size = size_of(tmp_path, 10.0, max_cost=4.0)
    assert size.needed is not None
    assert size.affordable is not None
    assert size.needed.dollars == pytest.approx((2.0 * 155 / 40, 4.0 * 155 / 40))
    assert size.needed.seconds == pytest.approx(30.0 * 155 / 40)
    # Two runs of twenty, at ten cents a question where replies are long.
    assert size.affordable.questions == 20
    assert size.affordable.dollars == pytest.approx((1.0, 2.0))
    assert size.affordable.points > size.available.points


def test_what_is_not_known_is_not_guessed(tmp_path: Path) -> None:
    dataset = colours(tmp_path / "colours.json", 12)
    size = sample_size(dataset, 10.0, forecast(12, dollars=None, seconds=None), max_cost=1.0)
    assert size.needed is not None
    assert (size.needed.dollars, size.needed.seconds, size.affordable) == (None, None, None)


def test_the_command_answers_first_and_says_what_it_assumes(tmp_path: Path) -> None:
    line = ["run", "-d", "sample", "-m", "full-history", "--model", "openai/gpt-4o-mini", "--dry-run", "--sample", "8"]
    shown = longmemeval(*line, "--detect", "5", "--max-cost", "1", cwd=tmp_path).stdout.splitlines()
    assert shown[0].startswith("80% power to detect 5 points needs two runs of 626 questions each ($")
    assert "questions, which show" in shown[1]
    assert shown[2].startswith("--max-cost pays for ")
    assert any("agree on 80% of the questions" in one for one in shown)
    assert any("(paired)" in one for one in shown)
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize(
    "options", [["--detect", "5"], ["--detect", "0", "--dry-run"], ["--detect", "100", "--dry-run"]]
)
def test_points_without_a_dry_run_or_out_of_range_are_refused(tmp_path: Path, options: list[str]) -> None:
    line = ["run", "-d", "sample", "-m", "none", "--model", "offline/extractive", *options]
    assert "--detect takes points between 0 and 100" in longmemeval(*line, cwd=tmp_path, code=2).stderr


def test_questions_that_share_haystacks_take_more() -> None:
    size = sample_size(load_dataset(real_file("locomo10.json")), 5.0, forecast(100))
    assert size.needed is not None
    assert size.needed.questions > 626
    assert any("1,986 questions share 10 haystacks" in line for line in size.assumptions)
