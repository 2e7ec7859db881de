"""The rates of the offline judges that docs/grading.md shows, unflattering or not, are what checking them gives."""

import re

import pytest

from longmemeval.benchmarks.registry import load_dataset
from longmemeval.judges.definition import rule_names
from longmemeval.judges.plants.judged import JUDGED_KINDS
from longmemeval.measures.plant_rates import Rate
from longmemeval.pipeline.judge_check.check import JudgeChecking
from longmemeval.results.graded.judge_checks import JudgeCheck
from longmemeval.results.selection import Selection
from longmemeval.settings import Folders
from tests.conftest import real_file
from tests.support import ROOT

COLUMNS = {
    "lexical, LoCoMo": "offline/lexical",
    "LoCoMo's F1": "offline/locomo-f1",
    "Mem0's BLEU-1": "offline/mem0-bleu1",
    "Mem0's F1": "offline/mem0-f1",
}
"""Columns about LoCoMo, and whose they are."""


def published() -> dict[str, dict[str, tuple[float, int]]]:
    """Column -> row -> percent and number of plants."""
    text = (ROOT / "docs" / "grading.md").read_text()
    lines = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("|")]
    heading = next(place for place, cells in enumerate(lines) if "lexical, LoCoMo" in map(str.strip, cells))
    names = [cell.strip() for cell in lines[heading][1:]]
    found: dict[str, dict[str, tuple[float, int]]] = {name: {} for name in names}
    for cells in lines[heading + 2 :]:
        if len(cells) != len(names) + 1:
            break
        for name, cell in zip(names, cells[1:], strict=True):
            if match := re.fullmatch(r"([\d.]+) \(([\d,]+)\)", cell.strip()):
                found[name][cells[0].strip(" *")] = float(match[1]), int(match[2].replace(",", ""))
    return found


def rates(check: JudgeCheck) -> dict[str, Rate]:
    """Those of plants; answers labelled by hand are in another table (tests/judges/plants/test_judged.py)."""
    found = check.rates
    right, wrong = found.planted or (found.right, found.wrong)
    kinds = {name: rate for name, rate in found.by_kind.items() if name not in JUDGED_KINDS}
    return {"right answers": right, "wrong answers": wrong, "no answers": found.none, **kinds}


ELSEWHERE = ("offline/factconsolidation", "offline/personamem")
"""Judges of other data; their rates are in docs/changes.md."""


def test_every_offline_judge_is_there() -> None:
    assert set(COLUMNS.values()) == {name for name in rule_names() if not name.startswith(ELSEWHERE)}
    shown = (ROOT / "docs" / "changes.md").read_text()
    assert all(f"`judge check {name}`" in shown for name in ELSEWHERE)
    assert {*COLUMNS, "lexical, sample"} == set(published())


@pytest.mark.slow
def test_the_sample(folders: Folders) -> None:
    check = JudgeChecking(load_dataset("sample", folders.data_dir), "offline/lexical", folders=folders).check().check
    found = {name: (round((rate.credit or 0.0) * 100, 1), rate.n) for name, rate in rates(check).items()}
    assert published()["lexical, sample"] == found


@pytest.mark.variants
@pytest.mark.slow
@pytest.mark.parametrize("column", list(COLUMNS))
def test_locomo(folders: Folders, column: str) -> None:
    """On a tenth of the questions: each published rate is where this many plants may put it."""
    data = load_dataset(real_file("locomo10.json"), folders.data_dir)
    checking = JudgeChecking(data, COLUMNS[column], selection=Selection(sample=60), folders=folders)
    told = published()[column]
    compared = 0
    for name, rate in rates(checking.check().check).items():
        if rate.n < 20 or rate.credit is None:
            continue
        percent, plants = told[name]
        assert plants >= rate.n
        # Three standard errors, and what the few of a kind may be off.
        room = 3 * max(rate.deviation, 0.1) / rate.n**0.5
        assert abs(rate.credit - percent / 100) < room, name
        compared += 1
    assert compared >= 9
