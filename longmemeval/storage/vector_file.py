"""`vector.json`: one index as stored on disk."""

from typing import Annotated, Literal

import numpy as np
from msgspec import Meta, Struct

from longmemeval.core.arrays import Vectors
from longmemeval.errors import FixtureError
from longmemeval.storage.format import REMAKE, decode_versioned
from longmemeval.storage.graph import GraphParameters, GraphState

Engine = Literal["hnswlib", "exact"]


class VectorItem(Struct, frozen=True, gc=False):
    """The object of a vector: a stored message."""

    id: str
    """Message id."""
    thread_id: str
    index: int
    """The message's position in its thread, from 0."""


class IndexDescription(Struct, frozen=True, kw_only=True):
    """Properties of an index. `m`, `ef_construction` and `seed` belong to the graph; `exact` ignores them."""

    name: str
    dimension: Annotated[int, Meta(ge=1)]
    metric: Literal["cosine"] = "cosine"
    engine: Engine = "hnswlib"
    m: Annotated[int, Meta(ge=2, le=1000)] = 16
    ef_construction: Annotated[int, Meta(ge=1)] = 200
    seed: Annotated[int, Meta(ge=0)] = 0
    count: Annotated[int, Meta(ge=0)] = 0

    @property
    def graph_parameters(self) -> GraphParameters:
        """Construction parameters of the graph."""
        return GraphParameters(self.m, self.ef_construction, self.seed)


class EmbedderIdentity(Struct, frozen=True):
    """The embedder that made the vectors: its name, and the fingerprint of all that changes a vector."""

    spec: str
    fingerprint: str


class VectorFile(Struct, frozen=True):
    """`vector.json` as stored on disk: one index."""

    format: int
    index: IndexDescription
    embedder: EmbedderIdentity
    items: list[VectorItem]
    vectors: bytes
    """Row by row in item order, float32 little-endian, each of length 1 or 0."""
    graph: GraphState | None

    @classmethod
    def decode(cls, data: bytes, where: str) -> "VectorFile":
        """Read the file.

        Args:
            data: its bytes.
            where: its path, for errors.

        Raises:
            FixtureError: newer format, not a `vector.json`, or one that contradicts itself.
        """
        file = decode_versioned(data, cls, where)
        index = file.index
        if (
            len({item.id for item in file.items}) != index.count
            or len(file.items) != index.count
            or len(file.vectors) != index.count * index.dimension * 4
            or (file.graph is None) != (index.engine == "exact" or not index.count)
        ):
            raise FixtureError("Items, vectors and graph do not fit together", where=where, fix=REMAKE)
        return file

    def matrix(self) -> Vectors:
        """Return the vectors, shape (count, dimension), read-only."""
        flat = np.frombuffer(self.vectors, dtype="<f4").astype(np.float32, copy=False)
        return flat.reshape(self.index.count, self.index.dimension)
