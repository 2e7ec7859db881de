"""Controls stand apart from memory systems, and the sentence about the best of them follows from the tests of pairs."""

from pathlib import Path
from typing import Any

import pytest

from longmemeval.dataset import Dataset
from longmemeval.pipeline.compare.compare import compare
from longmemeval.pipeline.compare.controls import control_of, controls_last
from longmemeval.pipeline.runs.settings import HypothesesSettings, ImportedSettings
from longmemeval.report.tables.comparison import comparison_tables
from longmemeval.settings import Folders
from tests.pipeline.graded_runs import answer_settings, graded_run
from tests.pipeline.helpers import colours

N = 20


def settings(preset: str = "last-k", model: str = "openai/gpt-4o") -> dict[str, Any]:
    return {
        "memory": {"name": preset, "preset": preset, "parameters": {}},
        "reads_gold": preset == "oracle",
        "model": {"spec": model},
        "reading": {"method": "direct", "history_format": "nl"},
        "preparation": "default",
        "embedder": None,
    }


@pytest.mark.parametrize(
    ("preset", "model", "control"),
    [
        ("last-k", "openai/gpt-4o", None),
        ("last-k", "offline/extractive", None),
        ("engram-full", "openai/gpt-4o", None),
        ("none", "openai/gpt-4o", "floor"),
        ("full-history", "openai/gpt-4o", "reference"),
        ("oracle", "openai/gpt-4o", "reference"),
        ("oracle", "offline/parrot", "floor"),
        ("hybrid", "offline/refuse", "floor"),
        ("not.installed:Here", "openai/gpt-4o", None),
    ],
)
def test_what_is_a_control(preset: str, model: str, control: str | None) -> None:
    assert control_of(answer_settings(settings(preset, model))) == control


def test_answers_of_another_system_are_no_control() -> None:
    settings = ImportedSettings(hypotheses=HypothesesSettings("answers.jsonl", "0"), unknown_questions=())
    assert control_of(settings) is None


def test_controls_come_last_but_the_first_stays() -> None:
    assert controls_last([None, "floor", None, "reference"]) == [0, 2, 1, 3]
    assert controls_last(["floor", "reference", None]) == [0, 2, 1]


@pytest.fixture
def runs(tmp_path: Path) -> tuple[Dataset, Folders]:
    """`good` gets 19 of 20, `poor` 9, `refuse` 8, `parrot` 4, `everything` 20."""
    dataset = colours(tmp_path / "colours.json", N)
    where = Folders(data_dir=tmp_path, prepared_dir=tmp_path / "p", results_dir=tmp_path / "results")
    right = {"good": 19, "poor": 9, "refuse": 8, "parrot": 4, "everything": 20}
    kinds = {
        "refuse": settings("none", "offline/refuse"),
        "parrot": settings("last-k", "offline/parrot"),
        "everything": settings("full-history"),
    }
    for name, count in right.items():
        credits = [place < count for place in range(N)]
        graded_run(dataset, where, name, credits, settings=kinds.get(name, settings()))
    return dataset, where


FLOOR = "the best control that knows nothing, refuse (offline/refuse with memory none, 40.0 %)"


def test_the_sentence_names_those_that_are_not_better(runs: tuple[Dataset, Folders]) -> None:
    _, where = runs
    found = compare(["good", "refuse", "poor", "everything", "parrot"], where=where)
    assert [run.summary.run_id for run in found.runs] == ["good", "poor", "refuse", "everything", "parrot"]
    assert f"NOT significantly better than {FLOOR}: poor." in found.warnings
    table = comparison_tables(found)[0]
    assert table.apart == 3
    assert [row[0] for row in table.rows[-3:]] == ["refuse\n(control)", "everything\n(control)", "parrot\n(control)"]
    # Another answering model is what makes a control; nobody has to be told that it differs.
    assert not any(warning.startswith("model.spec differs") for warning in found.warnings)


@pytest.mark.parametrize(
    ("names", "sentence"),
    [
        (["good", "refuse"], f"good is significantly better than {FLOOR}."),
        (["refuse", "good"], f"good is significantly better than {FLOOR}."),
        (["poor", "refuse"], f"poor is NOT significantly better than {FLOOR}."),
        (["good", "everything"], None),
        (["refuse", "parrot"], None),
    ],
)
def test_the_sentence_is_there_where_it_can_be(
    runs: tuple[Dataset, Folders], names: list[str], sentence: str | None
) -> None:
    _, where = runs
    told = [one for one in compare(names, where=where).warnings if "control that knows nothing" in one]
    assert told == ([sentence] if sentence else [])
