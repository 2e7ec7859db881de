"""Cosine similarity of the question with each unit, whose vector is blended with its neighbours'."""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from longmemeval.core.arrays import Vector, Vectors
from longmemeval.core.part_options import PartOptions
from longmemeval.errors import FixtureError, HarnessError
from longmemeval.ranking.expansion.chat import ExpansionKind, ExpansionLevel
from longmemeval.ranking.expansion.part import JoinMode, key_owners, key_vectors_part, keys_part
from longmemeval.ranking.history import HistoryView, Scores
from longmemeval.ranking.message_vectors import VECTORS
from longmemeval.records import PartInfo
from longmemeval.storage.fixture import Fixture
from longmemeval.storage.part_files import FORMAT, REMAKE, decode_versioned
from longmemeval.storage.parts import Part, PartInput, PartOutput, PartTools, Stored
from longmemeval.storage.vector_index import (
    Graph,
    GraphParameters,
    GraphState,
    VectorIndex,
    VectorItem,
    base_neighbours,
    default_index,
)

# Key expansions of one prepared history, by unit.


class KeyVectors(Struct, frozen=True):
    """Vectors of keys, and the units they belong to."""

    vectors: Vectors
    """Shape (keys, dimension), rows of length 1."""
    units: NDArray[np.int64]
    """Position of each key's unit, shape (keys,)."""


class UnitKeys:
    """The keys of one kind.

    Those of a turn belong to the unit that contains it, those of a session to the session.

    Args:
        fixture: contains the keys and, if used, their vectors.
        level: source of the keys.

    Raises:
        HarnessError: keys of sessions cannot be used for units of this granularity.
    """

    def __init__(self, history: HistoryView, fixture: Fixture, kind: ExpansionKind, level: ExpansionLevel) -> None:
        if level == "session" and history.granularity != "session":
            raise HarnessError(
                f"Keys of sessions cannot find units of granularity '{history.granularity}'",
                fix="Set granularity=session, or expansion_level=turn",
            )
        self._fixture = fixture
        self._keys, self._key_vectors = keys_part(kind, level), key_vectors_part(kind, level)
        self._unit_ids = [unit.unit_id for unit in history.units]
        self._places = (
            {unit.thread_id: place for place, unit in enumerate(history.units)}
            if level == "session"
            else {
                message.message_id: place
                for place, unit in enumerate(history.units)
                for message in history.messages(unit)
            }
        )

    def texts(self) -> dict[str, list[str]]:
        """Return the texts of keys by unit id; units without any are left out."""
        texts: dict[str, list[str]] = defaultdict(list)
        for item in self._fixture.part(self._keys).items:
            if item.texts and item.unit_id in self._places:
                texts[self._unit_ids[self._places[item.unit_id]]] += item.texts
        return texts

    def vectors(self) -> KeyVectors:
        """Return the vectors of all keys that belong to a unit."""
        opened = self._fixture.part(self._key_vectors)
        owners, vectors = key_owners(opened), opened.rows()[1]
        serving = [row for row, owner in enumerate(owners) if owner in self._places]
        units = np.array([self._places[owners[row]] for row in serving], dtype=np.int64)
        return KeyVectors(vectors[serving], units)


DENSE_WINDOW = (0.5, 0.25)
"""Weight of a neighbour's vector, by distance in the same session."""
_BLOCK_ROWS = 256


