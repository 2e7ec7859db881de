import json
import math
import os
import subprocess
import sys
from typing import Literal

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longmemeval.core.arrays import Vectors
from longmemeval.errors import FixtureError, HarnessError
from longmemeval.storage.vector_index import (
    EmbedderIdentity,
    Graph,
    GraphParameters,
    GraphState,
    VectorHit,
    VectorIndex,
    VectorItem,
)
from tests.support import examples, peak_memory

Engine = Literal["graph", "exact"]
ENGINES: tuple[Engine, ...] = ("graph", "exact")
GRAPH = GraphParameters(m=16, ef_construction=200, seed=0)
HASHING = EmbedderIdentity("hashing:4", "f" * 64)


def items(count: int) -> list[VectorItem]:
    return [VectorItem(f"t{number // 10}:{number % 10}", f"t{number // 10}", number % 10) for number in range(count)]


def clustered(count: int, dimension: int, seed: int, centre_seed: int = 7) -> Vectors:
    """Vectors around 40 centres: like embeddings, some are near one another and most are not."""
    centres = np.random.default_rng(centre_seed).standard_normal((40, dimension))
    generator = np.random.default_rng(seed)
    noise = generator.standard_normal((count, dimension))
    return (centres[generator.integers(40, size=count)] + 0.6 * noise).astype(np.float32)


def index_of(vectors: Vectors, engine: Engine = "graph", parameters: GraphParameters = GRAPH) -> VectorIndex:
    index = VectorIndex.of("messages", items(len(vectors)), vectors, HASHING)
    return index.with_graph(Graph.build(index.vectors, parameters)) if engine == "graph" and len(vectors) else index


def ids(hits: list[VectorHit]) -> list[str]:
    return [hit.item.id for hit in hits]


def vector(*numbers: float) -> Vectors:
    return np.array(numbers, dtype=np.float32)


@pytest.mark.parametrize("engine", ENGINES)
def test_scores_are_cosines_best_first(engine: Engine) -> None:
    index = index_of(np.array([[3, 0], [0, 5], [1, 1], [-2, 0]], dtype=np.float32), engine)

    hits = index.query(vector(10, 0), 4)

    assert ids(hits) == ["t0:0", "t0:2", "t0:1", "t0:3"]
    assert [hit.score for hit in hits] == pytest.approx([1.0, math.sqrt(0.5), 0.0, -1.0])
    assert hits[1].item == VectorItem("t0:2", "t0", 2)


@pytest.mark.parametrize("engine", ENGINES)
def test_equal_scores_come_in_item_order(engine: Engine) -> None:
    near, far = np.random.default_rng(1).standard_normal((2, 33)).astype(np.float32)
    index = index_of(np.array([far, near] * 95), engine)

    expected = [item.id for item in [*items(190)[1::2], *items(190)[::2]]]
    assert ids(index.query(near, 190)) == expected
    assert ids(index.query(near, 30)) == expected[:30]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("count", [0, 1, 3, 700])
@pytest.mark.parametrize("top_k", [1, 3, 10, 699, 5000])
def test_fewer_than_top_k_only_if_fewer_are_stored(engine: Engine, count: int, top_k: int) -> None:
    index = index_of(clustered(count, 8, seed=2), engine)

    hits = index.query(clustered(1, 8, seed=3)[0], top_k)

    assert len(hits) == len(set(ids(hits))) == min(count, top_k)
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)


def test_a_graph_that_falls_apart_still_gives_top_k_hits() -> None:
    vectors = np.random.default_rng(0).standard_normal((600, 8)).astype(np.float32)
    index = index_of(vectors, "graph", GraphParameters(m=2, ef_construction=1, seed=0))

    hits = index.query(vectors[0], 25)

    assert ids(hits) == ids(index_of(vectors, "exact").query(vectors[0], 25))


