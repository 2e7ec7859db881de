"""Recalling again without a model: what a run recalled, what scores are made of, and what may not recall here."""

from pathlib import Path

import pytest

from longmemeval import settings
from longmemeval.benchmarks.registry import load_dataset
from longmemeval.errors import HarnessError
from longmemeval.memory.configuration import MemoryConfiguration, resolve_configuration
from longmemeval.pipeline.inspect.recalling import Explained, Recaller, why_not_again
from longmemeval.records import Question
from longmemeval.results.manifest import read_manifest
from longmemeval.results.run_files import RunFiles
from longmemeval.settings import Folders
from tests.made_once import sample_demo
from tests.support import ROOT

SAMPLE = load_dataset("sample", ROOT / "data")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Folders:
    demo = sample_demo(tmp_path_factory).folder
    return settings.folders(ROOT / "data", demo / "prepared-data", demo / "results")


@pytest.fixture(scope="module")
def recaller(folders: Folders) -> Recaller:
    return Recaller(SAMPLE, "default", folders)


def first_question() -> Question:
    return next(iter(SAMPLE.questions()))


def best(found: Explained) -> str:
    return next(item.message_ids[0] for item in found.recall.items if item.rank == 1)


@pytest.mark.parametrize("memory", ["hybrid", "semantic-recall", "last-k"])
def test_it_recalls_what_the_run_recalled(folders: Folders, recaller: Recaller, memory: str) -> None:
    folder: Path = folders.results_dir / f"demo-{memory}"
    settings = read_manifest(folder).settings.memory
    assert settings
    configuration = MemoryConfiguration(name=settings.name, preset=settings.preset, parameters=settings.parameters)
    answers = RunFiles(folder).answers
    for question in list(SAMPLE.questions())[:12]:
        items = recaller.recall(question, configuration).recall.items
        assert tuple(one for item in items for one in item.message_ids) == answers[question.question_id].recall_ids


@pytest.mark.parametrize(
    ("memory", "names"),
    [
        ("bm25", {"words", "speaker", "statement", "date"}),
        ("hybrid", {"words", "vectors", "speaker", "statement", "date"}),
        ("semantic-recall", {"vectors"}),
    ],
)
def test_ingredients_add_up_to_the_score(recaller: Recaller, memory: str, names: set[str]) -> None:
    found = recaller.recall(first_question(), resolve_configuration(memory), explain=True)
    ranked = [item for item in found.recall.items if item.rank is not None]
    assert ranked
    for item in ranked:
        parts = found.ingredients[item.message_ids[0]]
        assert set(parts) == names
        assert sum(parts.values()) == pytest.approx(item.score)


def test_the_length_of_a_unit_is_an_ingredient_too(recaller: Recaller) -> None:
    found = recaller.recall(first_question(), resolve_configuration("bm25", ["length_exponent=0.5"]), explain=True)
    parts = found.ingredients[best(found)]
    assert parts["length"] < 0
    assert sum(parts.values()) == pytest.approx(next(item.score for item in found.recall.items if item.rank == 1))


def test_settings_change_what_is_recalled(recaller: Recaller) -> None:
    def recalled(*overrides: str) -> Explained:
        return recaller.recall(first_question(), resolve_configuration("hybrid", overrides), explain=True)

    assert len(recalled("top_k=1", "message_range=0", "last_messages=0").recall.items) == 1
    assert recalled("budget=200").recall.tokens <= 200
    none = recalled("dense_weight=0.0")
    assert none.ingredients[best(none)]["vectors"] == 0


def test_evidence_and_chat_models_are_out_of_reach(recaller: Recaller) -> None:
    assert "reads the evidence" in why_not_again(resolve_configuration("oracle"))
    assert "chat model" in why_not_again(resolve_configuration("bm25", ["decompose=model"]))
    assert why_not_again(resolve_configuration("hybrid")) == ""
    with pytest.raises(HarnessError, match="gold evidence"):
        recaller.recall(first_question(), resolve_configuration("oracle"))
