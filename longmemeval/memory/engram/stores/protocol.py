"""The protocols of stores, and code that several stores share."""

from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import datetime
from typing import NamedTuple, Protocol

from longmemeval.core.arrays import Vector, Vectors
from longmemeval.memory.engram.records import Fact

Names = Collection[str] | None
"""Names to filter by; None: no filter."""


class When(NamedTuple):
    """A moment on each axis of time, naive."""

    as_of: datetime | None = None
    """The moment in the world; None: any at which a fact holds."""
    believed_at: datetime | None = None
    """The moment of belief; None: now, after everything learned."""


NOW = When()


class FactStore(Protocol):
    """Versions of facts, append-only except for the moment a version expires; the names they connect form a graph."""

    def append(self, facts: Sequence[Fact], first: int) -> None:
        """Add versions; existing ones are left unchanged.

        Args:
            facts: versions in the order they were learned.
            first: the position of the first of them among all versions.
        """
        ...

    def expire(self, facts: Sequence[Fact]) -> None:
        """Record when versions expired: each is an existing version, with `expired_at`."""
        ...

    def versions(self, subjects: Names = None, predicate: str | None = None) -> list[Fact]:
        """Return all versions in the order they were added: the history of a slot, or of everything.

        Args:
            subjects: names; None: all.
            predicate: also matches with anything after a colon (`count`: `count:bikes`); None: all.
        """
        ...

    def facts(self, subjects: Names = None, predicate: str | None = None, when: When = NOW) -> list[Fact]:
        """Return the versions that hold and are believed, in the order they were added."""
        ...

    def distances(self, names: Iterable[str], hops: int, when: When = NOW) -> dict[str, int]:
        """Return each name that such facts connect with one of `names`, with its distance, up to `hops`."""
        ...

    def remove(self) -> None:
        """Delete the namespace completely. The store can be filled again."""
        ...

    def close(self) -> None:
        """Release files, so that another process may open them; the next use reopens them."""
        ...


class FactVectors(Protocol):
    """Vectors of length 1 for versions of facts, searched by their inner product, exactly."""

    def add(self, facts: Sequence[Fact], vectors: Vectors, first: int) -> None:
        """Add versions as `FactStore.append` does; `vectors` has the shape (versions, dimension)."""
        ...

    def expire(self, facts: Sequence[Fact]) -> None:
        """Record when versions expired."""
        ...

    def held(self) -> dict[str, tuple[str, datetime | None]]:
        """Return the `digest` and expiry of each version, in the order they were added."""
        ...

    def search(self, vector: Vector, limit: int, when: When = NOW, ids: Names = None) -> list[tuple[str, float]]:
        """Return the nearest versions that hold and are believed, best first, with their inner products.

        Args:
            vector: shape (dimension,).
            limit: maximum number of hits.
            when: moments that select the versions.
            ids: only these versions; None: all.
        """
        ...

    def remove(self) -> None:
        """Delete the namespace completely. The store can be filled again."""
        ...

    def close(self) -> None:
        """Release files, so that another process may open them; the next use reopens them."""
        ...


def breadth_first(
    names: Iterable[str], hops: int, edges: Callable[[list[str]], Iterable[tuple[str, str]]]
) -> dict[str, int]:
    """Compute `FactStore.distances` for a database that is queried hop by hop.

    Args:
        names: the starting points; those without an edge are left out.
        hops: the largest distance.
        edges: returns the pairs of names, in either order, with one end among the given names.
    """
    found: dict[str, int] = {}
    frontier = set(names)
    for distance in range(max(hops, 1)):
        near = set[str]()
        for pair in edges(sorted(frontier)) if frontier else ():
            for near_end, far_end in (pair, pair[::-1]):
                if near_end in frontier:
                    found.setdefault(near_end, distance)
                    near.add(far_end)
        frontier = near - found.keys() if hops else set()
        found |= dict.fromkeys(frontier, distance + 1)
    return found
