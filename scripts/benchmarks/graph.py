"""What the HNSW graph takes to build, and what a search through it saves against comparing every vector.

    python scripts/benchmarks/graph.py [--sizes 550 4752 20000] [--dimension 512]

Vectors are those of the hashing embedder for messages of `shapes.py`. Searches are whole queries for ten hits, warm;
shown is the fastest. `all products` is what rankings of everything compute in place of a search. `measured` is what
`prepare` takes to measure a graph's recall, and finds; with --equal, so many in a hundred messages are "ok thanks".
"""

import argparse
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
from hnswlib import Index
from shapes import Writer

from longmemeval.core.arrays import Vectors
from longmemeval.embedding.hashing import HashingEmbedder
from longmemeval.storage.vector_index import EmbedderIdentity, Graph, GraphParameters, VectorIndex, VectorItem

PARAMETERS = GraphParameters(m=16, ef_construction=200, seed=0)
QUERIES = 50


def milliseconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return (time.perf_counter() - started) * 1000


def searched(search: Callable[[Vectors], object], queries: Vectors) -> float:
    """Milliseconds of the fastest search."""
    return min(milliseconds(partial(search, query)) for query in queries)


def nearest(index: VectorIndex, query: Vectors) -> set[str]:
    """The ten messages nearest to a query."""
    return {hit.item.id for hit in index.query(query, 10)}


def indexes(vectors: Vectors) -> list[VectorIndex]:
    """The vectors with a graph and without, both warm."""
    items = [VectorItem(f"s:{row}", "s", row) for row in range(len(vectors))]
    exact = VectorIndex.of("messages", items, vectors, EmbedderIdentity("random", "random"))
    found = [exact.with_graph(Graph.build(exact.vectors, PARAMETERS)), exact]
    for index in found:
        index.query(vectors[0], 10)
    return found


def links(vectors: Vectors, threads: int) -> bytes:
    """The lowest level of a graph built by hnswlib with so many threads."""
    index = Index("ip", vectors.shape[1])
    index.init_index(len(vectors), M=PARAMETERS.m, ef_construction=PARAMETERS.ef_construction, random_seed=0)
    index.add_items(vectors, np.arange(len(vectors)), num_threads=threads)
    return index.__getstate__()[0]["data_level0"].tobytes()


def measure(size: int, dimension: int, equal: int) -> None:
    """Print one line."""
    writer = Writer("m", 0)
    texts = [writer.message() for _ in range(size + QUERIES)]
    texts[:size] = ["ok thanks" if place % 100 < equal else text for place, text in enumerate(texts[:size])]
    vectors = HashingEmbedder(dimension).embed(texts)
    stored, queries = vectors[:size], vectors[size:]
    wall = [milliseconds(partial(links, stored, threads)) for threads in (1, 2)]
    equal = "equal" if links(stored, 1) == links(stored, 2) else "differ"
    with ThreadPoolExecutor(2) as pool:
        build = partial(Graph.build, parameters=PARAMETERS)
        side_by_side = milliseconds(lambda: list(pool.map(build, [stored] * 2))) / 2
    graph, exact = indexes(stored)
    recall = graph.graph_recall(PARAMETERS.seed)
    measuring = min(milliseconds(partial(graph.graph_recall, PARAMETERS.seed)) for _ in range(3))
    found = sum(len(nearest(graph, query) & nearest(exact, query)) for query in queries) / (10 * QUERIES)
    print(
        f"{size:>7,} | graph {searched(partial(nearest, graph), queries):6.2f} ms, "
        f"exact {searched(partial(nearest, exact), queries):6.2f} ms, all products "
        f"{searched(stored.dot, queries):5.2f} ms, found {found:.3f} | "
        f"measured in {measuring:4.0f} ms: {recall:.3f} | built by one thread {wall[0]:6.0f} ms, "
        f"two {wall[1]:6.0f} ms (bytes {equal}), two histories at a time {side_by_side:6.0f} ms each",
        flush=True,
    )


def main() -> None:
    """Print a line for each size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[550, 4_752, 20_000])
    parser.add_argument("--dimension", type=int, default=512)
    parser.add_argument("--equal", type=int, default=0)
    asked = parser.parse_args()
    for size in asked.sizes:
        measure(size, asked.dimension, asked.equal)


if __name__ == "__main__":
    main()