@pytest.mark.parametrize("engine", ENGINES)
def test_zero_vectors_are_stored_and_score_zero(engine: Engine) -> None:
    index = index_of(np.array([[0, 0], [1, 0], [-1, 0]], dtype=np.float32), engine)

    assert [hit.score for hit in index.query(vector(1, 0), 3)] == [1.0, 0.0, -1.0]
    assert [(hit.item.id, hit.score) for hit in index.query(vector(0, 0), 2)] == [("t0:0", 0), ("t0:1", 0)]


@pytest.mark.slow
def test_a_zero_query_ties_with_everything_in_item_order_in_a_large_index_too() -> None:
    index = index_of(clustered(3000, 8, seed=4))

    assert ids(index.query(np.zeros(8, dtype=np.float32), 3)) == ["t0:0", "t0:1", "t0:2"]


@pytest.mark.slow
@pytest.mark.parametrize(("count", "dimension"), [(550, 384), (3000, 64)])
def test_the_graph_finds_the_ten_nearest(count: int, dimension: int) -> None:
    vectors, queries = clustered(count, dimension, seed=5), clustered(100, dimension, seed=6)
    graph, exact = index_of(vectors), index_of(vectors, "exact")

    found = 0
    for query in queries:
        truth = exact.query(query, 10)
        approximate = graph.query(query, 10)
        found += len(set(ids(truth)) & set(ids(approximate)))
        scores = {hit.item.id: hit.score for hit in truth}
        assert all(scores.get(hit.item.id, hit.score) == hit.score for hit in approximate)

    assert found / 1000 >= 0.99


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
def test_a_filter_that_few_items_pass_gives_just_those(engine: Engine) -> None:
    vectors = clustered(800, 16, seed=7)
    query = vectors[0]
    index = index_of(vectors, engine)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    by_hand = sorted(range(400, 410), key=lambda row: -float(unit[row] @ unit[0]))

    hits = index.query(query, 20, matching=lambda item: item.thread_id == "t40")

    assert ids(hits) == [items(800)[row].id for row in by_hand]
    assert index.query(query, 5, matching=lambda item: False) == []


@pytest.mark.parametrize(
    "vectors",
    [
        np.ones((3, 2), dtype=np.float32),
        np.ones((1, 2), dtype=np.float32),
        np.ones(2, dtype=np.float32),
        np.array([[1, np.nan], [0, 1]], dtype=np.float32),
        np.array([[1, 0], [np.inf, 1]], dtype=np.float32),
    ],
)
def test_vectors_of_wrong_shape_or_not_finite_are_refused(vectors: Vectors) -> None:
    with pytest.raises(HarnessError, match="index 'messages'"):
        VectorIndex.of("messages", items(2), vectors, HASHING)


def test_bad_queries_and_an_id_twice_are_refused() -> None:
    index = index_of(np.eye(2, dtype=np.float32))

    with pytest.raises(HarnessError, match=r"shape \(1, 3\) where \(1, 2\)"):
        index.query(vector(1, 2, 3), 1)
    with pytest.raises(HarnessError, match="NaN"):
        index.query(vector(1, math.nan), 1)
    with pytest.raises(HarnessError, match="top_k is 0"):
        index.query(vector(1, 0), 0)
    with pytest.raises(HarnessError, match="'t0:1' occurs twice"):
        VectorIndex.of("messages", [items(2)[0], *[items(2)[1]] * 2], np.ones((3, 2), dtype=np.float32), HASHING)


def test_vector_json_has_exactly_the_documented_keys() -> None:
    document = json.loads(index_of(np.eye(4, dtype=np.float32)).persist())

    assert list(document) == ["format", "index", "embedder", "items", "vectors", "graph"]
    assert document["index"] == {
        "name": "messages",
        "dimension": 4,
        "metric": "cosine",
        "engine": "exact",
        "m": 16,
        "ef_construction": 200,
        "seed": 0,
        "count": 4,
    }
    assert document["embedder"] == {"spec": "hashing:4", "fingerprint": "f" * 64}
    assert document["items"][3] == {"id": "t0:3", "thread_id": "t0", "index": 3}
    # base64 of the first row, 1 0 0 0 as float32 little-endian.
    assert document["vectors"].startswith("AACAPwAAAAAAAAAAAAAAA")
    assert document["graph"] is None


