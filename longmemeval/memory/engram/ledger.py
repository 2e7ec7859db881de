"""The ledger of facts: claims in, versions of facts out."""

from collections.abc import Iterable
from datetime import datetime

import msgspec

from longmemeval.memory.engram.predicates import Slot, slot_of
from longmemeval.memory.engram.records import Claim, Entity, Fact, Relation
from longmemeval.memory.engram.stores.embedded import EmbeddedFacts
from longmemeval.memory.engram.timeline import Decide, NumberedClaim, ValidityInterval, resolve_intervals, unclear


class Ledger:
    """The claims of one history and the versions of the facts that follow.

    After each claim the slot's facts are derived again from all its claims (`timeline.resolve_intervals`). Where they
    differ from what is believed, the old version is closed and a new one added. The same claims in the same order
    give the same versions.

    Args:
        decide: called for contradictions that nothing else can settle.
    """

    def __init__(self, decide: Decide = unclear) -> None:
        self.store = EmbeddedFacts()
        """The versions, from which other stores are filled."""
        self.claims: list[Claim] = []
        self._decide = decide
        self._slots: dict[Slot, list[NumberedClaim]] = {}
        self._open: dict[Slot, dict[str, Fact]] = {}
        self._versions: dict[str, int] = {}
        self._current: dict[tuple[str, str], dict[str, Fact]] = {}
        """The believed facts, by subject and predicate, then by id."""
        self._predicates: dict[str, dict[str, None]] = {}
        """The predicates of each subject, in the order in which they were first used."""
        self._naming: dict[tuple[str, str], dict[str, Fact]] = {}
        """The facts that name a person's relatives and pets, by subject and name, then by id."""

    def add(self, claim: Claim, now: datetime) -> None:
        """Add a claim.

        Args:
            claim: has at least one episode.
            now: when the engine learns it; not earlier than the last claim it learned.

        Raises:
            ValueError: the claim has no episode.
        """
        self._remember(claim)
        slot = slot_of(claim.subject, claim.predicate, claim.object)
        if claim.kind != "assert" and slot not in self._slots:
            return
        self._slots.setdefault(slot, []).append(NumberedClaim(len(self.claims), claim))
        self._rewrite(slot, now)

    def restore(self, claims: Iterable[Claim], versions: Iterable[Fact]) -> None:
        """Load a stored state into an empty ledger, which continues from there."""
        for claim in claims:
            self._remember(claim)
            slot = slot_of(claim.subject, claim.predicate, claim.object)
            if claim.kind == "assert" or slot in self._slots:
                self._slots.setdefault(slot, []).append(NumberedClaim(len(self.claims), claim))
        for fact in versions:
            self.store.append([fact], len(self.store))
            self._versions[fact.fact_id] = self._versions.get(fact.fact_id, 0) + 1
            if fact.expired_at is None:
                self._hold(slot_of(fact.subject, fact.predicate, fact.object), fact)

    def current(self, subject: str, predicate: str) -> list[Fact]:
        """Return the believed facts about a subject under one predicate."""
        return list(self._current.get((subject, predicate), {}).values())

    def held(self, subject: str, prefixes: tuple[str, ...]) -> list[Fact]:
        """Return the believed facts about a subject that have not ended, of predicates with one of these prefixes."""
        names = [predicate for predicate in self._predicates.get(subject, ()) if predicate.startswith(prefixes)]
        return [fact for name in names for fact in self.current(subject, name) if fact.invalid_at is None]

    def facts_naming(self, owner: str, name: str) -> list[Fact]:
        """Return the facts that give a person a relative or a pet of that name."""
        return [fact for fact in self._naming.get((owner, name), {}).values() if fact.invalid_at is None]

    def knows(self, subject: str) -> bool:
        """Return whether anything was ever claimed about a subject."""
        return subject in self._predicates

    def _remember(self, claim: Claim) -> None:
        if not claim.episode_ids:
            raise ValueError("a claim needs at least one episode, its source")
        self.claims.append(claim)

    def _rewrite(self, slot: Slot, now: datetime) -> None:
        open_facts = self._open.setdefault(slot, {})
        intervals = resolve_intervals(self._slots[slot], self._decide)
        ids = {interval.fact_id for interval in intervals}
        for dropped in [fact_id for fact_id in open_facts if fact_id not in ids]:
            self._close(open_facts.pop(dropped), now)
        for interval in intervals:
            before = open_facts.get(interval.fact_id)
            if before is not None and _says(before, interval):
                continue
            if before is not None:
                self._close(before, now)
            number = self._versions[interval.fact_id] = self._versions.get(interval.fact_id, 0) + 1
            replaced = open_facts.get(interval.supersedes) if interval.supersedes else None
            fact = _version(interval, number, replaced, now)
            self._hold(slot, fact)
            self.store.append([fact], len(self.store))

    def _hold(self, slot: Slot, fact: Fact) -> None:
        self._open.setdefault(slot, {})[fact.fact_id] = fact
        self._current.setdefault((fact.subject, fact.predicate), {})[fact.fact_id] = fact
        self._predicates.setdefault(fact.subject, {})[fact.predicate] = None
        if fact.predicate.startswith(("relative:", "pet:")):
            self._naming.setdefault((fact.subject, fact.object), {})[fact.fact_id] = fact

    def _close(self, fact: Fact, now: datetime) -> None:
        del self._current[fact.subject, fact.predicate][fact.fact_id]
        self._naming.get((fact.subject, fact.object), {}).pop(fact.fact_id, None)
        self.store.expire([msgspec.structs.replace(fact, expired_at=now)])

    def entities(self) -> list[Entity]:
        """Return the people and things that facts are about, in the order of their first mention."""
        found: dict[str, Entity] = {}
        for fact in self.store.versions():
            known = found.get(fact.subject) or Entity(fact.subject, (), fact.created_at, ())
            episodes = tuple(dict.fromkeys((*known.episode_ids, *fact.episode_ids)))
            found[fact.subject] = msgspec.structs.replace(known, episode_ids=episodes)
        for fact in self.store.versions():
            kind, _, about = fact.predicate.partition(":")
            if kind in ("relative", "pet") and fact.expired_at is None:
                alias = f"{fact.subject}'s {about}"
                known = found.get(fact.object) or Entity(fact.object, (), fact.created_at, fact.episode_ids)
                unnamed = found.pop(alias, known)
                episodes = tuple(dict.fromkeys((*unnamed.episode_ids, *known.episode_ids)))
                found[fact.object] = Entity(
                    fact.object, (*known.aliases, alias), min(known.created_at, unnamed.created_at), episodes
                )
        return list(found.values())

    def relations(self) -> list[Relation]:
        """Return the edges between entities, one per version of a fact."""
        names = {entity.name for entity in self.entities()}
        facts = [fact for fact in self.store.versions() if fact.object in names]
        return [Relation(fact.subject, fact.predicate, fact.object, fact) for fact in facts]

    def aliases_of(self, name: str) -> list[str]:
        """Return all names of the entity called `name`, compared without regard to case; else `name` alone."""
        wanted = name.casefold()
        for entity in self.entities():
            names = (entity.name, *entity.aliases)
            if wanted in (known.casefold() for known in names):
                return list(names)
        return [name]


def _says(fact: Fact, interval: ValidityInterval) -> bool:
    replaced = fact.supersedes.rpartition(".")[0] if fact.supersedes else None
    return (
        (fact.object, fact.text, fact.episode_ids) == (interval.claim.object, interval.claim.text, interval.episode_ids)
        and (fact.valid_at, fact.invalid_at, fact.disputed)
        == (interval.valid_at, interval.invalid_at, interval.disputed)
        and replaced == interval.supersedes
        and fact.salience == interval.claim_count
    )


def _version(interval: ValidityInterval, number: int, replaced: Fact | None, now: datetime) -> Fact:
    claim = interval.claim
    return Fact(
        version_id=f"{interval.fact_id}.{number}",
        subject=claim.subject,
        predicate=claim.predicate,
        object=claim.object,
        text=claim.text,
        episode_ids=interval.episode_ids,
        valid_at=interval.valid_at,
        invalid_at=interval.invalid_at,
        created_at=now,
        supersedes=replaced.version_id if replaced else None,
        disputed=interval.disputed,
        salience=float(interval.claim_count),
        confidence=claim.confidence,
    )
