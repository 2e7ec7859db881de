"""The embedded stores: facts in memory with a networkx graph, vectors in one matrix."""

import hashlib
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from longmemeval.core.arrays import Vector, Vectors
from longmemeval.errors import RecallError
from longmemeval.memory.engram.records import Fact, facts_at
from longmemeval.memory.engram.stores.protocol import NOW, FactStore, FactVectors, Names, When

if TYPE_CHECKING:
    import networkx as nx


# Rows of versions of facts: columns to search by, and the complete record.

FOREVER = "9999-12-31T23:59:59.999999"
"""The text that stands for "still" in databases that compare texts."""


def text_of(moment: datetime) -> str:
    """Return a moment as a text that sorts chronologically."""
    return moment.isoformat(timespec="microseconds")


def plain(text: str) -> str:
    """Return a text without the zero characters that databases refuse."""
    return text.replace("\0", "")


def number_of(moment: datetime | None) -> int:
    """Return a moment as microseconds since 1970, for engines without dates; None: the last possible moment."""
    age = (moment or datetime.max) - datetime(1970, 1, 1)
    return (age.days * 86_400 + age.seconds) * 1_000_000 + age.microseconds


NEVER = number_of(None)


def moment_of(number: int) -> datetime | None:
    """Return the moment of a number, the inverse of `number_of`."""
    return None if number == NEVER else datetime(1970, 1, 1) + timedelta(microseconds=number)


def encoded(fact: Fact) -> str:
    """Return the record as JSON."""
    return msgspec.json.encode(fact).decode()


class DamagedRecordError(RecallError):
    """A stored record cannot be decoded as a fact."""


def decoded(record: str) -> Fact:
    """Return the fact of a record.

    Raises:
        DamagedRecordError: the record is invalid.
    """
    try:
        return msgspec.json.decode(record, type=Fact)
    except (msgspec.DecodeError, TypeError) as error:
        raise DamagedRecordError(
            f"The store holds a damaged record of a fact: {error}",
            fix="Open the memory again, or rerun the command: the store is then refilled from the prepared facts",
        ) from error


def digest(fact: Fact, vector: Vector) -> str:
    """Return a hash by which to recognise exactly this version and vector in a store, apart from the expiry."""
    open_version = msgspec.structs.replace(fact, expired_at=None)
    return hashlib.sha256(msgspec.json.encode(open_version) + vector.astype("<f4").tobytes()).hexdigest()[:32]


def in_batches(rows: Sequence[dict[str, Any]], size: int = 1000) -> list[list[dict[str, Any]]]:
    """Split rows into batches of at most `size`."""
    return [list(rows[start : start + size]) for start in range(0, len(rows), size)]


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


# Bring stores up to date with a history's record: filled the first time, added to afterwards.


class Stores(NamedTuple):
    """The stores in which the facts of one history are queried."""

    facts: FactStore
    vectors: FactVectors


def fill_facts(store: FactStore, wanted: Sequence[Fact]) -> None:
    """Make `store` hold exactly these versions, adding those that are missing.

    A store that contradicts them, or is damaged, is emptied first.

    Args:
        store: may contain anything.
        wanted: all versions, in the order they were learned.
    """
    held: list[Fact] | None
    try:
        held = store.versions()
    except DamagedRecordError:
        held = None
    if held is None or not _begins_with(wanted, held):
        store.remove()
        held = []
    store.append(wanted[len(held) :], len(held))
    store.expire([fact for fact, before in zip(wanted, held, strict=False) if fact != before])


def fill_vectors(store: FactVectors, wanted: Sequence[Fact], vectors: Vectors) -> None:
    """Make `store` hold the vectors of exactly these versions.

    Args:
        store: may contain anything.
        wanted: all versions, in the order they were learned.
        vectors: a vector of length 1 for each version, shape (versions, dimension).
    """
    held = list(store.held().items())
    open_before = [(version_id, stamp) for version_id, (stamp, _) in held]
    now = [(fact.version_id, digest(fact, row)) for fact, row in zip(wanted[: len(held)], vectors, strict=False)]
    reopened = any(
        expired is not None and fact.expired_at != expired
        for fact, (_, (_, expired)) in zip(wanted, held, strict=False)
    )
    if reopened or now != open_before:
        store.remove()
        held = []
    if len(wanted) > len(held):
        store.add(wanted[len(held) :], vectors[len(held) :], len(held))
    store.expire([fact for fact, (_, (_, expired)) in zip(wanted, held, strict=False) if fact.expired_at != expired])


def _begins_with(wanted: Sequence[Fact], held: Sequence[Fact]) -> bool:
    """Return whether adding versions is enough to bring a store with `held` up to date."""
    return len(held) <= len(wanted) and all(
        before in (fact, msgspec.structs.replace(fact, expired_at=None))
        for fact, before in zip(wanted, held, strict=False)
    )


class FollowedFacts:
    """A store that follows a growing record: new versions are added before each query.

    Args:
        store: the store that is queried.
    """

    def __init__(self, store: FactStore) -> None:
        self._store = store
        self._seen: list[Fact] | None = None

    def now(self, wanted: list[Fact]) -> FactStore:
        """Return the store after adding the versions that are new in the record."""
        if self._seen is None or not _begins_with(wanted, self._seen):
            fill_facts(self._store, wanted)
        elif wanted != self._seen:
            self._store.append(wanted[len(self._seen) :], len(self._seen))
            self._store.expire([fact for fact, before in zip(wanted, self._seen, strict=False) if fact != before])
        self._seen = wanted
        return self._store
