"""Vectors searched by cosine similarity, and their file `vector.json`."""

from collections import Counter
from collections.abc import Callable
from functools import cached_property, lru_cache
from random import Random
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
import numpy as np
from msgspec import Meta, Struct
from numpy.typing import NDArray

from longmemeval.core.arrays import Vectors
from longmemeval.core.installation import install_command
from longmemeval.core.part_options import IndexEngine
from longmemeval.errors import FixtureError, HarnessError, needed
from longmemeval.storage.part_files import FORMAT, REMAKE, decode_versioned

if TYPE_CHECKING:
    from hnswlib import Index, IndexState


# An HNSW graph over unit vectors (Malkov and Yashunin 2018), built by hnswlib, saved without its vectors.
#
# hnswlib keeps links, vector and label of an item in one row of bytes. The vectors are already in `vector.json` and
# the labels are row numbers, so `GraphState` holds only the computed rest: levels, links and the entry point. Sizes
# and offsets come from an empty index of the same parameters, so a fixture does not depend on them.

Rows = NDArray[np.int64]


class GraphParameters(Struct, frozen=True):
    """Parameters of a graph besides the vectors."""

    m: int
    """Links per item on each level; twice as many on level 0."""
    ef_construction: int
    """Number of candidates considered when an item is linked."""
    seed: int
    """Seed of the random levels."""


class GraphState(Struct, frozen=True):
    """The computed graph. Numbers inside the byte strings are little-endian."""

    max_level: int
    entry_point: int
    """Row number where every search starts."""
    levels: bytes
    """Highest level of each item, int32."""
    base_links: bytes
    """Level 0: for each item the number of its links, then space for 2 m row numbers, uint32."""
    upper_links: bytes
    """For each item and each of its levels from 1 the number of links, then space for m row numbers, uint32."""
    nodes: bytes = b""
    """For each vector the number of its item, uint32: equal vectors share one. Empty: each vector has its own."""


