import json
import math
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longmemeval.core.arrays import Vectors
from longmemeval.errors import FixtureError, HarnessError
from longmemeval.storage.graph import Graph
from longmemeval.storage.vector_store import Engine, VectorHit, VectorItem, VectorStore
from tests.support import examples, peak_memory

ENGINES: tuple[Engine, ...] = ("hnswlib", "exact")


def items(count: int) -> list[VectorItem]:
    return [VectorItem(f"t{number // 10}:{number % 10}", f"t{number // 10}", number % 10) for number in range(count)]


def clustered(count: int, dimension: int, seed: int, centre_seed: int = 7) -> Vectors:
    """Vectors around 40 centres: like embeddings, some are near one another and most are not."""
    centres = np.random.default_rng(centre_seed).standard_normal((40, dimension))
    generator = np.random.default_rng(seed)
    noise = generator.standard_normal((count, dimension))
    return (centres[generator.integers(40, size=count)] + 0.6 * noise).astype(np.float32)


def store_of(vectors: Vectors, engine: Engine = "hnswlib") -> VectorStore:
    store = VectorStore()
    store.create("messages", vectors.shape[1], engine=engine)
    store.upsert("messages", items(len(vectors)), vectors)
    return store


def persisted(store: VectorStore) -> bytes:
    return store.persist("messages", "hashing:4", "f" * 64)


def ids(hits: list[VectorHit]) -> list[str]:
    return [hit.item.id for hit in hits]


def vector(*numbers: float) -> Vectors:
    return np.array(numbers, dtype=np.float32)


@pytest.mark.parametrize("engine", ENGINES)
def test_scores_are_cosines_best_first(engine: Engine) -> None:
    store = store_of(np.array([[3, 0], [0, 5], [1, 1], [-2, 0]], dtype=np.float32), engine)

    hits = store.query("messages", vector(10, 0), 4)

    assert ids(hits) == ["t0:0", "t0:2", "t0:1", "t0:3"]
    assert [hit.score for hit in hits] == pytest.approx([1.0, math.sqrt(0.5), 0.0, -1.0])
    assert hits[1].item == VectorItem("t0:2", "t0", 2)


@pytest.mark.parametrize("engine", ENGINES)
def test_equal_scores_come_in_item_order(engine: Engine) -> None:
    near, far = np.random.default_rng(1).standard_normal((2, 33)).astype(np.float32)
    store = store_of(np.array([far, near] * 95), engine)

    expected = [item.id for item in [*items(190)[1::2], *items(190)[::2]]]
    assert ids(store.query("messages", near, 190)) == expected
    assert ids(store.query("messages", near, 30)) == expected[:30]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("count", [0, 1, 3, 700])
@pytest.mark.parametrize("top_k", [1, 3, 10, 699, 5000])
def test_fewer_than_top_k_only_if_fewer_are_stored(engine: Engine, count: int, top_k: int) -> None:
    store = store_of(clustered(count, 8, seed=2), engine)

    hits = store.query("messages", clustered(1, 8, seed=3)[0], top_k)

    assert len(hits) == len(set(ids(hits))) == min(count, top_k)
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)


def test_a_graph_that_falls_apart_still_gives_top_k_hits() -> None:
    vectors = np.random.default_rng(0).standard_normal((600, 8)).astype(np.float32)
    store = VectorStore()
    store.create("messages", 8, m=2, ef_construction=1)
    store.upsert("messages", items(600), vectors)

    hits = store.query("messages", vectors[0], 25)

    assert ids(hits) == ids(store_of(vectors, "exact").query("messages", vectors[0], 25))


@pytest.mark.parametrize("engine", ENGINES)
def test_zero_vectors_are_stored_and_score_zero(engine: Engine) -> None:
    store = store_of(np.array([[0, 0], [1, 0], [-1, 0]], dtype=np.float32), engine)

    assert [hit.score for hit in store.query("messages", vector(1, 0), 3)] == [1.0, 0.0, -1.0]
    assert [(hit.item.id, hit.score) for hit in store.query("messages", vector(0, 0), 2)] == [("t0:0", 0), ("t0:1", 0)]


