"""The graph over the messages is made for those who search it, and found where earlier versions kept it."""

from pathlib import Path

import pytest
from msgspec import structs

from longmemeval.core.arrays import Vectors
from longmemeval.core.files import sha256_bytes
from longmemeval.core.part_options import IndexEngine
from longmemeval.dataset import Dataset
from longmemeval.errors import FixtureError
from longmemeval.pipeline.prepare.prepare import PrepareOptions, PrepareReport, prepare
from longmemeval.pipeline.run.run import RunOptions, run
from longmemeval.ranking.message_graph import MESSAGE_GRAPH
from longmemeval.ranking.message_vectors import VECTORS
from longmemeval.records import PartInfo
from longmemeval.settings import Folders
from longmemeval.storage.fixture import Fixture, fixture_folder, write_fixture
from longmemeval.storage.graph import Graph, GraphParameters
from longmemeval.storage.vector_store import VectorStore
from tests.pipeline.helpers import MODEL, answers, colours

HNSW = {"m": 16, "ef_construction": 200, "seed": 0}


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    return colours(tmp_path / "d.json", 2)


def make(dataset: Dataset, where: Folders, memory: str, **changes: object) -> PrepareReport:
    return prepare(dataset, [memory], options=PrepareOptions(jobs=1).replaced(**changes), where=where)


def folder_of(where: Folders, haystack_id: str) -> Path:
    return fixture_folder(where.prepared_dir, "d", "default", haystack_id)


def recalled(dataset: Dataset, where: Folders, run_id: str) -> list[list[str]]:
    run(dataset, "semantic-recall", MODEL, options=RunOptions(run_id=run_id), where=where)
    return [answer["recall_ids"] for answer in sorted(answers(where, run_id), key=lambda one: str(one["question_id"]))]


def as_before(folder: Path, index: IndexEngine) -> None:
    """Write a fixture as an earlier version did: with the graph in `vector.json`."""
    fixture = Fixture.open(folder)
    opened = fixture.part(VECTORS)
    store = VectorStore()
    store.create(opened.name, opened.dimension, engine="hnswlib" if index == "hnsw" else "exact", **HNSW)
    store.upsert(opened.name, *opened.rows())
    data = store.persist(opened.name, opened.embedder.spec, opened.embedder.fingerprint)
    recipe = fixture.meta.parts["vector"].recipe | {"index": index} | (HNSW if index == "hnsw" else {})
    kept = {name: info for name, info in fixture.meta.parts.items() if name != MESSAGE_GRAPH.name}
    meta = structs.replace(fixture.meta, parts=kept | {"vector": PartInfo(sha256_bytes(data), recipe)})
    write_fixture(folder, meta, {"vector": data})
    (folder / "vector-graph.json").unlink()


def test_rankings_of_everything_have_no_graph_built(
    dataset: Dataset, where: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    built: list[int] = []
    build = Graph.build

    def counted(vectors: Vectors, parameters: GraphParameters) -> Graph:
        built.append(len(vectors))
        return build(vectors, parameters)

    monkeypatch.setattr(Graph, "build", counted)
    assert make(dataset, where, "hybrid").parts == ("db", "words", "vector")
    assert not built
    with pytest.raises(FixtureError, match="lacks part 'vector-graph'"):
        recalled(dataset, where, "early")
    assert make(dataset, where, "semantic-recall").parts == ("db", "vector", "vector-graph")
    assert built == [6, 6]
    recalled(dataset, where, "r")
    assert built == [6, 6]


@pytest.mark.parametrize("index", ["hnsw", "exact"])
def test_graphs_in_the_file_of_the_vectors_are_read(dataset: Dataset, where: Folders, index: IndexEngine) -> None:
    make(dataset, where, "semantic-recall", index=index)
    expected = recalled(dataset, where, "now")
    for haystack_id in ("q0", "q1"):
        as_before(folder_of(where, haystack_id), index)
    assert recalled(dataset, where, "before") == expected
    assert make(dataset, where, "semantic-recall", index=index).prepared == 0
    assert make(dataset, where, "hybrid", index=index).parts
    assert "graph" in (folder_of(where, "q0") / "vector.json").read_text()
    other: IndexEngine = "exact" if index == "hnsw" else "hnsw"
    with pytest.raises(FixtureError, match="'vector-graph' of this preparation was made by another recipe"):
        make(dataset, where, "semantic-recall", index=other)


def test_a_graph_follows_its_vectors(dataset: Dataset, where: Folders) -> None:
    make(dataset, where, "semantic-recall")
    make(dataset, where, "hybrid", force=True, embedder="hashing:64")
    with pytest.raises(FixtureError, match="'vector-graph' is stale: the parts it was made from"):
        recalled(dataset, where, "r")
    make(dataset, where, "semantic-recall", embedder="hashing:64")
    assert recalled(dataset, where, "r")
    folder = folder_of(where, "q0")
    (folder / "vector.json").unlink()
    make(dataset, where, "semantic-recall", embedder="hashing:64")
    info = Fixture.open(folder).meta.parts
    assert info["vector-graph"].recipe["vector_sha256"] == info["vector"].sha256


def test_a_graph_that_its_recipe_does_not_want_is_refused(dataset: Dataset, where: Folders) -> None:
    make(dataset, where, "semantic-recall")
    folder = folder_of(where, "q0")
    meta = Fixture.open(folder).meta
    info = meta.parts["vector-graph"]
    changed = structs.replace(info, recipe=info.recipe | {"index": "exact"})
    write_fixture(folder, structs.replace(meta, parts=meta.parts | {"vector-graph": changed}), {})
    with pytest.raises(FixtureError, match="Graph and recipe do not fit together"):
        Fixture.open(folder).part(MESSAGE_GRAPH)