class Graph:
    """A graph over the distinct rows of a matrix, created by `build` or `restore`; immutable.

    Equal vectors share an item: on their own they would link to one another only, and a search that comes upon them
    would see nothing else.

    Args:
        state: the computed graph.
        vectors: shape (n, dimension), n at least 1, rows of length 1 or 0.
        parameters: construction parameters of the graph.
    """

    def __init__(self, state: GraphState, vectors: Vectors, parameters: GraphParameters) -> None:
        self.state = state
        self._nodes = np.frombuffer(state.nodes, "<u4")
        self.vectors = vectors[_first_rows(self._nodes)] if state.nodes else vectors
        self._parameters = parameters

    def __len__(self) -> int:
        """Return the number of items: distinct vectors, unless an earlier version built it."""
        return len(self.vectors)

    @classmethod
    def build(cls, vectors: Vectors, parameters: GraphParameters) -> "Graph":
        """Build the graph in one thread, in row order: the same vectors give the same graph.

        Raises:
            HarnessError: hnswlib is not installed.
        """
        numbers: dict[bytes, int] = {}
        # Adding zero makes -0.0 the 0.0 that it equals.
        nodes = np.array([numbers.setdefault((row + 0.0).tobytes(), len(numbers)) for row in vectors], "<u4")
        distinct = vectors[_first_rows(nodes)] if len(numbers) < len(vectors) else vectors
        index = _empty_index(vectors.shape[1], len(distinct), parameters)
        index.add_items(distinct, np.arange(len(distinct)), num_threads=1)
        full = index.__getstate__()[0]
        rows = full["data_level0"].reshape(len(distinct), full["size_data_per_element"])
        state = GraphState(
            max_level=full["max_level"],
            entry_point=full["enterpoint_node"],
            levels=full["element_levels"].astype("<i4").tobytes(),
            base_links=rows[:, : full["offset_data"]].tobytes(),
            upper_links=full["link_lists"].tobytes(),
            nodes=nodes.tobytes() if len(distinct) < len(vectors) else b"",
        )
        return cls(state, vectors, parameters)

    @classmethod
    def restore(cls, state: GraphState, vectors: Vectors, parameters: GraphParameters, where: str) -> "Graph":
        """Restore a saved graph, checked against the vectors; nothing is rebuilt.

        Raises:
            FixtureError: the state does not fit the vectors.
            HarnessError: hnswlib is not installed.
        """
        _index_type()  # If it is missing, fail now rather than at the first search.
        layout = _empty_state(vectors.shape[1], parameters)
        if not _fits(state, len(vectors), base_row=layout["offset_data"], upper_row=layout["size_links_per_element"]):
            raise FixtureError("The graph does not fit the vectors", where=where, fix=REMAKE)
        return cls(state, vectors, parameters)

    def nearest(self, unit: Vectors, count: int) -> Rows | None:
        """Return rows of about the `count` nearest distinct vectors; None if the graph reaches fewer than `count`.

        This happens if items have few links: parts of the graph may then be unreachable.
        """
        try:
            labels, _ = self._index.knn_query(unit, k=count, num_threads=1)
        except RuntimeError:
            return None
        rows: Rows = labels[0].astype(np.int64)
        if self.state.nodes:
            found = np.zeros(len(self), bool)
            found[rows] = True
            rows = np.flatnonzero(found[self._nodes])
        return rows

    @cached_property
    def _index(self) -> "Index":
        """State and vectors in hnswlib's own layout: per item its links, its vector, its label (the row number).

        Built at the first search, since it takes megabytes that a fixture opened for its messages does not need.
        """
        count = len(self.vectors)
        full = _empty_state(self.vectors.shape[1], self._parameters).copy()
        data, label = full["offset_data"], full["label_offset"]
        rows = np.empty((count, full["size_data_per_element"]), dtype=np.uint8)
        rows[:, :data] = np.frombuffer(self.state.base_links, dtype=np.uint8).reshape(count, data)
        rows[:, data:label] = self.vectors.view(np.uint8)
        rows[:, label:] = np.arange(count, dtype=np.uint64).reshape(count, 1).view(np.uint8)
        full["ep_added"] = True
        full["max_level"] = self.state.max_level
        full["enterpoint_node"] = self.state.entry_point
        full["max_elements"] = full["cur_element_count"] = count
        full["element_levels"] = np.frombuffer(self.state.levels, dtype="<i4")
        full["label_lookup_external"] = np.arange(count, dtype=np.uint64)
        full["label_lookup_internal"] = np.arange(count, dtype=np.uint32)
        full["data_level0"] = rows.reshape(-1).view(np.int8)
        full["link_lists"] = np.frombuffer(self.state.upper_links, dtype=np.int8)
        return _index_type()(full)


def _first_rows(nodes: NDArray[np.uint32]) -> Rows:
    """Return the first row of each node."""
    rows: Rows = np.unique(nodes, return_index=True)[1]
    return rows


