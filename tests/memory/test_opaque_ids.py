"""Code of others sees no id of ours: every way in, every object, and the cheat has nothing of it."""

import json
from pathlib import Path

import pytest

from longmemeval.benchmarks.registry import load_dataset
from longmemeval.core.files import sha256_text
from longmemeval.dataset import Dataset
from longmemeval.memory.configuration import MEMORIES, resolve_configuration
from longmemeval.pipeline.prepare.prepare import PrepareOptions, prepare
from longmemeval.pipeline.verify.verify import verify
from longmemeval.records import PartInfo
from longmemeval.settings import Folders
from longmemeval.storage.fixture import Fixture, fixture_folder, write_fixture
from longmemeval.storage.opaque import HistoryIds
from tests.memory.spying import NOTED, SPY
from tests.pipeline.helpers import answer_all, answers, folders_in
from tests.support import ROOT, json_lines, longmemeval, record, write_dataset

LABELS = ("answer_", "filler_", "_abs")
IDS = ("one_abs", "two_abs")


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    return load_dataset(write_dataset(tmp_path / "d.json", *map(record, IDS)))


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    return folders_in(tmp_path)


def doors(name: str) -> str:
    """The name of the spy by one of the ways in."""
    if name in ("given", "defined"):
        MEMORIES.give(f"spy-{name}", SPY if name == "defined" else MEMORIES.get("tests.memory.spying:Spy"))
        return f"spy-{name}"
    return f"tests.memory.spying:{name}"


@pytest.mark.parametrize("door", ["Spy", "SPY", "given", "defined", "AddSearch"])
def test_no_door_shows_an_id_of_ours(door: str, dataset: Dataset, folders: Folders, tmp_path: Path) -> None:
    memory = resolve_configuration(doors(door), [f"told={tmp_path / 'told.jsonl'}"])
    options = PrepareOptions(jobs=1, embedder="hashing")
    prepare(dataset, [memory], options=options, folders=folders)
    assert answer_all(dataset, folders, memory=memory).answered == 2
    told = (tmp_path / "told.jsonl").read_text()
    assert "bicycle green" in told
    assert len(json.loads(told.splitlines()[0])) > 5
    assert [label for label in LABELS if label in told] == []


def test_what_it_recalls_is_ours_again_and_its_cheat_finds_nothing(
    dataset: Dataset, folders: Folders, tmp_path: Path
) -> None:
    memory = resolve_configuration("tests.memory.spying:Spy", [f"told={tmp_path / 'told.jsonl'}"])
    prepare(dataset, [memory], options=PrepareOptions(jobs=1, embedder="hashing"), folders=folders)
    answer_all(dataset, folders, memory=memory)
    assert [one["recall_ids"] for one in answers(folders)] == [["filler_1:0"]] * 2
    places = ("--prepared-dir", folders.prepared_dir, "--results-dir", folders.results_dir)
    said = f"told={tmp_path / 'told.jsonl'}"
    ranked = ("retrieval", "--dataset", tmp_path / "d.json", "--memory", "tests.memory.spying:Spy", "--set", said)
    longmemeval(*ranked, "--granularity", "turn", "--json", "--run-id", "r2", *places, cwd=ROOT)
    rankings = json_lines(folders.results_dir / "r2" / "rankings.jsonl")
    assert [[unit["id"] for unit in one["ranked"]] for one in rankings] == [
        ["filler_1:0", "answer_1:0", "filler_2:0"]
    ] * 2
    assert verify("d/default", folders=folders).problems == ()


def test_no_public_attribute_translates_an_id(dataset: Dataset, folders: Folders, tmp_path: Path) -> None:
    memory = resolve_configuration("tests.memory.spying:Peek", [f"told={tmp_path / 'told.json'}"])
    prepare(dataset, [memory], options=PrepareOptions(jobs=1, embedder="hashing"), folders=folders)
    assert answer_all(dataset, folders, memory=memory).answered == 2
    assert json.loads((tmp_path / "told.json").read_text()) == []


def test_a_part_that_was_made_from_our_ids_is_still_read(dataset: Dataset, folders: Folders, tmp_path: Path) -> None:
    """As earlier versions made it: its ids are translated when it is opened."""
    memory = resolve_configuration("tests.memory.spying:Spy", [f"told={tmp_path / 'told.jsonl'}"])
    prepare(dataset, [memory], options=PrepareOptions(jobs=1, embedder="hashing"), folders=folders)
    for name in IDS:
        folder = fixture_folder(folders.prepared_dir, "d", "default", name)
        fixture = Fixture.open(folder)
        noted = json.dumps({"seen": [], "first": ["filler_1:0", "answer_1:0", "filler_2:0"]}).encode()
        info = fixture.meta.parts[NOTED.name]
        recipe = {key: value for key, value in info.recipe.items() if key != "ids"}
        fixture.meta.parts[NOTED.name] = PartInfo(sha256_text(noted.decode()), recipe)
        write_fixture(folder, fixture.meta, {NOTED.name: noted})
    assert prepare(dataset, [memory], folders=folders).prepared == 0
    assert answer_all(dataset, folders, memory=memory).answered == 2
    assert [one["recall_ids"] for one in answers(folders)] == [["filler_1:0"]] * 2


def test_ids_are_translated_both_ways_and_texts_are_not() -> None:
    ids = HistoryIds("h", ["a", "a:1", "b"])
    assert [ids.own(ids.shown(name)) for name in ("a", "a:1", "b:17")] == ["a", "a:1", "b:17"]
    assert ids.shown("nothing") == ids.own("nothing") == "nothing"
    told = json.loads(ids.file(json.dumps({"id": "b:2", "of": "b", "text": 'he said "b" and b:2'}).encode()))
    assert (told["id"], told["of"], told["text"]) == (ids.shown("b:2"), ids.shown("b"), 'he said "b" and b:2')
    assert ids.shown("b") != HistoryIds("other", ["a", "a:1", "b"]).shown("b")
