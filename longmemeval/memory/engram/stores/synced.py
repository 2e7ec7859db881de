"""Bring stores up to date with a history's record: filled the first time, added to afterwards."""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from longmemeval.core.arrays import Vectors
from longmemeval.memory.engram.records import Fact
from longmemeval.memory.engram.stores.protocol import FactStore, FactVectors
from longmemeval.memory.engram.stores.rows import DamagedRecordError, digest


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
