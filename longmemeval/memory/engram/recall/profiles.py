"""Profiles: the facts that hold about one person, grouped by predicate."""

from collections.abc import Iterable

from msgspec import Struct

from longmemeval.memory.engram.predicates import predicates
from longmemeval.memory.engram.records import Fact


class Trait(Struct, frozen=True):
    """The facts of one predicate."""

    predicate: str
    facts: tuple[Fact, ...]
    """The facts, oldest first."""

    @property
    def text(self) -> str:
        """The values, with the days from which they hold."""
        return "; ".join(
            f"{fact.object} ({'disputed, ' if fact.disputed else ''}{_since(fact)}{fact.valid_at:%Y-%m-%d})"
            for fact in self.facts
        )

    @property
    def episode_ids(self) -> tuple[str, ...]:
        """The messages that the facts are from, each once."""
        return tuple(dict.fromkeys(episode_id for fact in self.facts for episode_id in fact.episode_ids))


class Profile(Struct, frozen=True):
    """The facts that hold about one subject at a moment."""

    subject: str
    traits: tuple[Trait, ...]
    """Traits in the order of the list of predicates, those with one value before those that accumulate."""

    @property
    def text(self) -> str:
        """A line for each predicate, with the days from which the facts hold."""
        return "\n".join(f"{trait.predicate}: {trait.text}" for trait in self.traits)


def profile_of(subject: str, facts: Iterable[Fact]) -> Profile:
    """Return the profile of a subject.

    Args:
        subject: its name, as shown.
        facts: facts that hold about it, under all its names.
    """
    listed = list(predicates())
    by_predicate: dict[str, list[Fact]] = {}
    for fact in sorted(facts, key=lambda fact: fact.valid_at):
        by_predicate.setdefault(fact.predicate, []).append(fact)

    def place(predicate: str) -> tuple[bool, int]:
        name = predicate.partition(":")[0]
        known = predicates().get(name)
        return not (known and known.functional), listed.index(name) if known else len(listed)

    ordered = sorted(by_predicate, key=place)
    return Profile(subject, tuple(Trait(predicate, tuple(by_predicate[predicate])) for predicate in ordered))


def _since(fact: Fact) -> str:
    return "" if fact.predicate in ("event", "plan") else "since "
