"""Cosine similarity of the question with each unit, whose vector is blended with its neighbours'."""

import numpy as np

from longmemeval.core.arrays import Vector, Vectors
from longmemeval.ranking.expansion.join import JoinMode
from longmemeval.ranking.history import HistoryView, Scores
from longmemeval.ranking.unit_keys import KeyVectors
from longmemeval.storage.vector_index import VectorItem

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
