"""Read endings: somebody leaves, gives up, separates, dies, or changes a plan or the name of a pet.

Such sentences say little about what ends ("I quit the Post Office", "Barley died"): the rest follows from what is known
about the person or pet. So an ending ends facts that hold; if it fits none of them, it ends nothing.
"""

import re
from collections.abc import Iterator
from functools import cache, lru_cache
from typing import NamedTuple

from longmemeval.core.text.words import content_words
from longmemeval.memory.engram.extraction.claims import claim_of
from longmemeval.memory.engram.extraction.dating import dated
from longmemeval.memory.engram.extraction.patterns import Ending, groups_of, patterns
from longmemeval.memory.engram.ledger import Ledger
from longmemeval.memory.engram.predicates import predicates, slot_of
from longmemeval.memory.engram.records import Claim, Episode, Fact
from longmemeval.memory.working_memory.statements import is_claimed

_LIGHT = frozenset(content_words("go do get have make take be keep thing work start play learn study do practise"))
"""Stems that say too little to identify what ends: "I stopped going"."""
_ADDED = frozenset(
    content_words("old new former dear beloved job position school course club team lesson habit class degree")
)
"""Stems that may accompany the value: "my old motorbike", "law school"."""


_ADDED_TO_A_PLAN = _ADDED | frozenset(
    content_words("plan idea trip visit holiday walk wedding move dream project thing journey business adventure")
)
_NAME = re.compile(r"\b[A-Z][a-z]+\b")
_WHOM = {"relative", "animal", "called", "named"}
_TOGETHER = ("married", "engaged", "in a relationship")


class _About(NamedTuple):
    """The people and pets that a sentence is about."""

    subjects: tuple[str, ...]
    """All names under which facts about them are kept."""
    named_by: list[Fact]
    """The facts that relate them to the speaker: "Ann's dog is Rex"."""


def names_in(text: str, owner: str, known: Ledger) -> list[str]:
    """Return the names in a text that belong to a person's relatives and pets, or to anybody else facts are about."""
    words = dict.fromkeys(_NAME.findall(text))
    return [word for word in words if known.knows(word) or known.facts_naming(owner, word)]


def ended(sentence: str, episode: Episode, known: Ledger, owner: str) -> Iterator[Claim]:
    """Yield the claims that end facts according to a sentence, and those that take their place.

    Args:
        sentence: one statement.
        episode: the message it is from.
        known: what has been believed so far.
        owner: the person that "I" refers to.
    """
    for ending, match in _matches(sentence):
        groups = groups_of(match)
        over = _over(ending, groups, owner, known)
        yield from _claims(ending, groups, over, sentence, match.start(), episode, owner)


@lru_cache(maxsize=1 << 14)
def _matches(sentence: str) -> tuple[tuple[Ending, re.Match[str]], ...]:
    """Return the endings that a sentence claims; sentences that histories share are searched once."""
    return tuple(
        (ending, match)
        for ending in patterns().endings
        for match in ending.search.finditer(sentence)
        if is_claimed(sentence, match.start())
    )


def _claims(
    ending: Ending, groups: dict[str, str], over: list[Fact], sentence: str, start: int, episode: Episode, owner: str
) -> Iterator[Claim]:
    written = ending.written
    when = dated(sentence, start, episode.event_at, "ends", False)
    begins = dated(sentence, start, episode.event_at, "begins", False)
    for fact in over:
        yield claim_of("end", fact.subject, fact.predicate, fact.object, when, episode)
        if written.kind == "renames":
            yield claim_of("assert", fact.subject, fact.predicate, groups["object"], begins, episode, "change")
    if written.says:
        yield claim_of("assert", owner, "status", written.says, begins, episode, "change")


def _over(ending: Ending, groups: dict[str, str], owner: str, known: Ledger) -> list[Fact]:
    """Return the facts that a sentence ends."""
    about = _about(groups, owner, known)
    named_by = [fact for fact in about.named_by if fact.predicate.startswith(ending.of)]
    if ending.written.kind == "renames":
        return named_by
    if ending.written.kind == "parts":
        together = [fact for fact in known.current(owner, "status") if fact.object in _TOGETHER]
        partners = named_by or (
            [] if about.named_by else known.held(owner, ending.of) if not groups.keys() & _WHOM else []
        )
        return [*partners, *together] if partners or together else []
    facts = [fact for subject in about.subjects for fact in known.held(subject, ending.of)]
    meant = [fact for fact in [*facts, *named_by] if _is_meant(fact, groups.get("what"))]
    return [fact for fact in meant if re.search(ending.written.only, fact.object)]


def _is_meant(fact: Fact, what: str | None) -> bool:
    """Return whether the value of a fact is the one named by `what`; True if `what` is None."""
    if what is None:
        return True
    words, value = set(content_words(what)), set(content_words(fact.object)) or {fact.object.lower()}
    about = set(content_words(fact.predicate.partition(":")[2]))
    added = _ADDED_TO_A_PLAN if fact.predicate == "plan" else _ADDED
    core = words - _LIGHT - added - _stems(fact.predicate) - about or words - _LIGHT
    return bool(core) and (core <= value or (value <= words and core - value <= added))


@cache
def _stems(predicate: str) -> frozenset[str]:
    """Return the stems of the words that express a predicate."""
    name = predicate.partition(":")[0]
    known = predicates().get(name)
    wordings = (name, *known.aliases, re.sub(r"\{\w+\}", "", known.said)) if known else (name,)
    return frozenset(content_words(" ".join(wordings)))


def _about(groups: dict[str, str], owner: str, known: Ledger) -> _About:
    """Return the people and pets that the groups of a match name."""
    if "self" in groups or not groups.keys() & _WHOM:
        return _About((owner,), [])
    name = groups.get("called") or groups.get("named")
    kin, animal = groups.get("relative", "").lower(), groups.get("animal", "").lower()
    if kin or animal:
        predicate = f"relative:{kin}" if kin else f"pet:{animal}"
        held = known.held(owner, (predicate,))
        named_by = [fact for fact in held if fact.predicate == predicate and name in (None, fact.object)]
        if not name and len(named_by) > 1:
            return _About((), [])
    else:
        named_by = known.facts_naming(owner, name or "")
    kins = {kin or fact.predicate.partition(":")[2] for fact in named_by} | ({kin} if kin else set())
    names = [fact.object for fact in named_by] + [f"{owner}'s {relation}" for relation in sorted(kins)]
    return _About(tuple(dict.fromkeys([*names, *([name] if name and name != owner else [])])), named_by)


def overlaps(claim: Claim, known: Ledger) -> bool:
    """Return whether another value of the slot is known for a part of the period of a claim."""
    slot = slot_of(claim.subject, claim.predicate, claim.object)
    return claim.until is not None and any(
        slot_of(fact.subject, fact.predicate, fact.object) == slot
        and fact.valid_at < claim.until
        and (fact.invalid_at is None or claim.valid_at < fact.invalid_at)
        for fact in known.current(claim.subject, claim.predicate)
    )