class DenseIndex:
    """The dense score of every unit of a history.

    A unit of several messages has the mean of their vectors: no text is embedded twice. A unit with keys has, before
    blending with its neighbours:

    - under `merge` the mean of two vectors of length 1, its own and that of its keys (their normalised mean),
      normalised again;
    - under `replace` the normalised mean of its keys' vectors;
    - under `separate` its own. Its score is then the best of its own and its keys' cosine similarities; a key has no
      neighbours.

    Args:
        items: objects of the stored vectors; a message without one (blank text) counts as a zero vector.
        vectors: the stored vectors, shape (items, dimension), rows of length 1.
        window: weights of neighbours by distance.
        keys: vectors of the units' keys; None: they have none.
        join: method of combining keys and units.
        stated: items and rows as above, of the messages' statements; used for a unit's own vector, not for its
            neighbours'. None: `vectors` are used.
    """

    def __init__(
        self,
        history: HistoryView,
        items: list[VectorItem],
        vectors: Vectors,
        window: tuple[float, ...] = DENSE_WINDOW,
        keys: KeyVectors | None = None,
        join: JoinMode = "merge",
        stated: tuple[list[VectorItem], Vectors] | None = None,
    ) -> None:
        own = near = _unit_vectors(history, items, vectors)
        if stated:
            own = _unit_vectors(history, *stated)
        if keys and join != "separate":
            own = _joined(own, keys, with_text=join == "merge")
            near = _joined(near, keys, with_text=join == "merge") if stated else own
        self._vectors = _normalised(_blended(own, near, history, window))
        self._keys = keys if join == "separate" else None

    def scores(self, query: Vector) -> Scores:
        """Return the cosine similarity of each unit with `query`, shape (dimension,), of length 1."""
        similarity: Scores = (self._vectors @ query).astype(np.float64)
        if self._keys:
            np.maximum.at(similarity, self._keys.units, (self._keys.vectors @ query).astype(np.float64))
        return similarity


def _blended(own: Vectors, near: Vectors, history: HistoryView, window: tuple[float, ...]) -> Vectors:
    """Return the unit vectors `own` plus the weighted vectors of their neighbours, from `near`."""
    blended, count = own.copy(), len(own)
    factors = {
        distance: np.where(history.is_near(distance), np.float32(weight), np.float32(0))[:, np.newaxis]
        for distance, weight in enumerate(window, start=1)
    }
    # Whole slices, adding zero for a missing neighbour: selecting rows would take three times as long. Block by block,
    # which stays in the processor's cache.
    for start in range(0, count, _BLOCK_ROWS):
        stop = min(start + _BLOCK_ROWS, count)
        for distance, factor in factors.items():
            last, first = min(stop, count - distance), max(start, distance)
            if start < last:
                blended[start:last] += factor[start:last] * near[start + distance : last + distance]
            if first < stop:
                blended[first:stop] += (
                    factor[first - distance : stop - distance] * near[first - distance : stop - distance]
                )
    return blended


def _joined(own: Vectors, keys: KeyVectors, *, with_text: bool) -> Vectors:
    """Return the unit vectors, those with keys replaced by their keys' vectors or combined with them."""
    sums = np.zeros_like(own)
    np.add.at(sums, keys.units, keys.vectors)
    key_means = _normalised(sums)
    joined = own.copy()
    keyed = np.unique(keys.units)
    joined[keyed] = _normalised(_normalised(own[keyed]) + key_means[keyed]) if with_text else key_means[keyed]
    return joined


def _normalised(vectors: Vectors) -> Vectors:
    """Return rows scaled to length 1; zero rows stay zero."""
    lengths = np.sqrt(np.square(vectors).sum(axis=1, keepdims=True))
    normalised: Vectors = np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0)
    return normalised


def _unit_vectors(history: HistoryView, items: list[VectorItem], vectors: Vectors) -> Vectors:
    rows = [history.store.positions[item.id] for item in items]
    by_message = vectors
    if rows != list(range(len(history.store.messages))):  # Otherwise each message has a vector, in the history's order.
        by_message = np.zeros((len(history.store.messages), vectors.shape[1]), dtype=np.float32)
        by_message[rows] = vectors
    places = np.array([place for places in history.places for place in places], dtype=np.int64)
    sizes = np.array(list(map(len, history.places)), dtype=np.int64)
    if len(places) == len(sizes):  # One message each: no sums, no division.
        return by_message if np.array_equal(places, np.arange(len(by_message))) else by_message[places]
    sums = np.zeros((len(sizes), vectors.shape[1]), dtype=np.float32)
    np.add.at(sums, np.repeat(np.arange(len(sizes)), sizes), by_message[places])
    return np.divide(sums, sizes[:, np.newaxis], out=np.zeros_like(sums), where=sizes[:, np.newaxis] > 0)


