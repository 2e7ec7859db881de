"""Where facts are kept: a small protocol, and the embedded store behind it.

A store keeps and finds; what is believed is the ledger's business. Another store (a graph database, say) is a class
with these methods. Vectors are those of the harness's own vector store.
"""

from collections import deque
from collections.abc import Iterable
from typing import Protocol

import msgspec

from longmemeval.memory.engram.records import Fact


class FactStore(Protocol):
    """Versions of facts, append-only but for the date a version expires."""

    def append(self, fact: Fact) -> None:
        """Add a version."""
        ...

    def close(self, version_id: str, fact: Fact) -> None:
        """Put `fact`, the same version with `expired_at`, in the place of the open one."""
        ...

    def versions(self, subjects: Iterable[str] | None = None) -> list[Fact]:
        """All versions, of some subjects or of all, in the order they were added."""
        ...

    def distances(self, names: Iterable[str], hops: int) -> dict[str, int]:
        """The graph: each name that facts connect with one of `names`, with its distance, up to `hops`."""
        ...


class EmbeddedFacts:
    """Facts in memory. The graph is an adjacency of names: breadth-first search needs no library."""

    def __init__(self) -> None:
        self._rows: dict[str, Fact] = {}
        self._by_subject: dict[str, list[str]] = {}
        self._edges: dict[str, dict[str, None]] = {}

    def append(self, fact: Fact) -> None:
        """Add a version."""
        self._rows[fact.version_id] = fact
        self._by_subject.setdefault(fact.subject, []).append(fact.version_id)
        for one, other in ((fact.subject, fact.object), (fact.object, fact.subject)):
            self._edges.setdefault(one, {})[other] = None

    def close(self, version_id: str, fact: Fact) -> None:
        """Replace the open version by the same with `expired_at`.

        Raises:
            ValueError: it is closed already, or more than its expiry differs.
        """
        if msgspec.structs.replace(fact, expired_at=None) != self._rows[version_id]:
            raise ValueError(f"version {version_id} may be closed once and changed never")
        self._rows[version_id] = fact

    def versions(self, subjects: Iterable[str] | None = None) -> list[Fact]:
        """All versions, of some subjects or of all, in the order they were added."""
        if subjects is None:
            return list(self._rows.values())
        return [self._rows[one] for subject in dict.fromkeys(subjects) for one in self._by_subject.get(subject, ())]

    def distances(self, names: Iterable[str], hops: int) -> dict[str, int]:
        """Names within `hops` of one of `names`, breadth first."""
        found = {name: 0 for name in names if name in self._edges}
        queue = deque(found)
        while queue:
            name = queue.popleft()
            if found[name] < hops:
                for other in self._edges[name]:
                    if other not in found:
                        found[other] = found[name] + 1
                        queue.append(other)
        return found
