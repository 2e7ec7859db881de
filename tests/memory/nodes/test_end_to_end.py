"""`typed-nodes` through the pipeline: prepared, answered from, shown and verified like any memory."""

import json
from datetime import date
from pathlib import Path

import pytest

from longmemeval.benchmarks.registry import load_dataset
from longmemeval.core.files import sha256_file
from longmemeval.dataset import Dataset
from longmemeval.errors import HarnessError
from longmemeval.memory.configuration import resolve_configuration
from longmemeval.memory.nodes.library import shipped_nodes
from longmemeval.memory.nodes.part import NodesPart
from longmemeval.pipeline.prepare.prepare import PrepareOptions, prepare
from longmemeval.pipeline.verify.verify import verify
from longmemeval.settings import Folders
from longmemeval.storage.fixture import Fixture
from tests.pipeline.helpers import answer_all, answers, folders_in
from tests.support import longmemeval, record, write_dataset

NODES = NodesPart(shipped_nodes())
SESSION = [
    {"role": "user", "content": "I went to the dentist yesterday with my sister Anna. What a day!"},
    {"role": "assistant", "content": "I visited Mars last week."},
    {"role": "user", "content": "I might buy a boat. I love hiking and pottery. If I won, I would sell my car."},
]


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    one = record(
        haystack_sessions=[SESSION], haystack_session_ids=["answer_1"], haystack_dates=["2023/05/01 (Mon) 10:00"]
    )
    return load_dataset(write_dataset(tmp_path / "d.json", one))


def prepared(dataset: Dataset, folders: Folders, **options: object) -> Fixture:
    prepare(dataset, ["typed-nodes"], options=PrepareOptions(jobs=1).replaced(**options), folders=folders)
    return Fixture.open(folders.prepared_dir / "d/default/q1")


def test_entries_are_dated_attributed_and_proven(dataset: Dataset, folders: Folders) -> None:
    entries = prepared(dataset, folders).part(NODES).entries
    event = next(entry for entry in entries if entry.node == "temporal-event")
    assert event.values["description"] == "The user went to the dentist yesterday with their sister Anna"
    assert (event.dates["when"].start, event.dates["when"].phrase) == (date(2023, 4, 30), "yesterday")
    assert event.message_ids == ("answer_1:0",)
    assert event.evidence in SESSION[0]["content"]
    liked = [entry.values for entry in entries if entry.node == "attribute"]
    assert {"entity": "the user", "category": "preference", "value": "likes pottery"} in liked
    assert [entry.values["related"] for entry in entries if entry.node == "relationship"] == ["Anna"]
    assert not [
        entry for entry in entries if "Mars" in entry.evidence or "boat" in entry.evidence or "car" in entry.evidence
    ]


@pytest.mark.slow
def test_same_input_same_bytes(dataset: Dataset, tmp_path: Path) -> None:
    hashes = set()
    for jobs, executor in ((1, "threads"), (2, "threads"), (2, "processes")):
        folders = folders_in(tmp_path / f"{executor}{jobs}")
        prepared(dataset, folders, jobs=jobs, executor=executor)
        folder = folders.prepared_dir / "d/default/q1"
        hashes.add((sha256_file(folder / "nodes.json"), sha256_file(folder / "nodes-vectors.json")))
    assert len(hashes) == 1


def test_it_is_answered_from_verified_and_shown(dataset: Dataset, folders: Folders, tmp_path: Path) -> None:
    prepared(dataset, folders)
    answer_all(dataset, folders, memory="typed-nodes")
    assert answers(folders)[0]["status"] == "ok"
    assert verify("r", folders=folders).problems == ()
    assert verify("d/default", folders=folders).problems == ()
    shown = longmemeval("inspect", "q1", "--dataset", "d.json", "--all", cwd=folders.results_dir.parent).stdout
    assert "temporal-event" in shown
    assert "2023-05-01" in shown


def test_an_entry_that_nobody_said_is_found_by_verify(dataset: Dataset, folders: Folders) -> None:
    folder = prepared(dataset, folders).path
    part, meta = folder / "nodes.json", json.loads((folder / "meta.json").read_text())
    part.write_text(part.read_text().replace("I went to the dentist yesterday", "I went to the moon yesterday"))
    meta["parts"]["nodes"]["sha256"] = sha256_file(part)
    meta["parts"]["nodes-vectors"]["recipe"]["nodes_sha256"] = sha256_file(part)
    (folder / "meta.json").write_text(json.dumps(meta))
    told = verify("d/default", folders=folders).problems
    assert any("whose evidence is not in answer_1:0" in problem for problem in told)


@pytest.mark.slow
def test_other_nodes_are_another_part_and_do_not_mix(dataset: Dataset, folders: Folders, tmp_path: Path) -> None:
    nodes = tmp_path / "nodes"
    nodes.mkdir()
    (nodes / "one.yaml").write_text("extends: relationship\n")
    mine = resolve_configuration("typed-nodes", [f"nodes={nodes}"])
    prepare(dataset, [mine, "typed-nodes"], options=PrepareOptions(jobs=1), folders=folders)
    parts = sorted(path.name for path in (folders.prepared_dir / "d/default/q1").glob("nodes*"))
    assert len(parts) == 4
    answer_all(dataset, folders, memory=mine)
    (nodes / "one.yaml").write_text("extends: relationship\nsummary: another\n")
    with pytest.raises(HarnessError, match="lacks part 'nodes-"):
        answer_all(dataset, folders, "second", memory=mine)


def test_a_dry_run_foresees_a_call_for_each_node_and_session(dataset: Dataset, folders: Folders) -> None:
    options = PrepareOptions(dry_run=True).replaced(node_model="offline/extractive")
    estimate = prepare(dataset, ["typed-nodes"], options=options, folders=folders).estimate
    assert estimate is not None
    assert "'sessions times nodes for the node model': 4" in str(estimate)