def base_neighbours(state: GraphState) -> list[frozenset[int]]:
    """Return the rows that each item is linked to on level 0."""
    table = np.frombuffer(state.base_links, dtype="<u4").reshape(len(state.levels) // 4, -1)
    return [frozenset(row[1 : 1 + row[0]]) for row in table.tolist()]


@lru_cache(maxsize=16)
def _empty_state(dimension: int, parameters: GraphParameters) -> "IndexState":
    """Return hnswlib's state of an index without items; cached, since creating an index takes megabytes."""
    return _empty_index(dimension, 1, parameters).__getstate__()[0]


def _empty_index(dimension: int, room: int, parameters: GraphParameters) -> "Index":
    # The vectors have length 1 already, so their inner product is the cosine; hnswlib's own "cosine" would divide
    # again and change their last bits.
    index = _index_type()("ip", dimension)
    index.init_index(room, M=parameters.m, ef_construction=parameters.ef_construction, random_seed=parameters.seed)
    return index


def default_index() -> IndexEngine:
    """Return the kind of index for a new preparation: `hnsw` if hnswlib can be imported here."""
    try:
        _index_type()
    except HarnessError:
        return "exact"
    return "hnsw"


def _index_type() -> "type[Index]":
    fix = (
        f"Run: {install_command('hnsw')} (it needs a C++ compiler; on Debian `apt-get install g++ python3-dev`), or "
        "use exact search, which needs neither: `--index exact`, for `prepare` with `--prepared exact`"
    )
    with needed("The HNSW index needs hnswlib, which is not installed", fix):
        from hnswlib import Index
    return Index


def _fits(state: GraphState, count: int, *, base_row: int, upper_row: int) -> bool:
    """Return whether hnswlib can load the state without reading or following links outside its memory."""
    if state.nodes:
        nodes = np.unique(np.frombuffer(state.nodes[: len(state.nodes) // 4 * 4], "<u4"))
        if len(state.nodes) != 4 * count or not np.array_equal(nodes, np.arange(len(nodes))):
            return False
        count = len(nodes)
    if len(state.levels) != 4 * count or not 0 <= state.entry_point < count:
        return False
    levels = np.frombuffer(state.levels, dtype="<i4")
    return (
        int(levels.min()) >= 0
        and int(levels.max()) == int(levels[state.entry_point]) == state.max_level
        and len(state.base_links) == count * base_row
        and len(state.upper_links) == int(levels.sum()) * upper_row
        and _links_inside(state.base_links, base_row, count)
        and _links_inside(state.upper_links, upper_row, count)
    )


def _links_inside(links: bytes, row: int, count: int) -> bool:
    table = np.frombuffer(links, dtype="<u4").reshape(-1, row // 4)
    numbers, targets = table[:, 0], table[:, 1:]
    return not table.size or (int(numbers.max()) <= targets.shape[1] and int(targets.max()) < count)


# A graph search takes this many candidates and scores them exactly. On texts of LongMemEval the ten nearest are found
# with recall 1.000, up to thousands of messages, in a fraction of a millisecond.
_MIN_CANDIDATES = 200
_CANDIDATES_PER_HIT = 20
# A graph's recall is measured with so many of its vectors, for so many hits.
_MEASURED_VECTORS = 50
_MEASURED_HITS = 10
# Rows processed in double precision at a time.
_BLOCK_ROWS = 1024


class VectorItem(Struct, frozen=True, gc=False):
    """The object of a vector: a stored message."""

    id: str
    """Message id."""
    thread_id: str
    index: int
    """The message's position in its thread, from 0."""


class VectorHit(Struct, frozen=True):
    """One result of a query; `score` is the cosine similarity, -1 to 1."""

    item: VectorItem
    score: float


class EmbedderIdentity(Struct, frozen=True):
    """The embedder that made the vectors: its name, and the fingerprint of all that changes a vector."""

    spec: str
    fingerprint: str


class _Description(Struct, frozen=True):
    """Properties of an index on disk. No graph is stored; its properties are for other software that reads the file."""

    name: str
    dimension: Annotated[int, Meta(ge=1)]
    metric: Literal["cosine"] = "cosine"
    engine: Literal["exact"] = "exact"
    m: int = 16
    ef_construction: int = 200
    seed: int = 0
    count: Annotated[int, Meta(ge=0)] = 0


class _File(Struct, frozen=True):
    """`vector.json` as stored on disk."""

    format: int
    index: _Description
    embedder: EmbedderIdentity
    items: list[VectorItem]
    vectors: bytes
    """Row by row in item order, float32 little-endian, each of length 1 or 0."""
    graph: None = None


class VectorIndex:
    """Items with their vectors. The same arguments give the same bytes and the same hits in any process on a platform.

    Args:
        name: name of the index, for errors.
        items: objects of the vectors, with distinct ids.
        vectors: shape (len(items), dimension), rows of length 1 or 0; see `of`.
        embedder: embedder that made the vectors.
        graph: a graph over the rows; None: every vector is compared.
    """

    def __init__(
        self,
        name: str,
        items: list[VectorItem],
        vectors: Vectors,
        embedder: EmbedderIdentity,
        graph: Graph | None = None,
    ) -> None:
        self.name = name
        self.items = items
        self.vectors = vectors
        self.embedder = embedder
        self._graph = graph

    @classmethod
    def of(cls, name: str, items: list[VectorItem], vectors: Vectors, embedder: EmbedderIdentity) -> "VectorIndex":
        """Create an index of vectors of any length; a zero vector scores 0 with everything.

        Raises:
            HarnessError: wrong shape, NaN or infinity, or an id twice.
        """
        where = f"index {name!r}"
        repeated = [item_id for item_id, times in Counter(item.id for item in items).items() if times > 1]
        if repeated:
            raise HarnessError(f"Item {repeated[0]!r} occurs twice in one index", where=where)
        dimension = vectors.shape[1] if vectors.ndim == 2 else 0
        return cls(name, items, _unit_rows(vectors, len(items), dimension, where), embedder)

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        return int(self.vectors.shape[1])

    def rows(self) -> tuple[list[VectorItem], Vectors]:
        """Return all items with their unit vectors, shape (items, dimension), in item order. Read only."""
        return self.items, self.vectors

    def with_graph(self, graph: Graph) -> "VectorIndex":
        """Return the same vectors, searched through a graph over them."""
        return VectorIndex(self.name, self.items, self.vectors, self.embedder, graph)

    def graph_recall(self, seed: int) -> float:
        """Return the share of the exact ten nearest items that the graph finds, for a sample of its distinct vectors.

        Each sampled vector is searched for as it is, and with its numbers shifted by one place. A shifted one is like
        no stored vector, as a question may be: only such searches show that groups of nearly equal vectors hide the
        others. The lower of the two shares is returned.
        """
        if not self._graph or self._compares_all(_MEASURED_HITS):
            return 1.0
        exact = VectorIndex(self.name, self.items, self.vectors, self.embedder)
        own = self._graph.vectors[Random(seed).sample(range(len(self._graph)), _MEASURED_VECTORS)]
        shares = []
        for queries in (own, np.roll(own, 1, axis=1)):
            pairs = [[index.query(query, _MEASURED_HITS) for index in (self, exact)] for query in queries]
            shares.append(sum(len(set(found).intersection(nearest)) for found, nearest in pairs))
        return min(shares) / (_MEASURED_VECTORS * _MEASURED_HITS)

    def query(
        self, vector: Vectors, top_k: int, *, matching: Callable[[VectorItem], bool] | None = None
    ) -> list[VectorHit]:
        """Return the nearest items, best first, equal scores in item order.

        Without `matching` a graph is approximate. Hits are scored exactly in any case; a filtered query compares with
        every item that passes, however few.

        Args:
            vector: shape (dimension,), finite.
            top_k: number of hits, at least 1; fewer are returned only if fewer items match.
            matching: filter; only items for which it is true are searched.

        Raises:
            HarnessError: wrong shape, NaN or infinity, or `top_k` below 1.
        """
        if top_k < 1:
            raise HarnessError(f"top_k is {top_k}, it must be at least 1", where=f"index {self.name!r}")
        unit = _unit_rows(np.asarray(vector)[np.newaxis], 1, self.dimension, f"query of index {self.name!r}")[0]
        rows = self._candidates(unit, top_k) if matching is None else self._rows(matching)
        # Row by row in double precision, then rounded: a score depends only on its two vectors, so equal vectors tie.
        products = self.vectors[rows].astype(np.float64) * unit.astype(np.float64)
        scores = products.sum(axis=1).astype(np.float32)
        best = np.argsort(-scores, kind="stable")[:top_k]
        return [VectorHit(self.items[rows[position]], float(scores[position])) for position in best]

    def _candidates(self, unit: Vectors, top_k: int) -> Rows:
        """Return rows worth scoring, ascending: the graph's nearest, or those that may be among the best."""
        # A zero vector is equally far from all items: the graph would return any of them.
        if self._graph and not self._compares_all(top_k) and unit.any():
            found = self._graph.nearest(unit, _breadth(top_k))
            if found is not None:
                return np.sort(found)
        return _possibly_best(self.vectors, unit, top_k)

    def _compares_all(self, top_k: int) -> bool:
        return self._graph is None or len(self._graph) <= _breadth(top_k)

    def _rows(self, matching: Callable[[VectorItem], bool]) -> Rows:
        return np.array([row for row, item in enumerate(self.items) if matching(item)], dtype=np.int64)

    def persist(self) -> bytes:
        """Return the index as `vector.json`, without the graph."""
        file = _File(
            format=FORMAT,
            index=_Description(self.name, self.dimension, count=len(self.items)),
            embedder=self.embedder,
            items=self.items,
            vectors=self.vectors.astype("<f4", copy=False).tobytes(),
        )
        return msgspec.json.encode(file) + b"\n"

    @classmethod
    def hydrate(cls, data: bytes, where: str) -> "VectorIndex":
        """Load the index that `persist` wrote.

        Args:
            data: the bytes of `vector.json`.
            where: the file, for errors.

        Raises:
            FixtureError: newer format, not a `vector.json`, or one that contradicts itself.
        """
        file = decode_versioned(data, _File, where)
        index = file.index
        if (
            len({item.id for item in file.items}) != index.count
            or len(file.items) != index.count
            or len(file.vectors) != index.count * index.dimension * 4
        ):
            raise FixtureError("Items and vectors do not fit together", where=where, fix=REMAKE)
        flat = np.frombuffer(file.vectors, dtype="<f4").astype(np.float32, copy=False)
        return cls(index.name, file.items, flat.reshape(index.count, index.dimension), file.embedder)


def _breadth(top_k: int) -> int:
    """Return the number of candidates of a graph search."""
    return max(_MIN_CANDIDATES, _CANDIDATES_PER_HIT * top_k)


def _possibly_best(vectors: Vectors, unit: Vectors, top_k: int) -> Rows:
    """Return the rows that may be among the best `top_k`, by products in single precision.

    These are computed much faster. For unit vectors such a product is off by at most dimension · 2⁻²⁴ (Higham 2002,
    section 3.1); the margin is four times that, for two products and the rounding of scores.
    """
    if top_k >= len(vectors):
        return np.arange(len(vectors))
    products = vectors @ unit
    last = np.partition(products, -top_k)[-top_k]
    return np.flatnonzero(products >= last - vectors.shape[1] * 2.0**-22)


def _unit_rows(vectors: Vectors, count: int, dimension: int, where: str) -> Vectors:
    """Return copies scaled to length 1; zero rows stay zero.

    Normalised in double precision, so that the last bit is deterministic.
    """
    if vectors.shape != (count, dimension):
        raise HarnessError(f"Vectors of shape {vectors.shape} where ({count}, {dimension}) is needed", where=where)
    if not np.isfinite(vectors).all():
        raise HarnessError("A vector holds NaN or infinity", where=where, fix="Check the embedder")
    unit = np.empty((count, dimension), np.float32)
    for start in range(0, count, _BLOCK_ROWS):
        wide = vectors[start : start + _BLOCK_ROWS].astype(np.float64)
        lengths = np.sqrt((wide * wide).sum(axis=1, keepdims=True))
        unit[start : start + _BLOCK_ROWS] = np.divide(wide, lengths, out=np.zeros_like(wide), where=lengths > 0)
    return unit
