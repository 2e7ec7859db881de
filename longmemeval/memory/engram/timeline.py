"""Resolve the claims on one slot into the facts that follow from them: the conflict cascade.

The beliefs about a slot are a function of the claims made so far, ordered by the time they refer to. So a claim that
arrives late is inserted in the past and does not end anything after it, a retracted mistake leaves no trace, and the
intervals of a slot with one value at a time never overlap.

The cascade, cheapest step first:

1. the same value, or the same with more or fewer details: no conflict, the fact gains an episode;
2. another value at another moment: the earlier one ends when the later one begins; only an explicit correction
   ("actually, …") voids what it contradicts, which then never held. Correcting the date of a known value moves the
   beginning of its interval, and leaves what came after it alone;
3. another value at the same moment: the later claim wins if its words announce a change. Otherwise both are kept side
   by side and the newer one is marked as disputed, unless `decide` finds that it replaces the older one, says the same,
   or holds alongside it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

import msgspec
from msgspec import Struct

from longmemeval.memory.engram.parameters import Slot, is_elaboration, slot_of, value_of
from longmemeval.memory.engram.records import Claim, Entity, Fact, Relation
from longmemeval.memory.engram.stores.embedded import EmbeddedFacts

Verdict = Literal["update", "same", "both", "unclear"]
Decide = Callable[[Claim, Claim], Verdict]
"""A function that decides, for an older and a newer claim on one slot and moment, whether the newer one replaces the
older one, says the same or holds alongside it; "unclear" if it cannot decide. Both are then kept side by side."""


class NumberedClaim(Struct, frozen=True):
    """A claim with its number in the order of learning."""

    number: int
    claim: Claim


class ValidityInterval(Struct, frozen=True):
    """A fact without times of belief: the value of one slot from one moment to another."""

    fact_id: str
    claim: Claim
    """The claim whose words are shown: the most detailed one."""
    episode_ids: tuple[str, ...]
    valid_at: datetime
    invalid_at: datetime | None
    supersedes: str | None
    """The id of the fact it replaced."""
    disputed: bool
    claim_count: int
    """The number of claims that support it."""


def unclear(older: Claim, newer: Claim) -> Verdict:
    """Return "unclear": the `Decide` that never decides."""
    return "unclear"


@dataclass
class _Open:
    """An interval under construction."""

    claims: list[NumberedClaim]
    valid_at: datetime
    invalid_at: datetime | None = None
    supersedes: "_Open | None" = None
    beside: bool = False
    """True if it holds alongside the value of its slot."""
    disputed: bool = False
    """True if it is `beside` another value and there is no evidence that both may hold."""
    ended: bool = False
    shown: Claim = field(init=False)

    def __post_init__(self) -> None:
        self.shown = self.claims[0].claim

    def join(self, numbered: NumberedClaim) -> None:
        self.claims.append(numbered)
        if len(numbered.claim.object) > len(self.shown.object):
            self.shown = numbered.claim
        if numbered.claim.until is not None:
            self.end(numbered.claim.until)

    def end(self, at: datetime) -> None:
        self.invalid_at = max(self.valid_at, at if self.invalid_at is None else min(at, self.invalid_at))
        self.ended = True

    @property
    def fact_id(self) -> str:
        return f"f{min(numbered.number for numbered in self.claims)}"

    def reaches(self, claim: Claim) -> bool:
        return self.invalid_at is None or claim.valid_at < self.invalid_at

    def says(self, claim: Claim) -> bool:
        return _same(self.shown, claim)

    def close(self) -> ValidityInterval:
        in_order = sorted(self.claims, key=lambda numbered: numbered.number)
        episodes = dict.fromkeys(episode for numbered in in_order for episode in numbered.claim.episode_ids)
        return ValidityInterval(
            self.fact_id,
            self.shown,
            tuple(episodes),
            self.valid_at,
            self.invalid_at,
            self.supersedes.fact_id if self.supersedes else None,
            self.disputed,
            len(self.claims),
        )


def resolve_intervals(claims: Sequence[NumberedClaim], decide: Decide = unclear) -> list[ValidityInterval]:
    """Return the facts that follow from the claims on one slot, in the order of the time they refer to.

    Args:
        claims: in the order of learning.
        decide: called if two values are claimed for the same moment and their words do not show which one is right.
    """
    left, wrong_dates = _without_wrong_dates(claims)
    valid, void = _corrected(_placed(_not_retracted(left)), wrong_dates)
    intervals: list[_Open] = []
    current: _Open | None = None
    for numbered in sorted(valid, key=lambda numbered: (numbered.claim.valid_at, numbered.number)):
        claim = numbered.claim
        if claim.kind == "end":
            _end(intervals, claim)
            continue
        beside = next((held for held in intervals if held.beside and not held.ended and held.says(claim)), None)
        if current is None:
            current = _begin(intervals, numbered, None)
        elif current.reaches(claim) and current.says(claim):
            current.join(numbered)
        elif beside and beside.claims[-1].claim.valid_at == claim.valid_at:
            beside.join(numbered)
        elif not current.ended and current.claims[-1].claim.valid_at == claim.valid_at and claim.force == "plain":
            verdict = decide(current.shown, claim)
            if verdict == "same":
                current.join(numbered)
            elif verdict == "update":
                current = _begin(intervals, numbered, current)
            else:
                _begin(intervals, numbered, None, beside=True).disputed = verdict == "unclear"
        else:
            current = _begin(intervals, numbered, current)
    voided = [_Open([numbered], numbered.claim.valid_at, numbered.claim.valid_at) for numbered in void]
    return [interval.close() for interval in (*voided, *intervals)]


def _said_at(claim: Claim) -> datetime:
    return claim.said_at or claim.valid_at


def _placed(claims: Sequence[NumberedClaim]) -> list[NumberedClaim]:
    """Move claims with an open beginning to after earlier statements of another value.

    "I moved last month" said in March, after "I live here" said in mid-February: the move came later. So did the end in
    "I left last month".
    """
    placed = []
    for numbered in claims:
        claim = numbered.claim
        if claim.kind == "end" and claim.latest and any(_is_within(other.claim, claim) for other in claims):
            claim = msgspec.structs.replace(claim, valid_at=claim.latest)
        elif claim.kind == "assert" and claim.latest and claim.force != "correction":
            conflicting = [
                other.claim.valid_at
                for other in claims
                if other.claim.kind == "assert"
                and not _same(other.claim, claim)
                and claim.valid_at <= other.claim.valid_at < claim.latest
                and _said_at(other.claim) < _said_at(claim)
            ]
            if conflicting:
                claim = msgspec.structs.replace(claim, valid_at=claim.latest)
        placed.append(NumberedClaim(numbered.number, claim))
    return placed


def _is_within(claim: Claim, end: Claim) -> bool:
    """Return whether an end refers to a claim that begins within the days that the end leaves open."""
    meant = not end.object or _same(claim, end)
    return claim.kind == "assert" and meant and end.valid_at <= claim.valid_at < (end.latest or end.valid_at)


def _without_wrong_dates(claims: Sequence[NumberedClaim]) -> tuple[list[NumberedClaim], dict[int, datetime]]:
    """Remove the claims whose date was wrong according to a correction, and the retractions that go with it.

    "Actually, I moved to Lisbon in February" after "I moved to Lisbon in March": of several stays the nearest one is
    meant, and the others stay valid. A statement about today ("actually, I live in Lisbon") is no such correction.

    Returns:
        The remaining claims, and the wrong date by the number of each correction.
    """
    left, wrong_dates = list(claims), dict[int, datetime]()
    for numbered in claims:
        claim = numbered.claim
        if claim.kind != "assert" or claim.force != "correction" or claim.valid_at >= _said_at(claim):
            continue
        before = [other for other in left if other.number < numbered.number and _same(other.claim, claim)]
        known = [other for other in before if other.claim.kind == "assert" and other.claim.valid_at != claim.valid_at]
        if not known:
            continue
        # Correct the claim that says when it began, rather than a claim that only mentions it.
        wrong = min(
            known, key=lambda other: (other.claim.force == "plain", abs(other.claim.valid_at - claim.valid_at))
        ).claim.valid_at
        wrong_dates[numbered.number] = wrong
        gone = {
            other.number
            for other in before
            if other.claim.valid_at == wrong
            or wrong <= other.claim.valid_at < claim.valid_at
            or (other.claim.kind == "retract" and other.claim.episode_ids == claim.episode_ids)
        }
        left = [other for other in left if other.number not in gone]
    return left, wrong_dates


def _corrected(
    claims: Sequence[NumberedClaim], wrong_dates: Mapping[int, datetime]
) -> tuple[list[NumberedClaim], list[NumberedClaim]]:
    """Return the claims that stay valid, and those that a later correction voids."""
    corrections = [other for other in claims if other.claim.kind == "assert" and other.claim.force == "correction"]

    def is_void(numbered: NumberedClaim) -> bool:
        claim = numbered.claim
        return claim.kind == "assert" and any(
            other.number > numbered.number
            and _said_at(other.claim) >= _said_at(claim)
            and other.claim.valid_at <= claim.valid_at
            and claim.valid_at < wrong_dates.get(other.number, datetime.max)
            and not _same(other.claim, claim)
            for other in corrections
        )

    void = [numbered for numbered in claims if is_void(numbered)]
    numbers = {numbered.number for numbered in void}
    return [numbered for numbered in claims if numbered.number not in numbers], void


def _begin(intervals: list[_Open], numbered: NumberedClaim, before: _Open | None, beside: bool = False) -> _Open:
    """Add a new interval, which ends those before it unless it holds alongside them."""
    fresh = _Open([numbered], numbered.claim.valid_at, supersedes=before, beside=beside)
    if not beside:
        for held in intervals:
            if held.invalid_at is None or held.invalid_at > fresh.valid_at:
                held.invalid_at = max(held.valid_at, fresh.valid_at)
                held.ended = True
    intervals.append(fresh)
    if numbered.claim.until is not None:
        fresh.end(numbered.claim.until)
    return fresh


def _end(intervals: list[_Open], claim: Claim) -> None:
    for held in reversed(intervals):
        if not held.ended and (not claim.object or held.says(claim)):
            held.end(claim.valid_at)
            return


def _not_retracted(claims: Sequence[NumberedClaim]) -> list[NumberedClaim]:
    """Return the claims that stay valid: a retraction voids earlier claims of its value, or else of the newest one."""
    left: list[NumberedClaim] = []
    for numbered in claims:
        if numbered.claim.kind != "retract":
            left.append(numbered)
            continue
        asserted = [held for held in left if held.claim.kind == "assert"]
        wrong = numbered.claim if numbered.claim.object else (asserted[-1].claim if asserted else None)
        if wrong is not None:
            left = [held for held in left if held.claim.kind != "assert" or not _same(held.claim, wrong)]
    return left


def _same(claim: Claim, other: Claim) -> bool:
    values = [value_of(compared.predicate, compared.object) for compared in (claim, other)]
    if values[0] == values[1]:
        return True
    if other.force == "change":
        return False  # "Promoted to senior editor" is not just a detail of "editor".
    return claim.predicate == other.predicate and is_elaboration(claim.predicate, *values)


# The ledger of facts: claims in, versions of facts out.


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