def test_a_zero_query_ties_with_everything_in_item_order_in_a_large_index_too() -> None:
    store = store_of(clustered(3000, 8, seed=4))

    assert ids(store.query("messages", np.zeros(8, dtype=np.float32), 3)) == ["t0:0", "t0:1", "t0:2"]


@pytest.mark.parametrize(("count", "dimension"), [(550, 384), (3000, 64)])
def test_the_graph_finds_the_ten_nearest(count: int, dimension: int) -> None:
    vectors, queries = clustered(count, dimension, seed=5), clustered(100, dimension, seed=6)
    graph, exact = store_of(vectors), store_of(vectors, "exact")

    found = 0
    for query in queries:
        truth = exact.query("messages", query, 10)
        approximate = graph.query("messages", query, 10)
        found += len(set(ids(truth)) & set(ids(approximate)))
        scores = {hit.item.id: hit.score for hit in truth}
        assert all(scores.get(hit.item.id, hit.score) == hit.score for hit in approximate)

    assert found / 1000 >= 0.99


@pytest.mark.parametrize("engine", ENGINES)
def test_a_filter_that_few_items_pass_gives_just_those(engine: Engine) -> None:
    vectors = clustered(800, 16, seed=7)
    query = vectors[0]
    store = store_of(vectors, engine)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    by_hand = sorted(range(400, 410), key=lambda row: -float(unit[row] @ unit[0]))

    hits = store.query("messages", query, 20, where=lambda item: item.thread_id == "t40")

    assert ids(hits) == [items(800)[row].id for row in by_hand]
    assert store.query("messages", query, 5, where=lambda item: False) == []


@pytest.mark.parametrize("engine", ENGINES)
def test_upsert_replaces_in_place_and_delete_leaves_no_trace(engine: Engine) -> None:
    vectors = clustered(300, 8, seed=8)
    store = store_of(clustered(300, 8, seed=9), engine)
    store.query("messages", vectors[0], 3)

    store.upsert("messages", items(300)[::-1], vectors[::-1])
    assert persisted(store) == persisted(store_of(vectors, engine))
    store.upsert("messages", [VectorItem("extra:0", "extra", 0)], vectors[:1])
    store.delete("messages", ["extra:0"])

    assert persisted(store) == persisted(store_of(vectors, engine))
    assert "extra:0" not in ids(store.query("messages", vectors[0], 300))


@pytest.mark.parametrize("engine", ENGINES)
def test_deleting_keeps_the_order_of_the_others_down_to_an_empty_index(engine: Engine) -> None:
    store = store_of(np.eye(4, dtype=np.float32), engine)

    store.delete("messages", ["t0:0", "t0:2"])
    assert ids(store.query("messages", vector(0, 0, 0, 1), 9)) == ["t0:3", "t0:1"]
    with pytest.raises(HarnessError, match="'t0:2' is not stored"):
        store.delete("messages", ["t0:1", "t0:2"])
    assert store.describe("messages").count == 2

    store.delete("messages", ["t0:1", "t0:3"])
    assert store.query("messages", vector(0, 0, 0, 1), 1) == []
    assert VectorStore.hydrate(persisted(store), "v").describe("messages").count == 0


def test_indexes_are_apart_and_known_by_name() -> None:
    store = VectorStore()
    store.create("messages", 2)
    store.create("facts", 3, engine="exact", m=8, ef_construction=50, seed=9)
    store.upsert("facts", items(1), np.ones((1, 3), dtype=np.float32))

    facts = store.describe("facts")
    assert (facts.name, facts.dimension, facts.metric, facts.engine) == ("facts", 3, "cosine", "exact")
    assert (facts.m, facts.ef_construction, facts.seed, facts.count) == (8, 50, 9, 1)
    assert store.describe("messages").count == 0
    with pytest.raises(HarnessError, match=r"no index 'message'\. Did you mean 'messages'\?"):
        store.query("message", vector(1, 0), 1)
    with pytest.raises(HarnessError, match="already"):
        store.create("facts", 3)


