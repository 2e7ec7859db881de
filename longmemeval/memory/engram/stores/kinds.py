"""The stores that a name can stand for: those of this package, and of others by the door `longmemeval.stores`."""

from collections.abc import Callable
from importlib import import_module
from typing import Any, Literal

from msgspec import Struct

from longmemeval import plugins
from longmemeval.errors import HarnessError, nearest
from longmemeval.memory.engram.stores.embedded import EmbeddedFacts, EmbeddedVectors
from longmemeval.memory.engram.stores.places import Namespace
from longmemeval.memory.engram.stores.protocol import FactStore, FactVectors
from longmemeval.plugins import Registry

Side = Literal["facts", "vectors"]
"""What a store keeps."""


class StoreKind(Struct, frozen=True):
    """One kind of store, registered in the entry-point group `longmemeval.stores`.

    A class that is made from a `Namespace` and is a `FactStore` or `FactVectors` is one too; what it says of the fields
    below stands in attributes of the same names.
    """

    facts: Callable[[Namespace], FactStore] | None = None
    """Open the facts of a history; None: it keeps no facts."""
    vectors: Callable[[Namespace], FactVectors] | None = None
    """Open the vectors of a history's facts; None: it keeps no vectors."""
    is_remote: bool = False
    """True if it asks a server, so that every recall waits for it."""
    price: str = ""
    """What asking it costs, in a few words; no cost of a run counts it. Empty: nothing."""
    in_memory: bool = False
    """True if each opening is a new, empty store, which is gone with its object."""

    @property
    def remark(self) -> str:
        """What it keeps, where, and its price, for a list of stores."""
        kept = [side for side, opens in (("facts", self.facts), ("vectors", self.vectors)) if opens]
        return "; ".join(filter(None, [" and ".join(kept), "on a server" if self.is_remote else "", self.price]))


def _as_kind(loaded: object) -> object:
    """Return a class that is a store as a kind with what it says of itself."""
    if not isinstance(loaded, type):
        return loaded
    own: dict[str, Any] = {name: getattr(loaded, name) for name in ("is_remote", "price") if hasattr(loaded, name)}
    if hasattr(loaded, "distances"):
        return StoreKind(facts=loaded, **own)
    return StoreKind(vectors=loaded, **own) if hasattr(loaded, "held") else loaded


STORES = Registry[StoreKind](plugins.STORES, "store", StoreKind, adapt=_as_kind)


def store_kind(name: str, side: Side) -> StoreKind:
    """Return the kind of store that `name` stands for.

    Raises:
        HarnessError: there is none of this name, it cannot be loaded, or it does not keep this side.
    """
    kind = STORES.get(name)
    if getattr(kind, side) is None:
        raise HarnessError(f"The store '{name}' keeps no {side}", fix=nearest(name, stores_of_side(side)))
    return kind


def stores_of_side(side: Side) -> list[str]:
    """Return the names of this package's stores that keep facts, or their vectors, in their order."""
    return [name for name in STORES.built_in if getattr(STORES.get(name), side)]


def _here(module: str, name: str) -> Callable[[Namespace], Any]:
    """Return what opens a store of this folder, whose library is imported only then."""

    def opens(place: Namespace) -> object:
        made: object = getattr(import_module(f"longmemeval.memory.engram.stores.{module}"), name)(place)
        return made

    return opens


EMBEDDED = StoreKind(lambda place: EmbeddedFacts(), lambda place: EmbeddedVectors(), in_memory=True)
FALKORDB = StoreKind(facts=_here("falkordb", "FalkorDBFacts"), is_remote=True)
LADYBUG = StoreKind(facts=_here("ladybug", "LadybugFacts"))
POSTGRES = StoreKind(_here("postgres", "PostgresFacts"), _here("postgres", "PostgresVectors"), is_remote=True)
QDRANT = StoreKind(vectors=_here("qdrant", "QdrantVectors"))
LANCEDB = StoreKind(vectors=_here("lancedb", "LanceDBVectors"))
