"""The stores of a prepared history, filled from its parts."""

import numpy as np

from longmemeval.memory.engram.part import FACT_VECTORS, FACTS
from longmemeval.memory.engram.stores.opening import namespace, open_facts, open_vectors
from longmemeval.memory.engram.stores.synced import Stores, fill_facts, fill_vectors
from longmemeval.settings import Folders
from longmemeval.storage.fixture import Fixture

_PATIENCE_S = 30.0
"""Seconds to wait until another run over the same histories moves on to its next history, or ends."""


def stores_key(store: str, vectors: str) -> tuple[str, ...]:
    """Return the key under which the stores are cached with a fixture."""
    return ("engram-stores", store, vectors)


def stores_of(fixture: Fixture, store: str, vectors: str) -> Stores:
    """Return the stores in which a fixture's facts are queried. Cached with the fixture.

    Their namespace is derived from the bytes of the parts: another state of the history has another namespace, so no
    process changes what another process reads.

    Raises:
        HarnessError: a store cannot be opened.
    """
    return fixture.cached(stores_key(store, vectors), lambda: _filled(fixture, store, vectors))


def _filled(fixture: Fixture, store: str, vectors: str) -> Stores:
    versions = fixture.part(FACTS).facts
    items, rows = fixture.part(FACT_VECTORS).rows()
    places = {item.id: place for place, item in enumerate(items)}
    haystack_id, infos = fixture.meta.haystack_id, (FACTS.info(fixture.meta), FACT_VECTORS.info(fixture.meta))
    identity = "\n".join([haystack_id, *(info.sha256 for info in infos if info)])
    place = namespace(haystack_id, identity, Folders().stores_dir, _PATIENCE_S)
    opened = Stores(open_facts(store, place), open_vectors(vectors, place))
    fill_facts(opened.facts, versions)
    fill_vectors(opened.vectors, versions, rows[np.array([places[fact.version_id] for fact in versions], dtype=int)])
    return opened
