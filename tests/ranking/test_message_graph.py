"""The graph over the messages is made for those who search it."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec import structs

from longmemeval.benchmarks.longmemeval.loader import LongMemEvalDataset
from longmemeval.core.arrays import Vectors
from longmemeval.core.files import sha256_bytes
from longmemeval.core.part_options import IndexEngine
from longmemeval.dataset import Dataset
from longmemeval.errors import FixtureError
from longmemeval.llm.options import ModelOptions
from longmemeval.pipeline.prepare.prepare import PrepareOptions, PrepareReport, prepare
from longmemeval.pipeline.run.plan import RunOptions
from longmemeval.pipeline.run.run import run
from longmemeval.pipeline.verify.verify import verify
from longmemeval.ranking.dense import MESSAGE_GRAPH, encode_graph
from longmemeval.ranking.message_vectors import VECTORS
from longmemeval.settings import Folders
from longmemeval.storage.fixture import Fixture, fixture_folder, write_fixture
from longmemeval.storage.vector_index import Graph, GraphParameters, GraphState
from tests.pipeline.helpers import MODEL, answers, colours, folders_in
from tests.server import ModelServer
from tests.support import record, write_dataset


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    return colours(tmp_path / "d.json", 2)


def make(dataset: Dataset, folders: Folders, memory: str, **changes: object) -> PrepareReport:
    return prepare(dataset, [memory], options=PrepareOptions(jobs=1).replaced(**changes), folders=folders)


def folder_of(folders: Folders, haystack_id: str) -> Path:
    return fixture_folder(folders.prepared_dir, "d", "default", haystack_id)


def recalled(dataset: Dataset, folders: Folders, run_id: str) -> list[list[str]]:
    run(dataset, "semantic-recall", MODEL, options=RunOptions(run_id=run_id), folders=folders)
    return [
        answer["recall_ids"] for answer in sorted(answers(folders, run_id), key=lambda one: str(one["question_id"]))
    ]


def test_rankings_of_everything_have_no_graph_built(
    dataset: Dataset, folders: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    built: list[int] = []
    build = Graph.build

    def counted(vectors: Vectors, parameters: GraphParameters) -> Graph:
        built.append(len(vectors))
        return build(vectors, parameters)

    monkeypatch.setattr(Graph, "build", counted)
    assert make(dataset, folders, "hybrid").parts == ("db", "words", "vector")
    assert not built
    with pytest.raises(FixtureError, match="lacks part 'vector-graph'"):
        recalled(dataset, folders, "early")
    assert make(dataset, folders, "semantic-recall").parts == ("db", "vector", "vector-graph")
    assert built == [6, 6]
    recalled(dataset, folders, "r")
    assert built == [6, 6]


@pytest.mark.slow
def test_a_graph_follows_its_vectors(dataset: Dataset, folders: Folders) -> None:
    make(dataset, folders, "semantic-recall")
    make(dataset, folders, "hybrid", force=True, embedder="hashing:64")
    with pytest.raises(FixtureError, match="'vector-graph' is stale: the parts it was made from"):
        recalled(dataset, folders, "r")
    make(dataset, folders, "semantic-recall", embedder="hashing:64")
    assert recalled(dataset, folders, "r")
    folder = folder_of(folders, "q0")
    (folder / "vector.json").unlink()
    make(dataset, folders, "semantic-recall", embedder="hashing:64")
    info = Fixture.open(folder).meta.parts
    assert info["vector-graph"].recipe["vector_sha256"] == info["vector"].sha256


def test_a_graph_that_its_recipe_does_not_want_is_refused(dataset: Dataset, folders: Folders) -> None:
    make(dataset, folders, "semantic-recall")
    folder = folder_of(folders, "q0")
    meta = Fixture.open(folder).meta
    info = meta.parts["vector-graph"]
    changed = structs.replace(info, recipe=info.recipe | {"index": "exact"})
    write_fixture(folder, structs.replace(meta, parts=meta.parts | {"vector-graph": changed}), {})
    with pytest.raises(FixtureError, match="Graph and recipe do not fit together"):
        Fixture.open(folder).part(MESSAGE_GRAPH)


WORDS = np.random.default_rng(3).permuted(np.tile(np.arange(900), (600, 1)), axis=1)[:, :9]


def talk(kind: str) -> list[str]:
    """Six hundred messages besides the evidence, many of them alike."""
    texts = [" ".join(f"w{word}" for word in words) for words in WORDS]
    match kind:
        case "half equal":
            texts[1::2] = ["ok thanks"] * 300
        case "20 phrases":
            texts = [f"well thanks {place % 20}" for place in range(600)]
        case "all equal":
            texts = ["ok thanks"] * 600
        case "one duplicate":
            texts[400] = texts[7]
        case "nearly equal":
            texts[1::2] = [f"{WORDS[5]}" * 3 + f" w{place}" for place in range(300)]
    return texts


def haystack(path: Path, *kinds: str) -> Dataset:
    """A question for each kind; the evidence is in the last session."""
    records: list[dict[str, Any]] = []
    for number, kind in enumerate(kinds):
        texts = talk(kind)
        sessions: list[list[dict[str, Any]]]
        sessions = [[{"role": "user", "content": text} for text in texts[at : at + 20]] for at in range(0, 600, 20)]
        sessions.append([{"role": "user", "content": "My bicycle has the colour green.", "has_answer": True}])
        names = [f"s{place}" for place in range(30)] + ["answer_1"]
        dates = [f"2023/05/{1 + place // 24:02} (Mon) {place % 24:02}:00" for place in range(31)]
        own = {"haystack_sessions": sessions, "haystack_session_ids": names, "haystack_dates": dates}
        records.append(record(f"q{number}", **own))
    return LongMemEvalDataset(write_dataset(path, *records))


KINDS = ("half equal", "20 phrases", "all equal", "one duplicate", "nearly equal")


def test_among_equal_messages_a_graph_finds_what_exact_search_finds(tmp_path: Path) -> None:
    dataset = haystack(tmp_path / "d.json", *KINDS)
    found = {}
    indexes: tuple[IndexEngine, ...] = ("hnsw", "exact")
    for index in indexes:
        folders = folders_in(tmp_path / index)
        make(dataset, folders, "semantic-recall", index=index)
        found[index] = recalled(dataset, folders, "r")
    assert found["hnsw"] == found["exact"]
    assert all("answer_1:0" in ids for ids in found["hnsw"])


def told(folders: Folders, number: int) -> dict[str, Any]:
    meta = json.loads((folder_of(folders, f"q{number}") / "meta.json").read_bytes())
    figures: dict[str, Any] = meta["parts"]["vector-graph"].get("told", {})
    return figures


def test_a_graph_that_misses_messages_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Here, a search that always ends among the same ones."""
    dataset, folders = haystack(tmp_path / "d.json", "half equal", "20 phrases", "one duplicate"), folders_in(tmp_path)
    make(dataset, folders, "semantic-recall", index="exact", name="exact")
    with monkeypatch.context() as patch:
        patch.setattr(Graph, "nearest", lambda graph, unit, count: np.arange(count))
        report = make(dataset, folders, "semantic-recall", index="hnsw")
    (note,) = report.notes
    assert note.startswith("2 haystacks: ")
    assert [told(folders, number)["recall"] < 0.99 for number in range(3)] == [True, False, True]
    assert recalled(dataset, folders, "r") == recalled_from(dataset, folders, "exact")
    # As made here, all of them are kept.
    assert make(dataset, folders, "semantic-recall", index="hnsw", force=True).notes == ()
    assert [told(folders, number)["recall"] >= 0.99 for number in range(3)] == [True] * 3
    assert verify("d/default", folders=folders).problems == ()


