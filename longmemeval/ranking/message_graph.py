"""The part `vector-graph`: a search index over message vectors, for memories that do not compare all of them."""

from typing import Any

import msgspec
from msgspec import Struct

from longmemeval.core.part_options import PartOptions
from longmemeval.errors import FixtureError
from longmemeval.ranking.message_vectors import VECTORS
from longmemeval.storage.part_files import FORMAT, REMAKE, decode_versioned
from longmemeval.storage.parts import Part, PartInput, PartOutput, PartTools, Stored
from longmemeval.storage.vector_index import Graph, GraphParameters, GraphState, VectorIndex, base_neighbours

# HNSW construction parameters; changing any of them changes the recipe.
GRAPH = GraphParameters(m=16, ef_construction=200, seed=0)


class _GraphFile(Struct, frozen=True):
    """`vector-graph.json` as stored on disk."""

    format: int
    graph: GraphState | None
    """None: every vector is compared, as with `--index exact`, or there are none."""


def encode_graph(graph: GraphState | None) -> bytes:
    """Return the part's bytes: the same for the same graph."""
    return msgspec.json.encode(_GraphFile(FORMAT, graph)) + b"\n"


class MessageGraph(Part[VectorIndex]):
    """The search index over messages."""

    name = "vector-graph"
    needs = (VECTORS,)

    def recipe(self, tools: PartTools) -> dict[str, Any]:
        """Return kind of index and construction parameters of the graph."""
        index = tools.options.index
        return {"version": 1, "index": index, **(msgspec.structs.asdict(GRAPH) if index == "hnsw" else {})}

    def make(self, source: PartInput, tools: PartTools) -> PartOutput:
        """Build the graph, single-threaded with a seed."""
        _, vectors = source.part(VECTORS).rows()
        graph = Graph.build(vectors, GRAPH).state if tools.options.index == "hnsw" and len(vectors) else None
        return PartOutput(encode_graph(graph))

    def open(self, stored: Stored) -> VectorIndex:
        """Return the searchable vectors of the messages; the graph is restored, not built.

        Raises:
            FixtureError: it is damaged, or the graph contradicts its recipe.
        """
        opened = stored.part(VECTORS)
        state = decode_versioned(stored.data(), _GraphFile, stored.where).graph
        wanted = stored.info is not None and stored.info.recipe.get("index") == "hnsw"
        if (state is not None) != (wanted and bool(len(opened.rows()[0]))):
            raise FixtureError("Graph and recipe do not fit together", where=stored.where, fix=REMAKE)
        graph = Graph.restore(state, opened.rows()[1], GRAPH, stored.where) if state else None
        return opened.with_graph(graph) if graph else opened

    def agrees(self, stored: bytes, made: bytes) -> bool:
        """Return whether both graphs have the same levels and nearly the same links.

        Processors round distances differently, which decides between neighbours that are about equally far.
        """
        have, again = (decode_versioned(data, _GraphFile, self.name).graph for data in (stored, made))
        if have is None or again is None or (have.levels, have.entry_point) != (again.levels, again.entry_point):
            return stored == made
        pairs = zip(base_neighbours(have), base_neighbours(again), strict=True)
        shared = [len(ours & theirs) / max(1, len(ours | theirs)) for ours, theirs in pairs]
        return min(shared, default=1.0) >= 0.5 and sum(shared) >= 0.95 * len(shared)

    def size(self, source: PartInput, options: PartOptions, dimension: int) -> float:
        """Estimate links and levels in base64."""
        row = 4 * (2 * GRAPH.m + 1) + 4 + 4 * (GRAPH.m + 1) / GRAPH.m
        return len(source.messages) * row * 4 / 3 if options.index == "hnsw" else 100.0

    def flags(self, stored: Stored | None) -> dict[str, str]:
        """Return the kind of the existing index."""
        return {"index": str(stored.info.recipe["index"])} if stored and stored.info else {}


MESSAGE_GRAPH = MessageGraph()
