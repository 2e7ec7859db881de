"""The graph over the messages is made for those who search it."""

from pathlib import Path

import pytest
from msgspec import structs

from longmemeval.core.arrays import Vectors
from longmemeval.dataset import Dataset
from longmemeval.errors import FixtureError
from longmemeval.pipeline.prepare.prepare import PrepareOptions, PrepareReport, prepare
from longmemeval.pipeline.run.plan import RunOptions
from longmemeval.pipeline.run.run import run
from longmemeval.ranking.dense import MESSAGE_GRAPH
from longmemeval.settings import Folders
from longmemeval.storage.fixture import Fixture, fixture_folder, write_fixture
from longmemeval.storage.vector_index import Graph, GraphParameters
from tests.pipeline.helpers import MODEL, answers, colours


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