def test_vector_json_is_small() -> None:
    assert len(index_of(clustered(550, 384, seed=10)).persist()) <= 1.6 * 550 * 384 * 4


@pytest.mark.slow
@settings(max_examples=examples(40))
@given(
    seed=st.integers(0, 10_000),
    count=st.sampled_from([0, 1, 2, 17, 260]),
    dimension=st.sampled_from([1, 2, 5, 24]),
    engine=st.sampled_from(ENGINES),
    m=st.sampled_from([2, 16]),
)
def test_persist_then_hydrate_gives_the_same_bytes_and_hits(
    seed: int, count: int, dimension: int, engine: Engine, m: int
) -> None:
    vectors = clustered(count, dimension, seed)
    vectors[: count // 5] = 0
    parameters = GraphParameters(m, 200, seed)
    index = index_of(vectors, engine, parameters)
    data = index.persist()

    restored = VectorIndex.hydrate(data, "vector.json")
    if engine == "graph" and count:
        built = msgspec.json.encode(Graph.build(index.vectors, parameters).state)
        state = msgspec.json.decode(built, type=GraphState)
        restored = restored.with_graph(Graph.restore(state, restored.vectors, parameters, "vector-graph.json"))

    queries = clustered(5, dimension, seed + 1)
    expected = [index.query(query, 3) for query in queries]
    assert [restored.query(query, 3) for query in queries] == expected
    assert restored.persist() == data


def repeated(kind: str) -> Vectors:
    """Half of 800 messages, or all, are equal or nearly so."""
    generator = np.random.default_rng(11)
    others, phrases = generator.standard_normal((800, 48)), generator.standard_normal((20, 48))
    match kind:
        case "half equal":
            others[1::2] = phrases[0]
        case "one duplicate":
            others[500] = others[3]
        case "20 phrases":
            others = phrases[generator.integers(20, size=800)]
        case "300 phrases":
            others = generator.standard_normal((300, 48))[generator.integers(300, size=800)]
        case "all equal":
            others[:] = phrases[0]
        case "all zero":
            others[:] = 0
        case "half zero, of both signs":
            others[1::4], others[3::4] = 0.0, -0.0
    return others.astype(np.float32)


DISTINCT = {
    "half equal": 401,
    "one duplicate": 799,
    "20 phrases": 20,
    "300 phrases": 281,
    "all equal": 1,
    "all zero": 1,
    "half zero, of both signs": 401,
}


@pytest.mark.parametrize("kind", DISTINCT)
def test_equal_vectors_share_an_item_and_hide_no_others(kind: str) -> None:
    vectors = repeated(kind)
    graph, exact = index_of(vectors), index_of(vectors, "exact")

    assert len(Graph.build(graph.vectors, GRAPH)) == DISTINCT[kind]
    for query in np.random.default_rng(5).standard_normal((20, 48)).astype(np.float32):
        for top_k in (1, 5, 10, 450, 5000):
            hits, nearest = graph.query(query, top_k), exact.query(query, top_k)
            assert len(hits) == len(nearest) == min(top_k, 800)
            # Random vectors are about equally far; those that are missed are as near as those that are found.
            assert ids(hits) == ids(nearest) or hits[-1].score >= nearest[-1].score - 0.05
        assert graph.query(query, 10, matching=lambda item: item.thread_id == "t40") == exact.query(
            query, 10, matching=lambda item: item.thread_id == "t40"
        )


@pytest.mark.parametrize("phrases", [1, 5, 20])
@pytest.mark.parametrize("noise", [1e-7, 1e-5, 1e-3])
def test_a_graph_in_which_nearly_equal_vectors_hide_others_is_measured(noise: float, phrases: int) -> None:
    generator = np.random.default_rng(11)
    centres = generator.standard_normal((phrases, 256))[generator.integers(phrases, size=1500)]
    centres[::7] = generator.standard_normal((215, 256))
    noisy = (centres + noise * generator.standard_normal(centres.shape)).astype(np.float32)
    graph, exact = index_of(noisy), index_of(noisy, "exact")

    recall = graph.graph_recall(seed=0)
    kept = graph if recall >= 0.99 else exact
    queries = generator.standard_normal((50, 256)).astype(np.float32)
    assert sum(len(set(ids(kept.query(query, 10))) & set(ids(exact.query(query, 10)))) for query in queries) >= 490
    assert graph.graph_recall(seed=0) == recall
    assert recall < 0.99 or (noise, phrases) != (1e-7, 1)


def test_what_compares_every_vector_misses_none() -> None:
    vectors = clustered(300, 16, seed=5)
    assert index_of(vectors, "exact").graph_recall(seed=0) == index_of(vectors[:200]).graph_recall(seed=0) == 1.0


def test_a_graph_of_an_earlier_version_has_an_item_for_each_vector() -> None:
    """Its bytes are those of a graph over distinct vectors, without the numbers of items."""
    distinct = clustered(300, 8, seed=3)
    state = Graph.build(index_of(distinct, "exact").vectors, GRAPH).state
    assert state.nodes == b""
    vectors = np.concatenate([distinct[:1], distinct[:1], distinct[2:]])
    index = index_of(vectors, "exact")
    old = index.with_graph(Graph.restore(state, index.vectors, GRAPH, "x"))
    assert ids(old.query(distinct[0], 2)) == ["t0:0", "t0:1"]


BUILD = """
import hashlib, msgspec, numpy as np
from longmemeval.storage.vector_index import Graph, GraphParameters
from longmemeval.storage.vector_index import EmbedderIdentity, VectorIndex, VectorItem
vectors = np.random.default_rng(3).standard_normal((600, 48)).astype(np.float32)
items = [VectorItem(str(n), "t", n) for n in range(600)]
index = VectorIndex.of("messages", items, vectors, EmbedderIdentity("s", "f"))
graph = Graph.build(index.vectors, GraphParameters(16, 200, 0)).state
print(hashlib.sha256(index.persist() + msgspec.json.encode(graph)).hexdigest())
"""


def test_two_processes_build_the_same_bytes() -> None:
    hashes = set()
    for hash_seed, threads in (("1", "1"), ("2", "4")):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "OMP_NUM_THREADS": threads, "MALLOC_PERTURB_": "77"}
        done = subprocess.run(
            [sys.executable, "-c", BUILD], env=environment, capture_output=True, text=True, check=True
        )
        hashes.add(done.stdout)
    assert len(hashes) == 1


