"""Summarise each session in one line, by rules, from facts."""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from longmemeval.memory.engram.parameters import predicates
from longmemeval.memory.engram.records import Fact
from longmemeval.memory.working_memory.statements import statements
from longmemeval.records import Message

# Profiles: the facts that hold about one person, grouped by predicate.


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


_MOST_FACTS = 4
_MOST_WORDS = 25


class Summary(Struct, frozen=True):
    """A line on what a session was about."""

    thread_id: str
    text: str
    message_ids: tuple[str, ...]
    """The messages it was made from."""


def summaries(messages: Sequence[Message], facts: Iterable[Fact]) -> list[Summary]:
    """Summarise each session by the facts first said in it, else by its first statement; skip it if it has neither."""
    first_said: dict[str, list[Fact]] = {}
    for fact in facts:
        if fact.version_id.endswith(".1"):
            first_said.setdefault(fact.episode_ids[-1].rpartition(":")[0], []).append(fact)
    by_thread: dict[str, list[Message]] = {}
    for message in messages:
        by_thread.setdefault(message.thread_id, []).append(message)
    found = []
    for thread_id, thread in by_thread.items():
        chosen = first_said.get(thread_id, [])[:_MOST_FACTS]
        if chosen:
            ids = tuple(dict.fromkeys(episode for fact in chosen for episode in fact.episode_ids))
            found.append(Summary(thread_id, "; ".join(fact.text for fact in chosen), ids))
        elif first := _first_statement(thread):
            found.append(first)
    return found


def _first_statement(thread: Sequence[Message]) -> Summary | None:
    for message in thread:
        for statement in statements(message.content) if message.role == "user" else ():
            text = " ".join(statement.split()[:_MOST_WORDS])
            return Summary(message.thread_id, f"{message.speaker or message.role}: {text}", (message.message_id,))
    return None
