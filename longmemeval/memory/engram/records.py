"""The records of the engine. All dates are naive; the clock is never read.

There are two axes of time. In the world, a fact holds from `valid_at` until just before `invalid_at`. In the engine, a
version of it is believed from `created_at` until just before `expired_at`. A contradicted fact is not deleted: its
version is closed, and a new version records until when the fact held.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Literal

from msgspec import Struct

ClaimKind = Literal["assert", "end", "retract"]
Force = Literal["plain", "change", "correction"]


class Episode(Struct, frozen=True):
    """One message, word for word."""

    episode_id: str
    session_id: str
    role: str
    speaker: str
    """The speaker's name; empty if only the role is known."""
    text: str
    event_at: datetime
    """The moment it was said."""
    ingested_at: datetime
    """The moment the engine learned it, never before earlier episodes. A replayed history is learned as it happens."""


class Claim(Struct, frozen=True):
    """A statement of one episode about a subject, not yet compared with others."""

    kind: ClaimKind
    """`assert`: it holds from `valid_at` on. `end`: it no longer holds. `retract`: it never held."""
    subject: str
    predicate: str
    object: str
    """The value; empty for an `end` or `retract` of any value."""
    text: str
    """The statement as a sentence that can be understood alone."""
    episode_ids: tuple[str, ...]
    """The episodes that support it, at least one; two for a question and its answer."""
    valid_at: datetime
    until: datetime | None = None
    """The moment it ended, if the episode names one."""
    said_at: datetime | None = None
    """The moment it was said; None: `valid_at`."""
    latest: datetime | None = None
    """The latest moment it may have begun, if the words leave that open ("last month")."""
    force: Force = "plain"
    """The force of the words: `change` ("just moved"), or `correction` of an earlier claim ("actually")."""
    confidence: float = 1.0


class Fact(Struct, frozen=True):
    """One version of a fact."""

    version_id: str
    """The id, `<fact id>.<number of the version>`."""
    subject: str
    predicate: str
    object: str
    text: str
    episode_ids: tuple[str, ...]
    """All episodes it follows from, in the order in which they were learned; never empty."""
    valid_at: datetime
    invalid_at: datetime | None
    """The moment it stopped holding in the world; None: it still holds."""
    created_at: datetime
    expired_at: datetime | None = None
    """The moment this version stopped being believed; None: it still is."""
    supersedes: str | None = None
    """The version it replaced as the value of its slot."""
    disputed: bool = False
    """True if it contradicts another fact of the same moment, and there is no evidence which one is right."""
    salience: float = 1.0
    """A weight that grows with every episode that repeats the fact."""
    confidence: float = 1.0

    @property
    def fact_id(self) -> str:
        """The id that all versions of the fact share."""
        return self.version_id.rpartition(".")[0]

    def holds(self, at: datetime) -> bool:
        """Return whether it holds in the world at that moment."""
        return self.valid_at <= at and (self.invalid_at is None or at < self.invalid_at)

    def believed(self, at: datetime) -> bool:
        """Return whether this version is believed at that moment."""
        return self.created_at <= at and (self.expired_at is None or at < self.expired_at)


def facts_at(facts: Iterable[Fact], as_of: datetime | None = None, believed_at: datetime | None = None) -> list[Fact]:
    """Return the facts that hold at one moment, as believed at another.

    Args:
        facts: versions.
        as_of: the moment in the world; None: any.
        believed_at: the moment of belief; None: now, after everything learned.
    """
    return [
        fact
        for fact in facts
        if (fact.expired_at is None if believed_at is None else fact.believed(believed_at))
        and (as_of is None or fact.holds(as_of))
    ]


class Entity(Struct, frozen=True):
    """A person or thing that facts are about."""

    name: str
    aliases: tuple[str, ...]
    """Names used before the proper one was known ("Anna's sister")."""
    created_at: datetime
    episode_ids: tuple[str, ...]


class Relation(Struct, frozen=True):
    """An edge between two entities: a fact whose object is an entity."""

    source: str
    predicate: str
    target: str
    fact: Fact
    """The fact, with the time stamps of the edge."""