def test_without_hnswlib_the_exact_search_works_and_a_graph_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    index = index_of(np.eye(3, dtype=np.float32), "exact")
    state = Graph.build(index.vectors, GRAPH).state
    monkeypatch.setitem(sys.modules, "hnswlib", None)

    exact = VectorIndex.hydrate(index.persist(), "vector.json")
    assert ids(exact.query(vector(0, 1, 0), 1)) == ["t0:1"]
    with pytest.raises(HarnessError, match=r"install .*\[hnsw\].*C\+\+ compiler.*apt-get install g\+\+.*--index exact"):
        Graph.build(index.vectors, GRAPH)
    with pytest.raises(HarnessError, match=r"install .*\[hnsw\]"):
        Graph.restore(state, index.vectors, GRAPH, "vector-graph.json")


def test_a_newer_format_is_refused_by_name() -> None:
    with pytest.raises(FixtureError, match=r"format 7 is newer than this version understands \(1\): upgrade"):
        VectorIndex.hydrate(b'{"format": 7, "index": {"metric": "hyperbolic"}}', "vector.json")


def edited(data: bytes, name: str, value: object) -> bytes:
    document = json.loads(data)
    *path, last = name.split(".")
    place = document
    for step in path:
        place = place[step]
    place[last] = value(place[last]) if callable(value) else value
    return json.dumps(document).encode()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("vectors", lambda text: text[:-8]),
        ("vectors", "no base64!"),
        ("items", lambda rows: rows[1:]),
        ("items", lambda rows: [rows[1], *rows[1:]]),
        ("index.count", 39),
        ("index.dimension", 5),
        ("index.metric", "l2"),
        ("index.engine", "hnswlib"),
        ("graph", {}),
    ],
)
def test_a_file_that_contradicts_itself_is_refused(name: str, value: object) -> None:
    with pytest.raises(FixtureError) as caught:
        VectorIndex.hydrate(edited(index_of(clustered(40, 4, seed=12)).persist(), name, value), "x/vector.json")
    assert caught.value.where == "x/vector.json"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("levels", ""),
        ("entry_point", 40),
        ("max_level", 9),
        # A first link count of 0xFFFFFFFF, then a first link far outside the index.
        ("base_links", lambda text: "/////w" + text[6:]),
        ("base_links", lambda text: text[:8] + "////" + text[12:]),
        ("base_links", lambda text: text[:-8]),
        ("upper_links", lambda text: "AAAA" + text),
        ("nodes", ""),
        ("nodes", lambda text: text[:-8]),
        ("nodes", lambda text: text[:20]),
        # An item that no vector has, and a vector whose item there is not.
        ("nodes", lambda text: "AQAA" + text[4:]),
        ("nodes", lambda text: "//8A" + text[4:]),
    ],
)
def test_a_graph_that_contradicts_its_vectors_is_refused(name: str, value: object) -> None:
    vectors = clustered(40, 4, seed=12)
    vectors[39] = vectors[38]
    index = index_of(vectors, "exact")
    built = msgspec.json.encode(Graph.build(index.vectors, GRAPH).state)
    Graph.restore(msgspec.json.decode(built, type=GraphState), index.vectors, GRAPH, "x")
    damaged = msgspec.json.decode(edited(built, name, value), type=GraphState)
    with pytest.raises(FixtureError) as caught:
        Graph.restore(damaged, index.vectors, GRAPH, "x/vector-graph.json")
    assert caught.value.where == "x/vector-graph.json"


