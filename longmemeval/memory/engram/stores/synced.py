"""Stores brought to what a history's record says: filled the first time, added to afterwards."""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from longmemeval.core.arrays import Vectors
from longmemeval.memory.engram.records import Fact
from longmemeval.memory.engram.stores.protocol import FactStore, FactVectors
from longmemeval.memory.engram.stores.rows import DamagedRecordError, digest


class Stores(NamedTuple):
    """Where the facts of one history are asked for."""

    facts: FactStore
    vectors: FactVectors


def fill_facts(store: FactStore, wanted: Sequence[Fact]) -> None:
    """Make `store` hold these versions and no others: what is missing is added.

    A store that contradicts, or is damaged, is emptied first.

    Args:
        store: whatever it holds.
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
    """The same for vectors.

    Args:
        store: whatever it holds.
        wanted: all versions, in the order they were learned.
        vectors: of each, of length 1, shape (versions, dimension).
    """
    held = list(store.held().items())
    open_before = [(one, stamp) for one, (stamp, _) in held]
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
    """Whether `held` is what a store holds that only has to be added to."""
    return len(held) <= len(wanted) and all(
        before in (fact, msgspec.structs.replace(fact, expired_at=None))
        for fact, before in zip(wanted, held, strict=False)
    )


class FollowedFacts:
    """A store that follows a record which grows: what is new since the last look is added before a question.

    Args:
        store: where questions are put.
    """

    def __init__(self, store: FactStore) -> None:
        self._store = store
        self._seen: list[Fact] | None = None

    def now(self, wanted: list[Fact]) -> FactStore:
        """The store, with all versions that the record holds now."""
        if self._seen is None or not _begins_with(wanted, self._seen):
            fill_facts(self._store, wanted)
        elif wanted != self._seen:
            self._store.append(wanted[len(self._seen) :], len(self._seen))
            self._store.expire([fact for fact, before in zip(wanted, self._seen, strict=False) if fact != before])
        self._seen = wanted
        return self._store
