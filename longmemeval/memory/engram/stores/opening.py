"""Open stores by name, and share open ones within the process."""

import hashlib
import re
from pathlib import Path
from threading import Lock
from typing import cast
from weakref import WeakValueDictionary

import numpy as np

from longmemeval.core.installation import install_command
from longmemeval.errors import HarnessError
from longmemeval.memory.engram.part import FACT_VECTORS, FACTS
from longmemeval.memory.engram.stores.embedded import Stores, fill_facts, fill_vectors
from longmemeval.memory.engram.stores.kinds import STORES, Namespace, Side, StoreKind, store_kind
from longmemeval.memory.engram.stores.protocol import FactStore, FactVectors
from longmemeval.settings import Folders
from longmemeval.storage.fixture import Fixture


def namespace(label: str, identity: str, folder: Path, patience_s: float = 0.0) -> Namespace:
    """Return a namespace that no other history has.

    Args:
        label: a readable name of the history.
        identity: a text that is unique to the history.
        folder: the folder for files.
        patience_s: seconds to wait for files that another process has open.
    """
    readable = re.sub(r"\W+", "_", label, flags=re.ASCII).strip("_").lower()[:30]
    return Namespace(f"engram_{readable}_{hashlib.sha256(identity.encode()).hexdigest()[:16]}", folder, patience_s)


def open_facts(store: str, place: Namespace) -> FactStore:
    """Open the fact store of one history, with its earlier contents.

    Raises:
        HarnessError: there is no such store, its client is not installed, its server does not answer, or another
            process has it open.
    """
    return cast(FactStore, _opened(store, "facts", place))


def open_vectors(store: str, place: Namespace) -> FactVectors:
    """Open the vector store of one history as `open_facts` does."""
    return cast(FactVectors, _opened(store, "vectors", place))


_open: WeakValueDictionary[tuple[str, Side, Namespace], FactStore | FactVectors] = WeakValueDictionary()
_opening = Lock()


def _opened(store: str, side: Side, place: Namespace) -> FactStore | FactVectors:
    """Return one object per history and process, so that a store that locks its files is opened once."""
    kind = store_kind(store, side)
    if kind.in_memory:
        return _new_store(store, kind, side, place)
    with _opening:
        found = _open.get((store, side, place))
        if found is None:
            found = _open[store, side, place] = _new_store(store, kind, side, place)
    return found


def _new_store(store: str, kind: StoreKind, side: Side, place: Namespace) -> FactStore | FactVectors:
    opens = kind.facts if side == "facts" else kind.vectors
    assert opens
    try:
        return opens(place)
    except ModuleNotFoundError as error:
        raise HarnessError(
            f"The store '{store}' needs a library that is not installed: {error.name}",
            fix=f"Run: {install_command(store)}" if store in STORES.built_in else f"Install {error.name}",
        ) from error


# The stores of a prepared history, filled from its parts.

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
