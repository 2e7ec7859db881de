"""The embedded stores: facts in memory with a networkx graph, vectors in one matrix."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import msgspec
import numpy as np
from numpy.typing import NDArray

from longmemeval.core.arrays import Vector, Vectors
from longmemeval.memory.engram.records import Fact, facts_at
from longmemeval.memory.engram.stores.protocol import NOW, Names, When
from longmemeval.memory.engram.stores.rows import digest

if TYPE_CHECKING:
    import networkx as nx


class EmbeddedFacts:
    """Facts in memory. The ledger keeps its own versions in one, the record from which other stores are filled."""

    def __init__(self) -> None:
        self.remove()

    def remove(self) -> None:
        """Empty the store."""
        self._rows: dict[str, Fact] = {}
        self._by_subject: dict[str, list[str]] = {}
        self._graph: tuple[When, nx.Graph[str]] | None = None

    def close(self) -> None:
        """Do nothing: there is nothing to release."""

    def __len__(self) -> int:
        return len(self._rows)

    def append(self, facts: Sequence[Fact], first: int) -> None:
        """Add versions."""
        self._graph = None
        for fact in facts:
            if fact.version_id not in self._rows:
                self._rows[fact.version_id] = fact
                self._by_subject.setdefault(fact.subject, []).append(fact.version_id)

    def expire(self, facts: Sequence[Fact]) -> None:
        """Replace open versions by the same versions with `expired_at`.

        Raises:
            ValueError: a version is closed already, or differs in more than its expiry.
        """
        self._graph = None
        for fact in facts:
            if msgspec.structs.replace(fact, expired_at=None) != self._rows[fact.version_id]:
                raise ValueError(f"version {fact.version_id} may be closed once, but never changed")
            self._rows[fact.version_id] = fact

    def versions(self, subjects: Names = None, predicate: str | None = None) -> list[Fact]:
        """Return all versions in the order they were added."""
        found: Iterable[Fact] = self._rows.values()
        if subjects is not None and len(set(subjects)) == 1:
            only = next(iter(subjects))
            found = (self._rows[version_id] for version_id in self._by_subject.get(only, ()))
        elif subjects is not None:
            found = (fact for fact in found if fact.subject in subjects)
        return [fact for fact in found if predicate in (None, fact.predicate, fact.predicate.partition(":")[0])]

    def facts(self, subjects: Names = None, predicate: str | None = None, when: When = NOW) -> list[Fact]:
        """Return the versions that hold and are believed, in the order they were added."""
        return facts_at(self.versions(subjects, predicate), *when)

    def distances(self, names: Iterable[str], hops: int, when: When = NOW) -> dict[str, int]:
        """Return the names within `hops` of one of `names`, with distances. The graph of the last moments is cached."""
        import networkx as nx

        held = self._graph
        if held is None or held[0] != when:
            found = self.facts(when=when)
            held = self._graph = (when, nx.Graph((fact.subject, fact.object) for fact in found))
        starts = [name for name in names if name in held[1]]
        layers = zip(range(hops + 1), nx.bfs_layers(held[1], starts), strict=False)
        return {name: distance for distance, layer in layers for name in layer}


class EmbeddedVectors:
    """Vectors in memory, searched exhaustively."""

    def __init__(self) -> None:
        self.remove()

    def remove(self) -> None:
        """Empty the store."""
        self._facts: list[Fact] = []
        self._places: dict[str, int] = {}
        self._vectors: Vectors | None = None
        self._visible: tuple[When, NDArray[np.int64]] | None = None

    def close(self) -> None:
        """Do nothing: there is nothing to release."""

    def add(self, facts: Sequence[Fact], vectors: Vectors, first: int) -> None:
        """Add versions."""
        self._visible = None
        new = [place for place, fact in enumerate(facts) if fact.version_id not in self._places]
        self._places |= {facts[place].version_id: len(self._facts) + number for number, place in enumerate(new)}
        self._facts += [facts[place] for place in new]
        held = () if self._vectors is None else (self._vectors,)
        self._vectors = np.concatenate([*held, vectors[new]])

    def expire(self, facts: Sequence[Fact]) -> None:
        """Record when versions expired."""
        self._visible = None
        for fact in facts:
            self._facts[self._places[fact.version_id]] = fact

    def rows(self, ids: Sequence[str]) -> Vectors:
        """Return the vectors of some versions, shape (versions, dimension)."""
        return np.zeros((0, 0), np.float32) if self._vectors is None else self._vectors[[self._places[i] for i in ids]]

    def held(self) -> dict[str, tuple[str, datetime | None]]:
        """Return digest and expiry of each version."""
        if self._vectors is None:
            return {}
        pairs = zip(self._facts, self._vectors, strict=True)
        return {fact.version_id: (digest(fact, row), fact.expired_at) for fact, row in pairs}

    def search(self, vector: Vector, limit: int, when: When = NOW, ids: Names = None) -> list[tuple[str, float]]:
        """Return the nearest versions that hold and are believed. Those visible at the last moments are cached."""
        visible = self._visible
        if self._vectors is None:
            return []
        if visible is None or visible[0] != when:
            rows = [self._places[fact.version_id] for fact in facts_at(self._facts, *when)]
            visible = self._visible = (when, np.array(rows, np.int64))
        places = visible[1]
        if ids is not None:
            chosen = [self._places[version_id] for version_id in ids if version_id in self._places]
            places = places[np.isin(places, chosen)]
        scores = (self._vectors @ vector)[places]
        best = np.argsort(-scores, kind="stable")[:limit]
        found = [self._facts[place].version_id for place in places[best].tolist()]
        return list(zip(found, scores[best].tolist(), strict=True))
