"""What is known of one person, grouped: made out of the facts that hold."""

from collections.abc import Iterable

from msgspec import Struct

from longmemeval.memory.engram.predicates import predicates
from longmemeval.memory.engram.records import Fact


class Trait(Struct, frozen=True):
    """The facts of one predicate."""

    predicate: str
    facts: tuple[Fact, ...]
    """Oldest first."""

    @property
    def text(self) -> str:
        """The values, with the days from which they hold."""
        return "; ".join(
            f"{fact.object} ({'disputed, ' if fact.disputed else ''}{_since(fact)}{fact.valid_at:%Y-%m-%d})"
            for fact in self.facts
        )

    @property
    def episode_ids(self) -> tuple[str, ...]:
        """The messages the facts are from, each once."""
        return tuple(dict.fromkeys(one for fact in self.facts for one in fact.episode_ids))


class Profile(Struct, frozen=True):
    """What holds of one subject at a moment."""

    subject: str
    traits: tuple[Trait, ...]
    """In the order of the list of predicates, what accumulates behind what has one value."""

    @property
    def text(self) -> str:
        """In a line for each predicate, with the days from which the facts hold."""
        return "\n".join(f"{trait.predicate}: {trait.text}" for trait in self.traits)


def profile_of(subject: str, facts: Iterable[Fact]) -> Profile:
    """The profile of a subject.

    Args:
        subject: its name, as shown.
        facts: those that hold of it, under all its names.
    """
    listed = list(predicates())
    held: dict[str, list[Fact]] = {}
    for fact in sorted(facts, key=lambda one: one.valid_at):
        held.setdefault(fact.predicate, []).append(fact)

    def place(predicate: str) -> tuple[bool, int]:
        name = predicate.partition(":")[0]
        known = predicates().get(name)
        return not (known and known.functional), listed.index(name) if known else len(listed)

    return Profile(subject, tuple(Trait(one, tuple(held[one])) for one in sorted(held, key=place)))


def _since(fact: Fact) -> str:
    return "" if fact.predicate in ("event", "plan") else "since "
