"""Stores by name: those of this package, and those that others register as entry points of `longmemeval.stores`."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol
from weakref import WeakSet

from msgspec import Struct

from longmemeval import plugins
from longmemeval.core.journal import LockedError, locked
from longmemeval.errors import HarnessError, RecallError, nearest
from longmemeval.memory.engram.stores.embedded import EmbeddedFacts, EmbeddedVectors
from longmemeval.memory.engram.stores.protocol import FactStore, FactVectors
from longmemeval.plugins import Registry

# Addresses of databases, and locks on files that only one process at a time may open.

_LOOK_S = 0.05


class Namespace(NamedTuple):
    """The namespace of one history in a store."""

    name: str
    """Lower-case letters, digits and underscores, at most 54: the name of a graph, a table or a file."""
    folder: Path
    """The folder of stores without a server."""
    patience_s: float = 0.0
    """Seconds to wait for files that another process has open."""


def address(variable: str, usual: str) -> str:
    """Return the address of a server from the environment, else the default `usual`."""
    return os.environ.get(variable) or usual


def unreachable(server: str, variable: str, error: Exception) -> HarnessError:
    """Return the error for a server that does not answer or refuses."""
    return HarnessError(
        f"{server} cannot be reached: {' '.join(str(error).split())}",
        where=variable,
        fix=f"Start it, and give its address in {variable}",
    )


@contextmanager
def asking(server: str, *errors: type[Exception]) -> Iterator[None]:
    """Turn a database's own errors into one that fails the question being answered.

    Raises:
        RecallError: one of `errors` was raised.
    """
    try:
        yield
    except HarnessError:
        raise
    except errors as error:
        raise RecallError(f"{server} failed: {' '.join(str(error).split())}") from error


class OwnsFiles(Protocol):
    """A store whose files only one process at a time may open."""

    def let_go_if_idle(self) -> None:
        """Release the files unless a query is running; the next query reopens them."""
        ...


_owners = WeakSet[OwnsFiles]()


def locked_files(path: Path, owner: OwnsFiles, patience_s: float) -> AbstractContextManager[None]:
    """Lock the file or folder of an in-process database for as long as the result is referenced.

    While it waits, this process releases all its other files, so that no two processes wait for each other.

    Args:
        path: the file or folder.
        owner: the store to open.
        patience_s: seconds to wait.

    Raises:
        HarnessError: another process has it open.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + patience_s
    while True:
        lock = locked(path, wait=False)
        try:
            lock.__enter__()
        except LockedError:
            if time.monotonic() >= deadline:
                break
            for other in set(_owners) - {owner}:
                other.let_go_if_idle()
            time.sleep(_LOOK_S)
        else:
            _owners.add(owner)
            return lock
    waited = f" and has not released it for {patience_s:,.0f} s" if patience_s else ""
    raise HarnessError(
        f"Another process has this store open{waited}",
        where=str(path),
        fix="Wait until that process ends, or set LONGMEMEVAL_STORES_DIR to a folder of its own for this one",
    )


Side = Literal["facts", "vectors"]
"""The kind of data that a store keeps."""


class StoreKind(Struct, frozen=True):
    """One kind of store, registered in the entry-point group `longmemeval.stores`.

    A class that takes a `Namespace` and is a `FactStore` or `FactVectors` can be registered too; its class attributes
    of the same names set the fields below.
    """

    facts: Callable[[Namespace], FactStore] | None = None
    """Function that opens the facts of a history; None: it keeps no facts."""
    vectors: Callable[[Namespace], FactVectors] | None = None
    """Function that opens the vectors of a history's facts; None: it keeps no vectors."""
    is_remote: bool = False
    """True if it queries a server, so that every recall waits for it."""
    price: str = ""
    """The price of a query, in a few words; the cost of a run does not include it. Empty: free."""
    in_memory: bool = False
    """True if opening it gives a new, empty store that exists as long as the object."""

    @property
    def remark(self) -> str:
        """A description for lists of stores: the data it keeps, where, and the price."""
        sides = [side for side, opens in (("facts", self.facts), ("vectors", self.vectors)) if opens]
        return "; ".join(filter(None, [" and ".join(sides), "on a server" if self.is_remote else "", self.price]))


def _as_kind(loaded: object) -> object:
    """Turn a store class into a kind, with the class attributes that describe it."""
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
        HarnessError: there is no store of this name, it cannot be loaded, or it does not keep this side.
    """
    kind = STORES.get(name)
    if getattr(kind, side) is None:
        raise HarnessError(f"The store '{name}' does not keep {side}", fix=nearest(name, stores_of_side(side)))
    return kind


def stores_of_side(side: Side) -> list[str]:
    """Return the names of this package's stores that keep facts, or their vectors, in their order."""
    return [name for name in STORES.built_in if getattr(STORES.get(name), side)]


def _opener(module: str, name: str) -> Callable[[Namespace], Any]:
    """Return a function that opens a store of this folder; only then is the store's library imported."""

    def opens(place: Namespace) -> object:
        store: object = getattr(import_module(f"longmemeval.memory.engram.stores.{module}"), name)(place)
        return store

    return opens


EMBEDDED = StoreKind(lambda place: EmbeddedFacts(), lambda place: EmbeddedVectors(), in_memory=True)
FALKORDB = StoreKind(facts=_opener("falkordb", "FalkorDBFacts"), is_remote=True)
LADYBUG = StoreKind(facts=_opener("ladybug", "LadybugFacts"))
POSTGRES = StoreKind(_opener("postgres", "PostgresFacts"), _opener("postgres", "PostgresVectors"), is_remote=True)
QDRANT = StoreKind(vectors=_opener("qdrant", "QdrantVectors"))
LANCEDB = StoreKind(vectors=_opener("lancedb", "LanceDBVectors"))
