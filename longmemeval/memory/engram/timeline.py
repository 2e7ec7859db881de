"""From the claims on one slot to the facts that follow from them: the conflict cascade.

What is believed of a slot is a function of the claims made so far, taken in the order of the time they speak of. So a
claim that arrives late finds its place in the past and ends nothing that came after it, a mistake that is taken back
leaves no trace in what is believed, and for a slot with one value at a time the resolve_intervals never overlap.

The cascade, cheapest step first:

1. the same value, or the same with more or fewer details: no conflict, the fact gains an episode;
2. another value of another moment: the earlier one ends when the later one begins; only a correction in so many words
   ("actually, …") makes void what it finds in its way, which then never held. One that gives a known value another date
   moves the beginning of that stretch, and leaves what came after it alone;
3. another value of the same moment: the later claim wins where its words announce a change, else both are kept side by
   side and the newer one is marked, unless somebody can tell: it replaces the older one, says the same, or holds beside
   it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

import msgspec
from msgspec import Struct

from longmemeval.memory.engram.predicates import is_elaboration, value_of
from longmemeval.memory.engram.records import Claim

Verdict = Literal["update", "same", "both", "unclear"]
Decide = Callable[[Claim, Claim], Verdict]
"""Of an older and a newer claim on one slot and moment: does the newer one replace the older one, say the same, or hold
beside it? Who cannot tell says "unclear"; both are then kept side by side as well."""


class NumberedClaim(Struct, frozen=True):
    """A claim with its number in the order of learning."""

    number: int
    claim: Claim


class ValidityInterval(Struct, frozen=True):
    """A fact without stamps of belief: what one slot says from one moment to another."""

    fact_id: str
    claim: Claim
    """The one whose words are shown: the most detailed."""
    episode_ids: tuple[str, ...]
    valid_at: datetime
    invalid_at: datetime | None
    supersedes: str | None
    """The fact it replaced."""
    disputed: bool
    told: int
    """How many claims say so."""


def unclear(older: Claim, newer: Claim) -> Verdict:
    """Who cannot tell."""
    return "unclear"


@dataclass
class _Open:
    """A stretch under construction."""

    claims: list[NumberedClaim]
    valid_at: datetime
    invalid_at: datetime | None = None
    supersedes: "_Open | None" = None
    beside: bool = False
    """Whether it stands side by side with the value of its slot."""
    disputed: bool = False
    """Of one that does: whether nothing tells that it may."""
    ended: bool = False
    shown: Claim = field(init=False)

    def __post_init__(self) -> None:
        self.shown = self.claims[0].claim

    def join(self, one: NumberedClaim) -> None:
        self.claims.append(one)
        if len(one.claim.object) > len(self.shown.object):
            self.shown = one.claim
        if one.claim.until is not None:
            self.end(one.claim.until)

    def end(self, at: datetime) -> None:
        self.invalid_at = max(self.valid_at, at if self.invalid_at is None else min(at, self.invalid_at))
        self.ended = True

    @property
    def fact_id(self) -> str:
        return f"f{min(one.number for one in self.claims)}"

    def reaches(self, claim: Claim) -> bool:
        return self.invalid_at is None or claim.valid_at < self.invalid_at

    def says(self, claim: Claim) -> bool:
        return _same(self.shown, claim)

    def close(self) -> ValidityInterval:
        in_order = sorted(self.claims, key=lambda one: one.number)
        episodes = dict.fromkeys(episode for one in in_order for episode in one.claim.episode_ids)
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
    """What follows from the claims on one slot, in the order of the time they speak of.

    Args:
        claims: in the order of learning.
        decide: asked where two values are claimed of the same moment and no word tells which one is right.
    """
    left, wrong_dates = _moved(claims)
    standing, void = _corrected(_placed(_not_retracted(left)), wrong_dates)
    made: list[_Open] = []
    current: _Open | None = None
    for one in sorted(standing, key=lambda one: (one.claim.valid_at, one.number)):
        claim = one.claim
        if claim.kind == "end":
            _end(made, claim)
            continue
        beside = next((held for held in made if held.beside and not held.ended and held.says(claim)), None)
        if current is None:
            current = _begin(made, one, None)
        elif current.reaches(claim) and current.says(claim):
            current.join(one)
        elif beside and beside.claims[-1].claim.valid_at == claim.valid_at:
            beside.join(one)
        elif not current.ended and current.claims[-1].claim.valid_at == claim.valid_at and claim.force == "plain":
            verdict = decide(current.shown, claim)
            if verdict == "same":
                current.join(one)
            elif verdict == "update":
                current = _begin(made, one, current)
            else:
                _begin(made, one, None, beside=True).disputed = verdict == "unclear"
        else:
            current = _begin(made, one, current)
    return [held.close() for held in (*(_Open([one], one.claim.valid_at, one.claim.valid_at) for one in void), *made)]


def _said_at(claim: Claim) -> datetime:
    return claim.said_at or claim.valid_at


def _placed(claims: Sequence[NumberedClaim]) -> list[NumberedClaim]:
    """The claims, those whose words leave open when they began placed behind what was said of another value before.

    "I moved last month" said in March, after "I live here" said in mid-February: the move was after that.
    """
    placed = []
    for one in claims:
        claim = one.claim
        if claim.kind == "assert" and claim.latest and claim.force != "correction":
            in_the_way = [
                other.claim.valid_at
                for other in claims
                if other.claim.kind == "assert"
                and not _same(other.claim, claim)
                and claim.valid_at <= other.claim.valid_at < claim.latest
                and _said_at(other.claim) < _said_at(claim)
            ]
            if in_the_way:
                claim = msgspec.structs.replace(claim, valid_at=claim.latest)
        placed.append(NumberedClaim(one.number, claim))
    return placed


def _moved(claims: Sequence[NumberedClaim]) -> tuple[list[NumberedClaim], dict[int, datetime]]:
    """Take out the claims whose date a correction says was wrong, and the retractions that said so.

    "Actually, I moved to Lisbon in February" after "I moved to Lisbon in March": of several stays the nearest is meant,
    and the others stand. What is said of today ("actually, I live in Lisbon") is no such correction.

    Returns:
        The claims that are left, and the wrong date by the number of each correction.
    """
    left, wrong_dates = list(claims), dict[int, datetime]()
    for one in claims:
        claim = one.claim
        if claim.kind != "assert" or claim.force != "correction" or claim.valid_at >= _said_at(claim):
            continue
        before = [other for other in left if other.number < one.number and _same(other.claim, claim)]
        known = [other for other in before if other.claim.kind == "assert" and other.claim.valid_at != claim.valid_at]
        if not known:
            continue
        # Who says when it began is corrected, rather than who mentions it on the way.
        wrong = min(
            known, key=lambda other: (other.claim.force == "plain", abs(other.claim.valid_at - claim.valid_at))
        ).claim.valid_at
        wrong_dates[one.number] = wrong
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
    """Return the claims that stand, and those that a correction said later leaves no room for."""
    corrections = [one for one in claims if one.claim.kind == "assert" and one.claim.force == "correction"]

    def is_void(one: NumberedClaim) -> bool:
        claim = one.claim
        return claim.kind == "assert" and any(
            other.number > one.number
            and _said_at(other.claim) >= _said_at(claim)
            and other.claim.valid_at <= claim.valid_at
            and claim.valid_at < wrong_dates.get(other.number, datetime.max)
            and not _same(other.claim, claim)
            for other in corrections
        )

    void = [one for one in claims if is_void(one)]
    numbers = {one.number for one in void}
    return [one for one in claims if one.number not in numbers], void


def _begin(made: list[_Open], one: NumberedClaim, before: _Open | None, beside: bool = False) -> _Open:
    """A new stretch, which ends those before it unless it stands beside them."""
    fresh = _Open([one], one.claim.valid_at, supersedes=before, beside=beside)
    if not beside:
        for held in made:
            if held.invalid_at is None or held.invalid_at > fresh.valid_at:
                held.invalid_at = max(held.valid_at, fresh.valid_at)
                held.ended = True
    made.append(fresh)
    if one.claim.until is not None:
        fresh.end(one.claim.until)
    return fresh


def _end(made: list[_Open], claim: Claim) -> None:
    for held in reversed(made):
        if not held.ended and (not claim.object or held.says(claim)):
            held.end(claim.valid_at)
            return


def _not_retracted(claims: Sequence[NumberedClaim]) -> list[NumberedClaim]:
    """The claims that stand: a retraction takes back what was said before it of its value, or else the newest value."""
    left: list[NumberedClaim] = []
    for one in claims:
        if one.claim.kind != "retract":
            left.append(one)
            continue
        told = [held for held in left if held.claim.kind == "assert"]
        wrong = one.claim if one.claim.object else (told[-1].claim if told else None)
        if wrong is not None:
            left = [held for held in left if held.claim.kind != "assert" or not _same(held.claim, wrong)]
    return left


def _same(one: Claim, other: Claim) -> bool:
    values = [value_of(claim.predicate, claim.object) for claim in (one, other)]
    if values[0] == values[1]:
        return True
    if other.force == "change":
        return False  # "promoted to senior editor" is no detail of "editor"
    return one.predicate == other.predicate and is_elaboration(one.predicate, *values)
