"""The records of the engine. All dates are naive; the clock is never read.

Two axes of time. In the world a fact holds from `valid_at` until just before `invalid_at`. In the engine a version of
it is believed from `created_at` until just before `expired_at`. Nothing is deleted when it is contradicted: its version
is closed, and another one says until when it held.
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
    """The speaker's name; empty where only the role is known."""
    text: str
    event_at: datetime
    """When it was said."""
    ingested_at: datetime
    """When the engine learned it, never before what it learned earlier. A replayed history is learned as it happens."""


class Claim(Struct, frozen=True):
    """What one episode says of a subject, before it is held against anything else."""

    kind: ClaimKind
    """`assert`: it holds from `valid_at`. `end`: it holds no longer. `retract`: it never held."""
    subject: str
    predicate: str
    object: str
    """The value; of `end` and `retract` empty where any value is meant."""
    text: str
    """As a sentence that is understood alone."""
    episode_ids: tuple[str, ...]
    """The episodes that say so, one or more (a question and its answer)."""
    valid_at: datetime
    until: datetime | None = None
    """When it ended, where the episode says so."""
    said_at: datetime | None = None
    """When it was said; None: at `valid_at`."""
    latest: datetime | None = None
    """The latest it may have begun, where the words leave that open ("last month")."""
    force: Force = "plain"
    """Whether the words announce a change ("just moved"), or a correction of what was said before ("actually")."""
    confidence: float = 1.0


class Fact(Struct, frozen=True):
    """One version of a fact."""

    version_id: str
    """`<fact id>.<number of the version>`."""
    subject: str
    predicate: str
    object: str
    text: str
    episode_ids: tuple[str, ...]
    """All episodes it was made from, in the order they were learned; never empty."""
    valid_at: datetime
    invalid_at: datetime | None
    """When it stopped to hold in the world; None: it still does."""
    created_at: datetime
    expired_at: datetime | None = None
    """When this version stopped to be believed; None: it still is."""
    supersedes: str | None = None
    """The version it replaced as the value of its slot."""
    disputed: bool = False
    """Whether it contradicts another fact of the same moment, and nothing tells which one is right."""
    salience: float = 1.0
    """Grows with every episode that says it again."""
    confidence: float = 1.0

    @property
    def fact_id(self) -> str:
        """What all its versions share."""
        return self.version_id.rpartition(".")[0]

    def holds(self, at: datetime) -> bool:
        """Whether it holds in the world at that moment."""
        return self.valid_at <= at and (self.invalid_at is None or at < self.invalid_at)

    def believed(self, at: datetime) -> bool:
        """Whether this version is believed at that moment."""
        return self.created_at <= at and (self.expired_at is None or at < self.expired_at)


def facts_at(facts: Iterable[Fact], as_of: datetime | None = None, believed_at: datetime | None = None) -> list[Fact]:
    """The facts that hold at a moment, by what was believed at another.

    Args:
        facts: versions.
        as_of: in the world; None: whenever they hold.
        believed_at: None: as believed now, by all that was learned.
    """
    return [
        fact
        for fact in facts
        if (fact.expired_at is None if believed_at is None else fact.believed(believed_at))
        and (as_of is None or fact.holds(as_of))
    ]


class Entity(Struct, frozen=True):
    """Somebody or something facts are about."""

    name: str
    aliases: tuple[str, ...]
    """What it was called before its name was known ("Anna's sister")."""
    created_at: datetime
    episode_ids: tuple[str, ...]


class Relation(Struct, frozen=True):
    """An edge between two entities: a fact whose object is one."""

    source: str
    predicate: str
    target: str
    fact: Fact
    """With the stamps of the edge."""