def test_an_index_that_cannot_be_is_refused() -> None:
    store = VectorStore()

    with pytest.raises(HarnessError, match="dimension"):
        store.create("messages", 0)
    with pytest.raises(HarnessError, match=r"\$\.m"):
        store.create("messages", 4, m=1)
    with pytest.raises(HarnessError, match="ef_construction"):
        store.create("messages", 4, ef_construction=0)
    with pytest.raises(HarnessError, match="seed"):
        store.create("messages", 4, seed=-1)


@pytest.mark.parametrize(
    "vectors",
    [
        np.ones((2, 3), dtype=np.float32),
        np.ones((1, 2), dtype=np.float32),
        np.ones(2, dtype=np.float32),
        np.array([[1, np.nan], [0, 1]], dtype=np.float32),
        np.array([[1, 0], [np.inf, 1]], dtype=np.float32),
    ],
)
def test_vectors_of_wrong_shape_or_not_finite_are_refused_and_change_nothing(vectors: Vectors) -> None:
    store = store_of(np.eye(2, dtype=np.float32))
    before = persisted(store)

    with pytest.raises(HarnessError, match="index 'messages'"):
        store.upsert("messages", items(2), vectors)
    assert persisted(store) == before


def test_bad_queries_and_an_id_twice_in_one_upsert_are_refused() -> None:
    store = store_of(np.eye(2, dtype=np.float32))

    with pytest.raises(HarnessError, match=r"shape \(1, 3\) where \(1, 2\)"):
        store.query("messages", vector(1, 2, 3), 1)
    with pytest.raises(HarnessError, match="NaN"):
        store.query("messages", vector(1, math.nan), 1)
    with pytest.raises(HarnessError, match="top_k is 0"):
        store.query("messages", vector(1, 0), 0)
    with pytest.raises(HarnessError, match="'t0:1' occurs twice"):
        store.upsert("messages", [items(2)[0], *[items(2)[1]] * 2], np.ones((3, 2), dtype=np.float32))


def test_vector_json_has_exactly_the_documented_keys() -> None:
    document = json.loads(persisted(store_of(np.eye(4, dtype=np.float32))))

    assert list(document) == ["format", "index", "embedder", "items", "vectors", "graph"]
    assert document["index"] == {
        "name": "messages",
        "dimension": 4,
        "metric": "cosine",
        "engine": "hnswlib",
        "m": 16,
        "ef_construction": 200,
        "seed": 0,
        "count": 4,
    }
    assert document["embedder"] == {"spec": "hashing:4", "fingerprint": "f" * 64}
    assert document["items"][3] == {"id": "t0:3", "thread_id": "t0", "index": 3}
    # base64 of the first row, 1 0 0 0 as float32 little-endian.
    assert document["vectors"].startswith("AACAPwAAAAAAAAAAAAAAA")
    assert json.loads(persisted(store_of(np.eye(4, dtype=np.float32), "exact")))["graph"] is None


def test_vector_json_is_small() -> None:
    assert len(persisted(store_of(clustered(550, 384, seed=10)))) <= 1.6 * 550 * 384 * 4


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
    store = VectorStore()
    store.create("messages", dimension, engine=engine, m=m, seed=seed)
    store.upsert("messages", items(count), vectors)
    data = persisted(store)

    restored = VectorStore.hydrate(data, "vector.json")

    queries = clustered(5, dimension, seed + 1)
    expected = [store.query("messages", query, 3) for query in queries]
    assert [restored.query("messages", query, 3) for query in queries] == expected
    assert persisted(restored) == persisted(store) == data


