"""Vectors searched by cosine similarity, and their file `vector.json`."""

from collections import Counter
from collections.abc import Callable
from typing import Annotated, Literal

import msgspec
import numpy as np
from msgspec import Meta, Struct

from longmemeval.core.arrays import Vectors
from longmemeval.errors import FixtureError, HarnessError
from longmemeval.storage.format import FORMAT, REMAKE, decode_versioned
from longmemeval.storage.graph import Graph, Rows

# A graph search takes this many candidates and scores them exactly. On texts of LongMemEval the ten nearest are found
# with recall 1.000, up to thousands of messages, in a fraction of a millisecond.
_MIN_CANDIDATES = 200
_CANDIDATES_PER_HIT = 20
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
        breadth = max(_MIN_CANDIDATES, _CANDIDATES_PER_HIT * top_k)
        # A zero vector is equally far from all items: the graph would return any of them.
        if self._graph is not None and breadth < len(self.items) and unit.any():
            found = self._graph.nearest(unit, breadth)
            if found is not None:
                return np.sort(found)
        return _possibly_best(self.vectors, unit, top_k)

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
