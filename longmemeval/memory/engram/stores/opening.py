"""Open stores by name, and share open ones within the process."""

import hashlib
import importlib
import re
from pathlib import Path
from threading import Lock
from typing import Literal, cast
from weakref import WeakValueDictionary

from longmemeval.errors import HarnessError
from longmemeval.memory.engram.stores.embedded import EmbeddedFacts, EmbeddedVectors
from longmemeval.memory.engram.stores.places import Namespace
from longmemeval.memory.engram.stores.protocol import FactStore, FactVectors

FactStoreName = Literal["embedded", "falkordb", "ladybug", "postgres"]
VectorStoreName = Literal["embedded", "postgres", "qdrant", "lancedb"]

_HERE = "longmemeval.memory.engram.stores"


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


def open_facts(store: FactStoreName, place: Namespace) -> FactStore:
    """Open the fact store of one history, with its earlier contents.

    Raises:
        HarnessError: its client is not installed, its server does not answer, or another process has it open.
    """
    if store == "embedded":
        return EmbeddedFacts()
    return cast(FactStore, _shared(store, "facts", place))


def open_vectors(store: VectorStoreName, place: Namespace) -> FactVectors:
    """Open the vector store of one history as `open_facts` does."""
    if store == "embedded":
        return EmbeddedVectors()
    return cast(FactVectors, _shared(store, "vectors", place))


_CLASSES = {
    ("falkordb", "facts"): "FalkorDBFacts",
    ("ladybug", "facts"): "LadybugFacts",
    ("postgres", "facts"): "PostgresFacts",
    ("postgres", "vectors"): "PostgresVectors",
    ("qdrant", "vectors"): "QdrantVectors",
    ("lancedb", "vectors"): "LanceDBVectors",
}
_open: WeakValueDictionary[tuple[str, str, Namespace], object] = WeakValueDictionary()
_opening = Lock()


def _shared(store: str, kind: str, place: Namespace) -> object:
    """Return one object for each history and process, so that a store that locks its files is opened once."""
    try:
        module = importlib.import_module(f"{_HERE}.{store}")
    except ModuleNotFoundError as error:
        raise HarnessError(
            f"The store '{store}' needs a library that is not installed: {error.name}",
            fix=f"Run `pip install 'longmemeval[{store}]'`",
        ) from error
    with _opening:
        found = _open.get((store, kind, place))
        if found is None:
            found = _open[store, kind, place] = getattr(module, _CLASSES[store, kind])(place)
    return found
