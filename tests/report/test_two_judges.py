"""Two judges of the same answers: drawn where both were checked, else the page says what is missing."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from longmemeval.benchmarks.catalogue import BENCHMARK_SPECS
from longmemeval.core.files import sha256_bytes, sha256_text, write_atomic
from longmemeval.core.journal import Journal
from longmemeval.judges.plants.planting import Plant
from longmemeval.judges.protocol import JudgeIdentity
from longmemeval.measures.plant_rates import judge_rates
from longmemeval.pipeline.judge_check.check import encoded_plants
from longmemeval.records import Judgement
from longmemeval.report.charts.of_comparison import judges_chart
from longmemeval.report.charts.svg import Shown, look_of
from longmemeval.report.charts.two_judges import JudgedBy, TwoJudges, two_judges_chart
from longmemeval.report.write import ReportOptions, render_report
from longmemeval.results.graded.graded_run import load_graded
from longmemeval.results.graded.judge_checks import (
    CHECK,
    FORMAT,
    JUDGEMENTS,
    PLANTS,
    JudgeCheck,
    check_folder,
    encoded,
)
from longmemeval.settings import Folders
from longmemeval.statistics.misclassification import (
    Corrected,
    MeasuredRates,
    PlantCredit,
    expected_agreement,
)
from tests.pipeline.graded_runs import LENIENT, STRICT
from tests.report.report_runs import three_runs


def run(name: str) -> Shown:
    return Shown(name, look_of(0))


def check(folders: Folders, judge: JudgeIdentity, right: float, wrong: float) -> None:
    """Leave the check of a judge that was found to err so often."""
    plants = [
        Plant(f"q{n}:{kind}", f"q{n}", "t", "gold" if kind else "refusal", kind, "text", "")
        for n in range(1000)
        for kind in (True, False)
    ]
    passed = {True: right * 1000, False: wrong * 1000}
    labels = {
        plant.plant_id: Judgement(
            plant.plant_id, n // 2 < passed[plant.right], "", judge.id, "", sha256_text(plant.text)
        )
        for n, plant in enumerate(plants)
    }
    lines = encoded_plants(plants)
    folder = check_folder(folders.results_dir, judge.id, "colours", sha256_bytes(lines))
    write_atomic(folder / PLANTS, lines)
    with Journal(folder / JUDGEMENTS, Judgement) as journal:
        for one in labels.values():
            journal.append(one)
        sha256 = journal.sha256()
    data = {"name": "colours", "content_sha256": ""}
    rates = judge_rates(plants, labels)
    made = JudgeCheck(
        FORMAT, judge, "longmemeval", data, 0, 1000, sha256_bytes(lines), rates, 1000, judgements_sha256=sha256
    )
    write_atomic(folder / CHECK, encoded(made))


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Folders:
    return three_runs(tmp_path_factory.mktemp("runs"))


@pytest.mark.slow
def test_what_is_missing_is_told_until_both_are_checked(folders: Folders) -> None:
    good = load_graded(["good"], folders, judge="strict")
    drawn, missing = judges_chart(good, [run("A")])
    assert drawn is None
    assert missing.startswith("Error rates vs. agreement need a check of both judges; missing: ")
    assert LENIENT.id in missing
    assert STRICT.id in missing
    check(folders, STRICT, 0.98, 0.02)
    _, missing = judges_chart(load_graded(["good"], folders, judge="strict"), [run("A")])
    assert STRICT.id not in missing
    assert LENIENT.id in missing
    check(folders, LENIENT, 0.95, 0.5)
    graded = load_graded(["good", "bad"], folders, judge="strict")
    drawn, missing = judges_chart(graded, [run("A"), run("B")])
    assert (drawn is None, missing) == (False, "")
    assert drawn is not None
    # Of 12 answers one judge passes 11 and the other 10; they part on one. Right plants: .98 and .95, wrong .02 and .5.
    first, second = drawn.figures.rows
    assert [row[0] for row in drawn.figures.rows] == ["A", "A"], "no other run has two judges"
    by_judge = {row[2]: row for row in (first, second)}
    assert (by_judge["98.0%"][3], by_judge["98.0%"][4]) == ("2.0%", "91.7%")
    assert (by_judge["95.0%"][3], by_judge["95.0%"][4]) == ("50.0%", "83.3%")
    assert (first[7], first[11]) == ("91.7%", "12")
    assert (second[7], second[11]) == ("", "")
    page = render_report(["good", "bad"], options=ReportOptions(judge="strict"), folders=folders)
    assert 'id="chart-two-judges"' in page
    assert page.count("are drawn once both judges") == 0


def test_nothing_is_missing_where_nothing_can_be_checked(folders: Folders, monkeypatch: pytest.MonkeyPatch) -> None:
    silent = dataclasses.replace(BENCHMARK_SPECS.get("longmemeval"), planting=None)
    monkeypatch.setitem(BENCHMARK_SPECS._loaded, silent.name, silent)
    assert judges_chart(load_graded(["good"], folders, judge="strict"), [run("A")]) == (None, "")


@pytest.mark.slow
def test_rates_that_leave_nothing_are_not_drawn(tmp_path: Path) -> None:
    folders = three_runs(tmp_path)
    check(folders, STRICT, 0.98, 0.02)
    check(folders, LENIENT, 0.5, 0.5)
    drawn, missing = judges_chart(load_graded(["good"], folders, judge="strict"), [run("A")])
    assert drawn is None
    assert missing.startswith("A: the score by one of the judges cannot be corrected: the test answers do not show")


def known(right: float, wrong: float) -> MeasuredRates:
    return MeasuredRates([PlantCredit("r", True, right), PlantCredit("w", False, wrong)])


def test_agreement_of_judges_that_err_independently() -> None:
    assert expected_agreement(0.3, known(1, 0), known(1, 0)) == 1
    assert expected_agreement(0.3, known(1, 0), known(0, 1)) == 0
    random = np.random.default_rng(14)
    right = random.random(200_000) < 0.6
    labels = [random.random(200_000) < np.where(right, r, w) for r, w in ((0.9, 0.1), (0.95, 0.6))]
    in_fact = float((labels[0] == labels[1]).mean())
    assert expected_agreement(0.6, known(0.9, 0.1), known(0.95, 0.6)) == pytest.approx(in_fact, abs=0.005)


@pytest.mark.slow
def test_equal_figures_give_an_equal_drawing() -> None:
    both = (
        JudgedBy("a < b", 1.0, 0.0, 0.5, Corrected(0.5, (0.4, 0.6))),
        JudgedBy("a judge with a name that goes on and on", 0.9, 0.5, 0.7, Corrected(0.5, (0.0, 1.0))),
    )
    pairs = [TwoJudges(run("A"), both, 100, 0.8, (0.7, 0.9), 0.75, (0.7, 0.8))]
    drawn = two_judges_chart(pairs)
    assert drawn == two_judges_chart(pairs)
    assert "a judge with a name that …" in drawn.svg
    assert "a &lt; b" in drawn.svg
