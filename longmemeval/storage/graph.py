"""An HNSW graph over unit vectors (Malkov and Yashunin 2018), built by hnswlib, saved without its vectors.

hnswlib keeps links, vector and label of an item in one row of bytes. The vectors are already in `vector.json`
and the labels are row numbers, so `GraphState` holds only the computed rest: levels, links and the entry point.
Sizes and offsets come from an empty index of the same parameters, so a fixture does not depend on them.
"""

from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from longmemeval.core.arrays import Vectors
from longmemeval.errors import FixtureError, needed
from longmemeval.storage.format import REMAKE

if TYPE_CHECKING:
    from hnswlib import Index, IndexState

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


class Graph:
    """A graph over the rows of a matrix, created by `build` or `restore`; immutable.

    Args:
        state: the computed graph.
        vectors: shape (n, dimension), n at least 1, rows of length 1 or 0.
        parameters: construction parameters of the graph.
    """

    def __init__(self, state: GraphState, vectors: Vectors, parameters: GraphParameters) -> None:
        self.state = state
        self._vectors = vectors
        self._parameters = parameters

    @classmethod
    def build(cls, vectors: Vectors, parameters: GraphParameters) -> "Graph":
        """Build the graph in one thread, in row order: the same vectors give the same graph.

        Raises:
            HarnessError: hnswlib is not installed.
        """
        index = _empty_index(vectors.shape[1], len(vectors), parameters)
        index.add_items(vectors, np.arange(len(vectors)), num_threads=1)
        full = index.__getstate__()[0]
        rows = full["data_level0"].reshape(len(vectors), full["size_data_per_element"])
        state = GraphState(
            max_level=full["max_level"],
            entry_point=full["enterpoint_node"],
            levels=full["element_levels"].astype("<i4").tobytes(),
            base_links=rows[:, : full["offset_data"]].tobytes(),
            upper_links=full["link_lists"].tobytes(),
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
        """Return rows of about the `count` nearest vectors, unordered; None if the graph reaches fewer than `count`.

        This happens if items have few links: parts of the graph may then be unreachable.
        """
        try:
            labels, _ = self._index.knn_query(unit, k=count, num_threads=1)
        except RuntimeError:
            return None
        rows: Rows = labels[0].astype(np.int64)
        return rows

    @cached_property
    def _index(self) -> "Index":
        """State and vectors in hnswlib's own layout: per item its links, its vector, its label (the row number).

        Built at the first search, since it takes megabytes that a fixture opened for its messages does not need.
        """
        count = len(self._vectors)
        full = _empty_state(self._vectors.shape[1], self._parameters).copy()
        data, label = full["offset_data"], full["label_offset"]
        rows = np.empty((count, full["size_data_per_element"]), dtype=np.uint8)
        rows[:, :data] = np.frombuffer(self.state.base_links, dtype=np.uint8).reshape(count, data)
        rows[:, data:label] = self._vectors.view(np.uint8)
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


def _index_type() -> "type[Index]":
    fix = (
        "It needs a C++ compiler to install (on Debian `apt-get install g++ python3-dev`), then "
        "`pip install hnswlib`; or prepare with `--index exact`, which needs neither"
    )
    with needed("The HNSW index needs hnswlib, which is not installed", fix):
        from hnswlib import Index
    return Index


def _fits(state: GraphState, count: int, *, base_row: int, upper_row: int) -> bool:
    """Return whether hnswlib can load the state without reading or following links outside its memory."""
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