def test_hydration_restores_the_graph_and_does_not_build_it(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = clustered(500, 16, seed=13)
    store = store_of(vectors)
    expected, data = store.query("messages", vectors[1], 5), persisted(store)

    def build(*_: object) -> Graph:
        raise AssertionError("the graph was built again")

    monkeypatch.setattr(Graph, "build", build)
    restored = VectorStore.hydrate(data, "vector.json")

    assert restored.query("messages", vectors[1], 5) == expected
    assert persisted(restored) == data


def test_a_restored_index_can_be_changed() -> None:
    vectors = clustered(300, 8, seed=11)
    restored = VectorStore.hydrate(persisted(store_of(vectors[:299])), "vector.json")

    restored.upsert("messages", items(300)[299:], vectors[299:])

    assert persisted(restored) == persisted(store_of(vectors))


BUILD = """
import hashlib, numpy as np
from longmemeval.storage.vector_store import VectorItem, VectorStore
store = VectorStore()
store.create("messages", 48)
vectors = np.random.default_rng(3).standard_normal((600, 48)).astype(np.float32)
store.upsert("messages", [VectorItem(str(n), "t", n) for n in range(600)], vectors)
print(hashlib.sha256(store.persist("messages", "s", "f")).hexdigest())
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


def test_without_hnswlib_the_exact_engine_works_and_the_other_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    data = persisted(store_of(np.eye(3, dtype=np.float32)))
    monkeypatch.setitem(sys.modules, "hnswlib", None)

    exact = VectorStore.hydrate(persisted(store_of(np.eye(3, dtype=np.float32), "exact")), "vector.json")
    assert ids(exact.query("messages", vector(0, 1, 0), 1)) == ["t0:1"]
    with pytest.raises(
        HarnessError, match=r"C\+\+ compiler.*apt-get install g\+\+.*pip install hnswlib.*--index exact"
    ):
        persisted(store_of(np.eye(3, dtype=np.float32)))
    with pytest.raises(HarnessError, match="pip install hnswlib"):
        VectorStore.hydrate(data, "vector.json")


def test_a_newer_format_is_refused_by_name() -> None:
    with pytest.raises(FixtureError, match=r"format 7 is newer than this version understands \(1\): upgrade"):
        VectorStore.hydrate(b'{"format": 7, "index": {"metric": "hyperbolic"}}', "vector.json")


def damaged(name: str, value: object) -> bytes:
    document = json.loads(persisted(store_of(clustered(40, 4, seed=12))))
    *path, last = name.split(".")
    place = document
    for step in path:
        place = place[step]
    place[last] = value(place[last]) if callable(value) else value
    return json.dumps(document).encode()


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
        ("index.engine", "exact"),
        ("index.m", 8),
        ("graph", None),
        ("graph.levels", ""),
        ("graph.entry_point", 40),
        ("graph.max_level", 9),
        # A first link count of 0xFFFFFFFF, then a first link far outside the index.
        ("graph.base_links", lambda text: "/////w" + text[6:]),
        ("graph.base_links", lambda text: text[:8] + "////" + text[12:]),
        ("graph.base_links", lambda text: text[:-8]),
        ("graph.upper_links", lambda text: text + "AAAA"),
    ],
)
def test_a_file_that_contradicts_itself_is_refused(name: str, value: object) -> None:
    with pytest.raises(FixtureError) as caught:
        VectorStore.hydrate(damaged(name, value), "x/vector.json")
    assert caught.value.where == "x/vector.json"


def test_storing_vectors_takes_no_more_than_a_copy_of_them() -> None:
    vectors = clustered(8192, 64, 1)
    named = items(len(vectors))
    store = VectorStore()
    store.create("messages", 64, engine="exact")
    # The rows; not all of them in double precision at one time.
    assert peak_memory(lambda: store.upsert("messages", named, vectors)) < 2.5 * vectors.nbytes


@pytest.mark.parametrize("top_k", [1, 10, 299, 300])
def test_exact_search_is_that_in_double_precision(top_k: int) -> None:
    # Three of each, and many that differ by less than single precision can tell.
    base = clustered(50, 96, 3)
    vectors = np.concatenate([base, base, base * 2, *(base + 1e-7 * clustered(50, 96, seed) for seed in (4, 5, 6))])
    store = store_of(vectors, "exact")
    _, rows = store.rows("messages")
    for query in clustered(20, 96, 9):
        unit = query.astype(np.float64) / np.sqrt((query.astype(np.float64) ** 2).sum())
        scores = (rows.astype(np.float64) * unit.astype(np.float32).astype(np.float64)).sum(axis=1).astype(np.float32)
        best = np.argsort(-scores, kind="stable")[:top_k]
        found = store.query("messages", query, top_k)
        assert [(hit.item, hit.score) for hit in found] == [(items(300)[row], scores[row]) for row in best]
