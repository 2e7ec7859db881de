"""Named sets of vectors searched by cosine similarity."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import msgspec
import numpy as np
from msgspec import Struct

from longmemeval.core.arrays import Vectors
from longmemeval.errors import HarnessError, nearest
from longmemeval.storage.format import FORMAT
from longmemeval.storage.graph import Graph, Rows
from longmemeval.storage.vector_file import EmbedderIdentity, Engine, IndexDescription, VectorFile, VectorItem

__all__ = ["Engine", "IndexDescription", "VectorHit", "VectorItem", "VectorStore"]

# A graph search takes this many candidates and scores them exactly. On texts of LongMemEval the ten nearest are found
# with recall 1.000, up to thousands of messages, in a fraction of a millisecond.
_MIN_CANDIDATES = 200
_CANDIDATES_PER_HIT = 20
# Rows processed in double precision at a time.
_BLOCK_ROWS = 1024


class VectorHit(Struct, frozen=True):
    """One result of a query; `score` is the cosine similarity, -1 to 1."""

    item: VectorItem
    score: float


class _Index:
    """One index: items and unit vectors in the same order, and the graph over them once it is needed.

    The graph is a function of the rows alone. Any change discards it, and the next use builds it from all rows: a
    replaced or deleted item leaves no trace, and many small additions cost one build.
    """

    def __init__(self, description: IndexDescription) -> None:
        self.description = description
        self.items: list[VectorItem] = []
        self.vectors: Vectors = np.zeros((0, description.dimension), dtype=np.float32)
        self._graph: Graph | None = None

    def set_rows(self, items: Iterable[VectorItem], vectors: Vectors, graph: Graph | None = None) -> None:
        self.items = list(items)
        self.vectors = vectors
        self.description = msgspec.structs.replace(self.description, count=len(self.items))
        self._graph = graph

    @property
    def graph(self) -> Graph | None:
        """Graph over the current rows; None for an empty index and the engine `exact`."""
        if self._graph is None and self.items and self.description.engine == "hnswlib":
            self._graph = Graph.build(self.vectors, self.description.graph_parameters)
        return self._graph


class VectorStore:
    """Indexes by name. The same calls give the same bytes and the same hits in any process on one platform."""

    def __init__(self) -> None:
        self._indexes: dict[str, _Index] = {}

    def create(
        self,
        name: str,
        dimension: int,
        *,
        engine: Engine = "hnswlib",
        m: int = 16,
        ef_construction: int = 200,
        seed: int = 0,
    ) -> None:
        """Create an empty index.

        Args:
            name: its name in the other methods.
            dimension: length of its vectors.
            engine: `hnswlib` searches a graph, `exact` compares with every vector.
            m: links per item and level of the graph.
            ef_construction: breadth of the search while the graph is built.
            seed: seed of the random levels of the graph.

        Raises:
            HarnessError: the name is taken or a value is outside its range.
        """
        if name in self._indexes:
            raise HarnessError(f"There is an index {name!r} already", fix="Delete its items or choose another name")
        fields = {"dimension": dimension, "engine": engine, "m": m, "ef_construction": ef_construction, "seed": seed}
        try:
            description = msgspec.convert({"name": name, **fields}, IndexDescription)
        except msgspec.ValidationError as error:
            raise HarnessError(f"The index cannot be made: {error}", where=f"index {name!r}") from error
        self._indexes[name] = _Index(description)

    def describe(self, name: str) -> IndexDescription:
        """Return the properties of the index and its number of items."""
        return self._index(name).description

    def upsert(self, name: str, items: Sequence[VectorItem], vectors: Vectors) -> None:
        """Add items, or replace those whose id is stored (they keep their place in the item order).

        Args:
            name: the index.
            items: objects of the vectors, with distinct ids.
            vectors: shape (len(items), dimension), finite; any length, a zero vector scores 0 with everything.

        Raises:
            HarnessError: wrong shape, NaN or infinity, an id twice, or no such index.
        """
        index = self._index(name)
        where = f"index {name!r}"
        fresh = {item.id: item for item in items}
        if len(fresh) != len(items):
            twice, _ = Counter(item.id for item in items).most_common(1)[0]
            raise HarnessError(f"Item {twice!r} occurs twice in one upsert", where=where)
        added = _unit_rows(vectors, len(items), index.description.dimension, where)
        if not index.items:
            index.set_rows(items, added)
            return
        merged = {item.id: item for item in index.items} | fresh
        row_of = {item_id: row for row, item_id in enumerate(merged)}
        rows = np.zeros((len(merged), index.description.dimension), dtype=np.float32)
        rows[: len(index.items)] = index.vectors
        rows[[row_of[item_id] for item_id in fresh]] = added
        index.set_rows(merged.values(), rows)

    def delete(self, name: str, ids: Iterable[str]) -> None:
        """Delete items; the others keep their order.

        Raises:
            HarnessError: an id is not stored (then nothing is deleted), or no such index.
        """
        index = self._index(name)
        gone = set(ids)
        unknown = gone - {item.id for item in index.items}
        if unknown:
            raise HarnessError(f"Item {min(unknown)!r} is not stored", where=f"index {name!r}")
        remaining = [row for row, item in enumerate(index.items) if item.id not in gone]
        index.set_rows([index.items[row] for row in remaining], index.vectors[remaining])

    def rows(self, name: str) -> tuple[list[VectorItem], Vectors]:
        """Return all items of an index with their unit vectors, shape (items, dimension), in item order.

        Read only.
        """
        index = self._index(name)
        return index.items, index.vectors

    def query(
        self, name: str, vector: Vectors, top_k: int, *, where: Callable[[VectorItem], bool] | None = None
    ) -> list[VectorHit]:
        """Return the nearest items, best first, equal scores in item order.

        Without `where` the engine `hnswlib` is approximate. Hits are scored exactly in any case, and a filtered
        query compares with every item that passes, however few.

        Args:
            name: the index.
            vector: shape (dimension,), finite.
            top_k: number of hits, at least 1; fewer are returned only if fewer items match.
            where: filter; only items for which it is true are searched.

        Raises:
            HarnessError: wrong shape, NaN or infinity, `top_k` below 1, or no such index.
        """
        index = self._index(name)
        if top_k < 1:
            raise HarnessError(f"top_k is {top_k}, it must be at least 1", where=f"index {name!r}")
        unit = _unit_rows(np.asarray(vector)[np.newaxis], 1, index.description.dimension, f"query of index {name!r}")[0]
        rows = _candidates(index, unit, top_k) if where is None else _matching(index, where)
        # Row by row in double precision, then rounded: a score depends only on its two vectors, so equal vectors tie.
        products = index.vectors[rows].astype(np.float64) * unit.astype(np.float64)
        scores = products.sum(axis=1).astype(np.float32)
        best = np.argsort(-scores, kind="stable")[:top_k]
        return [VectorHit(index.items[rows[position]], float(scores[position])) for position in best]

    def persist(self, name: str, embedder_spec: str, embedder_fingerprint: str) -> bytes:
        """Return one index as `vector.json`.

        Args:
            name: the index.
            embedder_spec: embedder of the vectors as the user names it.
            embedder_fingerprint: identifier of that embedder.
        """
        index = self._index(name)
        graph = index.graph
        file = VectorFile(
            format=FORMAT,
            index=index.description,
            embedder=EmbedderIdentity(embedder_spec, embedder_fingerprint),
            items=index.items,
            vectors=index.vectors.astype("<f4", copy=False).tobytes(),
            graph=graph.state if graph else None,
        )
        return msgspec.json.encode(file) + b"\n"

    @classmethod
    def hydrate(cls, data: bytes, where: str) -> "VectorStore":
        """Load the store with the single index that `persist` wrote; its graph is restored, not built.

        Args:
            data: the bytes of `vector.json`.
            where: the file, for errors.

        Raises:
            FixtureError: newer format, not a `vector.json`, or one that contradicts itself.
            HarnessError: the index has a graph and hnswlib is not installed.
        """
        return cls.from_file(VectorFile.decode(data, where), where)

    @classmethod
    def from_file(cls, file: VectorFile, where: str) -> "VectorStore":
        """Create the store from a decoded file; see `hydrate`."""
        vectors = file.matrix()
        graph = Graph.restore(file.graph, vectors, file.index.graph_parameters, where) if file.graph else None
        index = _Index(file.index)
        index.set_rows(file.items, vectors, graph)
        store = cls()
        store._indexes[file.index.name] = index
        return store

    def with_graph(self, name: str, graph: Graph) -> "VectorStore":
        """Return a store of the same vectors, searched through a graph over them."""
        index = self._index(name)
        searched = _Index(msgspec.structs.replace(index.description, engine="hnswlib"))
        searched.set_rows(index.items, index.vectors, graph)
        store = VectorStore()
        store._indexes[name] = searched
        return store

    def _index(self, name: str) -> _Index:
        try:
            return self._indexes[name]
        except KeyError:
            raise HarnessError(f"There is no index {name!r}", fix=nearest(name, self._indexes)) from None


def _candidates(index: _Index, unit: Vectors, top_k: int) -> Rows:
    """Return rows worth scoring, ascending: the graph's nearest, or those that may be among the best."""
    breadth = max(_MIN_CANDIDATES, _CANDIDATES_PER_HIT * top_k)
    # A zero vector is equally far from all items: the graph would return any of them.
    if index.graph is not None and breadth < len(index.items) and unit.any():
        found = index.graph.nearest(unit, breadth)
        if found is not None:
            return np.sort(found)
    return _possibly_best(index.vectors, unit, top_k)


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


def _matching(index: _Index, where: Callable[[VectorItem], bool]) -> Rows:
    return np.array([row for row, item in enumerate(index.items) if where(item)], dtype=np.int64)


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