def recalled_from(dataset: Dataset, folders: Folders, prepared: str) -> list[list[str]]:
    run(dataset, "semantic-recall", MODEL, options=RunOptions(run_id=prepared, prepared=prepared), folders=folders)
    return [one["recall_ids"] for one in sorted(answers(folders, prepared), key=lambda one: str(one["question_id"]))]


def as_before(folder: Path) -> None:
    """Put a graph of the earlier version into a fixture: an item for each message, nothing measured."""
    fixture = Fixture.open(folder)
    distinct = np.random.default_rng(0).standard_normal(fixture.part(VECTORS).vectors.shape).astype(np.float32)
    state: GraphState = Graph.build(distinct, GraphParameters(16, 200, 0)).state
    assert not state.nodes
    data = encode_graph(state).replace(b',"nodes":""', b"")
    info = fixture.meta.parts["vector-graph"]
    old = structs.replace(info, sha256=sha256_bytes(data), recipe=info.recipe | {"version": 1}, stats={})
    write_fixture(
        folder, structs.replace(fixture.meta, parts=fixture.meta.parts | {"vector-graph": old}), {"vector-graph": data}
    )


def test_graphs_of_an_earlier_version_are_read_and_made_again_without_embedding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset, folders = haystack(tmp_path / "d.json", "half equal", "one duplicate"), folders_in(tmp_path)
    notes: list[str] = []
    with ModelServer() as server:
        monkeypatch.setenv("OPENAI_API_KEY", "k")
        options: dict[str, Any] = {"embedder": "openai:local", "api_base": server.url, "index": "hnsw"}
        make(dataset, folders, "semantic-recall", **options)
        for number in range(2):
            as_before(folder_of(folders, f"q{number}"))
        asked = RunOptions(run_id="old", tell=notes.append, model_options=ModelOptions(api_base=server.url))
        run(dataset, "semantic-recall", MODEL, options=asked, folders=folders)
        assert [note.partition(" is of an earlier version")[0] for note in notes if "earlier" in note] == [
            "Part 'vector-graph' of 2 of 2 haystacks"
        ]
        assert verify("old", folders=folders).problems == ()
        # Where nothing can be written, they are read as they are.
        root = folders.prepared_dir / "d" / "default"
        with monkeypatch.context() as patch:
            patch.setattr(os, "access", lambda path, mode: Path(path) != root)
            assert make(dataset, folders, "semantic-recall", **options).already == 2
        before = len(server.requests)
        report = make(dataset, folders, "semantic-recall", **options)
        assert len(server.requests) == before
    assert (report.prepared, report.embeddings_computed, len(report.notes)) == (2, 0, 1)
    assert [told(folders, number)["recall"] >= 0.99 for number in range(2)] == [True] * 2
    assert verify("d/default", folders=folders).problems == ()
    # The earlier run is not accused of what `prepare` replaced.
    assert verify("old", folders=folders).problems == ()
