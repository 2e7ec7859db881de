"""Open stores by name, and share open ones within the process."""

import hashlib
import re
from pathlib import Path
from threading import Lock
from typing import cast
from weakref import WeakValueDictionary

from longmemeval.errors import HarnessError
from longmemeval.memory.engram.stores.kinds import STORES, Side, StoreKind, store_kind
from longmemeval.memory.engram.stores.places import Namespace
from longmemeval.memory.engram.stores.protocol import FactStore, FactVectors


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
            fix=f"Run `pip install 'longmemeval[{store}]'`" if store in STORES.built_in else f"Install {error.name}",
        ) from error
