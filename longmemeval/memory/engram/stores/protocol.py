"""What a store must offer, and what all of them do alike."""

from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import datetime
from typing import NamedTuple, Protocol

from longmemeval.core.arrays import Vector, Vectors
from longmemeval.memory.engram.records import Fact

Names = Collection[str] | None
"""None: all there are."""


class When(NamedTuple):
    """A moment on each axis of time, naive."""

    as_of: datetime | None = None
    """In the world; None: whenever a fact holds."""
    believed_at: datetime | None = None
    """Of belief; None: as believed now, by all that was learned."""


NOW = When()


class FactStore(Protocol):
    """Versions of facts, append-only but for the moment a version expires; the names they connect are a graph."""

    def append(self, facts: Sequence[Fact], first: int) -> None:
        """Add versions; one that is there already stays as it is.

        Args:
            facts: in the order they were learned.
            first: the place of the first of them among all versions.
        """
        ...

    def expire(self, facts: Sequence[Fact]) -> None:
        """Note when versions expired: each is one that is there, with `expired_at`."""
        ...

    def versions(self, subjects: Names = None, predicate: str | None = None) -> list[Fact]:
        """All versions in the order they were added: the history of a slot, or of everything.

        Args:
            subjects: names; None: all.
            predicate: also with anything behind a colon (`count`: `count:bikes`); None: all.
        """
        ...

    def facts(self, subjects: Names = None, predicate: str | None = None, when: When = NOW) -> list[Fact]:
        """The versions that hold and are believed, in the order they were added."""
        ...

    def distances(self, names: Iterable[str], hops: int, when: When = NOW) -> dict[str, int]:
        """Each name that such facts connect with one of `names`, with its distance, up to `hops`."""
        ...

    def remove(self) -> None:
        """Delete the namespace: nothing of it is left. The store can be filled again."""
        ...

    def close(self) -> None:
        """Let go of files, so that another process may open them; the next use opens them again."""
        ...


class FactVectors(Protocol):
    """Vectors of length 1 for versions of facts, searched by their inner product, exactly."""

    def add(self, facts: Sequence[Fact], vectors: Vectors, first: int) -> None:
        """Add versions, as `FactStore.append`; `vectors` has the shape (versions, dimension)."""
        ...

    def expire(self, facts: Sequence[Fact]) -> None:
        """Note when versions expired."""
        ...

    def held(self) -> dict[str, tuple[str, datetime | None]]:
        """Of each version, in the order they were added, what `digest` gives and when it expired."""
        ...

    def search(self, vector: Vector, limit: int, when: When = NOW, ids: Names = None) -> list[tuple[str, float]]:
        """The nearest versions that hold and are believed, best first, with their inner products.

        Args:
            vector: shape (dimension,).
            limit: most hits.
            when: which are looked at.
            ids: only these versions; None: all.
        """
        ...

    def remove(self) -> None:
        """Delete the namespace: nothing of it is left. The store can be filled again."""
        ...

    def close(self) -> None:
        """Let go of files, so that another process may open them; the next use opens them again."""
        ...


def breadth_first(
    names: Iterable[str], hops: int, edges: Callable[[list[str]], Iterable[tuple[str, str]]]
) -> dict[str, int]:
    """`FactStore.distances` for a database that is asked for one step after the other.

    Args:
        names: where to begin; those without an edge are left out.
        hops: most steps.
        edges: the pairs of names, in either order, of which one end is among those given.
    """
    found: dict[str, int] = {}
    frontier = set(names)
    for distance in range(max(hops, 1)):
        near = set[str]()
        for pair in edges(sorted(frontier)) if frontier else ():
            for one, other in (pair, pair[::-1]):
                if one in frontier:
                    found.setdefault(one, distance)
                    near.add(other)
        frontier = near - found.keys() if hops else set()
        found |= dict.fromkeys(frontier, distance + 1)
    return found