@pytest.mark.parametrize("parameters", [GraphParameters(8, 200, 0), GraphParameters(2, 200, 0)])
def test_a_graph_of_other_parameters_is_refused(parameters: GraphParameters) -> None:
    index = index_of(clustered(40, 4, seed=12), "exact")
    with pytest.raises(FixtureError, match="The graph does not fit the vectors"):
        Graph.restore(Graph.build(index.vectors, GRAPH).state, index.vectors, parameters, "x")


def test_storing_vectors_takes_no_more_than_a_copy_of_them() -> None:
    vectors = clustered(8192, 64, 1)
    named = items(len(vectors))
    # The rows; not all of them in double precision at one time.
    assert peak_memory(lambda: VectorIndex.of("messages", named, vectors, HASHING)) < 2.5 * vectors.nbytes


@pytest.mark.slow
@pytest.mark.parametrize("top_k", [1, 10, 299, 300])
def test_exact_search_is_that_in_double_precision(top_k: int) -> None:
    # Three of each, and many that differ by less than single precision can tell.
    base = clustered(50, 96, 3)
    vectors = np.concatenate([base, base, base * 2, *(base + 1e-7 * clustered(50, 96, seed) for seed in (4, 5, 6))])
    index = index_of(vectors, "exact")
    _, rows = index.rows()
    for query in clustered(20, 96, 9):
        unit = query.astype(np.float64) / np.sqrt((query.astype(np.float64) ** 2).sum())
        scores = (rows.astype(np.float64) * unit.astype(np.float32).astype(np.float64)).sum(axis=1).astype(np.float32)
        best = np.argsort(-scores, kind="stable")[:top_k]
        found = index.query(query, top_k)
        assert [(hit.item, hit.score) for hit in found] == [(items(300)[row], scores[row]) for row in best]
