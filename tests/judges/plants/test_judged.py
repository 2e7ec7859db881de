"""Answers labelled by hand: what is shipped, what a file may hold, and that they alone correct scores by words."""

import json
from collections import Counter
from pathlib import Path

import pytest

from longmemeval.benchmarks.registry import load_dataset
from longmemeval.errors import DataError
from longmemeval.judges.offline.lexical import LEXICAL_JUDGE
from longmemeval.judges.plants.judged import JUDGED_FILE, JUDGED_KINDS, JudgedAnswer, judged_plants
from longmemeval.judges.plants.planting import KINDS, Plant
from longmemeval.measures.plant_rates import judge_rates, measured_rates
from longmemeval.pipeline.judge_check.check import JudgeChecking
from longmemeval.records import Gold, Judgement
from longmemeval.results.selection import Selection
from longmemeval.settings import Folders
from tests.support import ROOT, json_lines

SAMPLE = ROOT / "data" / "sample" / "sample.json"
SHIPPED = [JudgedAnswer(**line) for line in json_lines(SAMPLE.with_name(JUDGED_FILE))]


def test_two_hundred_answers_and_others_that_are_held_out() -> None:
    """About half are right; every question has one, and no answer is there twice."""
    number = Counter((one.held_out, one.correct) for one in SHIPPED)
    assert (number[False, True] + number[False, False], number[True, True] + number[True, False]) == (200, 64)
    assert min(number.values()) > 0.4 * 64
    assert {one.question_id for one in SHIPPED} == {record["question_id"] for record in json.loads(SAMPLE.read_bytes())}
    assert len({(one.question_id, one.answer) for one in SHIPPED}) == len(SHIPPED)
    assert {one.kind for one in SHIPPED} == set(JUDGED_KINDS)
    assert not KINDS.keys() & JUDGED_KINDS.keys()


@pytest.mark.slow
def test_the_offline_judge_errs_as_the_docs_say(folders: Folders) -> None:
    check = JudgeChecking(load_dataset("sample", folders.data_dir), LEXICAL_JUDGE, folders=folders).check()
    rates = check.check.rates
    assert rates.at_hand is not None
    told = [
        f"| {name} | {right.credit * right.n:.0f} of {right.n} | {wrong.credit * wrong.n:.0f} of {wrong.n} |"
        for name, (right, wrong) in (("at hand", rates.at_hand), ("held out", (rates.right, rates.wrong)))
        if right.credit is not None and wrong.credit is not None
    ]
    page = (ROOT / "docs" / "grading.md").read_text()
    assert [line for line in told if line not in page] == []
    assert check.rates is not None
    assert (check.rates.right, check.rates.wrong, check.rates.plants) == (rates.right.credit, rates.wrong.credit, 64)


def test_only_rules_of_words_grade_them(folders: Folders) -> None:
    data, chosen = load_dataset("sample", folders.data_dir), Selection(limit=5)
    by_words = JudgeChecking(data, LEXICAL_JUDGE, selection=chosen, folders=folders).plants
    by_model = JudgeChecking(data, "openai/gpt-4o-2024-08-06", selection=chosen, folders=folders).plants
    judged = [plant for plant in by_words if plant.judged]
    assert judged
    assert {plant.question_id for plant in judged} <= {plant.question_id for plant in by_model}
    assert [plant for plant in by_words if not plant.judged] == by_model


def plants_of(line: dict[str, object], tmp_path: Path) -> list[Plant]:
    (tmp_path / JUDGED_FILE).write_text(json.dumps(line) + "\n")
    golds = {"q": Gold("q", "t", "Oslo", (), (), abstention=False)}
    return list(judged_plants(tmp_path / "data.json", golds, golds))


LINE = {"question_id": "q", "answer": "In Oslo.", "correct": True, "kind": "stated"}


def test_a_file_of_a_user_s(tmp_path: Path) -> None:
    (plant,) = plants_of(LINE, tmp_path)
    assert (plant.right, plant.kind, plant.text, plant.judged) == (True, "stated", "In Oslo.", "at hand")
    assert plants_of(LINE | {"question_id": "of other data"}, tmp_path) == []
    (tmp_path / JUDGED_FILE).unlink()
    assert list(judged_plants(tmp_path / "data.json", {}, ())) == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"kind": "statd"}, "line 1: 'statd' is not a kind of right answer"),
        ({"correct": False}, "line 1: 'stated' is not a kind of wrong answer"),
        ({"correct": "yes"}, "line 1: "),
        ({"label": True}, "line 1: "),
    ],
)
def test_a_line_that_is_none_is_named(tmp_path: Path, change: dict[str, object], said: str) -> None:
    with pytest.raises(DataError) as refused:
        plants_of(LINE | change, tmp_path)
    assert said in str(refused.value)
    assert JUDGED_FILE in str(refused.value)


def test_scores_are_corrected_by_answers_that_are_held_out() -> None:
    """Neither by those with which rules were made nor, for rules of words, by plants."""
    made = [Plant(f"p{right}", "q", "t", "gold", right, "", "") for right in (True, False)]
    hands = [
        Plant(f"{judged}{right}", "q", "t", "stated", right, "", "", judged=judged)
        for judged in ("at hand", "held out")
        for right in (True, False)
    ]
    # What is held out is graded wrong, the rest rightly.
    labels = {
        plant.plant_id: Judgement(plant.plant_id, plant.right != (plant.judged == "held out"), "", "j", "", "")
        for plant in (*made, *hands)
    }
    rates = measured_rates([*made, *hands], labels, judged=True)
    assert rates is not None
    assert (rates.right, rates.wrong, rates.plants) == (0.0, 1.0, 2)
    shown = judge_rates([*made, *hands], labels)
    assert (shown.right.credit, shown.wrong.credit, shown.by_kind["stated"].n) == (0.0, 1.0, 2)
    assert shown.planted is not None
    assert shown.at_hand is not None
    assert (shown.planted[0].credit, shown.at_hand[1].credit) == (1.0, 0.0)
    assert measured_rates(made, labels, judged=True) is None
    assert measured_rates(made, labels) is not None