# The part `vector-graph`: a search index over message vectors, for memories that do not compare all of them.

# HNSW construction parameters; changing any of them changes the recipe.
GRAPH = GraphParameters(m=16, ef_construction=200, seed=0)
LEAST_RECALL = 0.99
"""A graph that finds a smaller share of the nearest messages is not kept: every vector is compared."""
_VERSION = 2
"""Version 2: equal vectors share an item of the graph, and its recall is measured."""


class _GraphFile(Struct, frozen=True):
    """`vector-graph.json` as stored on disk."""

    format: int
    graph: GraphState | None
    """None: every vector is compared, as with `--index exact` or below `LEAST_RECALL`, or there are none."""


def encode_graph(graph: GraphState | None) -> bytes:
    """Return the part's bytes: the same for the same graph."""
    return msgspec.json.encode(_GraphFile(FORMAT, graph)) + b"\n"


class MessageGraph(Part[VectorIndex]):
    """The search index over messages."""

    name = "vector-graph"
    needs = (VECTORS,)

    def settled(self, options: PartOptions, recipe: Mapping[str, Any] | None) -> PartOptions:
        """Return the options with a kind of index: the chosen one, else that of the preparation, else what is here."""
        index = options.index or (recipe["index"] if recipe else default_index())
        return options.model_copy(update={"index": index})

    def recipe(self, tools: PartTools) -> dict[str, Any]:
        """Return kind of index and construction parameters of the graph."""
        index = tools.options.index or default_index()
        graph = {"version": _VERSION, "index": index, **msgspec.structs.asdict(GRAPH)}
        return graph if index == "hnsw" else {"version": 1, "index": index}

    def comparable_recipe(self, recipe: Mapping[str, Any]) -> dict[str, Any]:
        """Return the recipe without its version: earlier graphs are read."""
        return {key: value for key, value in super().comparable_recipe(recipe).items() if key != "version"}

    def outdated(self, info: PartInfo) -> str:
        """Return the weakness of a graph with an item for each message."""
        earlier = info.recipe.get("index") == "hnsw" and info.recipe["version"] < _VERSION
        return "can miss messages in histories with many equal ones" if earlier else ""

    def make(self, source: PartInput, tools: PartTools) -> PartOutput:
        """Build the graph, single-threaded with a seed, and measure what it finds."""
        index = source.part(VECTORS)
        if (tools.options.index or default_index()) != "hnsw" or not len(index.vectors):
            return PartOutput(encode_graph(None))
        graph = Graph.build(index.vectors, GRAPH)
        recall = index.with_graph(graph).graph_recall(GRAPH.seed)
        if recall >= LEAST_RECALL:
            return PartOutput(encode_graph(graph.state), stats={"recall": recall})
        missed = f"{1 - LEAST_RECALL:.0%} of the nearest messages"
        note = f"the HNSW graph misses more than {missed}, so every message is compared (exact search)"
        return PartOutput(encode_graph(None), stats={"recall": recall}, notes=(note,))

    def open(self, stored: Stored) -> VectorIndex:
        """Return the searchable vectors of the messages; the graph is restored, not built.

        Raises:
            FixtureError: it is damaged, or the graph contradicts its recipe.
        """
        opened = stored.part(VECTORS)
        state = decode_versioned(stored.data(), _GraphFile, stored.where).graph
        info = stored.info
        wanted = info is not None and info.recipe.get("index") == "hnsw" and info.stats.get("recall", 1) >= LEAST_RECALL
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
        return len(source.messages) * row * 4 / 3 if (options.index or default_index()) == "hnsw" else 100.0

    def flags(self, stored: Stored | None) -> dict[str, str]:
        """Return the kind of the existing index."""
        return {"index": str(stored.info.recipe["index"])} if stored and stored.info else {}


MESSAGE_GRAPH = MessageGraph()
