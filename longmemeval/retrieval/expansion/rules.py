"""The offline maker: keys by rules, the same for the same history."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

from longmemeval.records import Message
from longmemeval.retrieval.expansion.keys import (
    Expansion,
    ExpansionKind,
    ExpansionLevel,
    ExpansionMaker,
    ExpansionUnit,
    MadeExpansions,
    expansion_units,
    speaker_name,
)
from longmemeval.retrieval.expansion.sentences import sentences, statements
from longmemeval.retrieval.expansion.weights import WordWeights
from longmemeval.storage.memory_store import MemoryStore

VERSION = 1

_LONGEST_DATED = timedelta(31)
"""Of a longer period ("last year") the first day is no day of an event."""


def rule_maker(kind: ExpansionKind, level: ExpansionLevel) -> ExpansionMaker:
    """The maker that needs no model.

    It reads what people said, never the assistant. A summary is one or two of a unit's sentences, keyphrases are three
    to eight of its word sequences, both by weights of words inside the history; facts are sentences in which somebody
    tells of themself; events are facts that mention days, once for each, with the first day of a period of
    up to a month.

    Args:
        kind: what to make.
        level: for sessions or for turns.
    """
    return _RuleMaker(kind, level)


@dataclass(frozen=True)
class _RuleMaker:
    kind: ExpansionKind
    level: ExpansionLevel

    @property
    def recipe(self) -> dict[str, Any]:
        return {"maker": "rules", "version": VERSION, "kind": self.kind, "level": self.level}

    def make(self, store: MemoryStore) -> MadeExpansions:
        units = expansion_units(store, self.level)
        if self.kind == "fact":
            return MadeExpansions(tuple(Expansion(unit.unit_id, tuple(_facts(unit))) for unit in units))
        if self.kind == "event":
            return MadeExpansions(tuple(map(_events, units)))
        return MadeExpansions(tuple(self._weighed(units)))

    def _weighed(self, units: list[ExpansionUnit]) -> Iterator[Expansion]:
        told = [[sentence for message in unit.messages for sentence in sentences(message.content)] for unit in units]
        weights = WordWeights([" ".join(own) for own in told if own])
        for unit, own in zip(units, told, strict=True):
            if self.kind == "keyphrase":
                yield Expansion(unit.unit_id, weights.keyphrases(own))
            else:
                summary = weights.summary(own)
                yield Expansion(unit.unit_id, (summary,) if summary else ())


def _facts(unit: ExpansionUnit) -> list[str]:
    facts = (_named(message, statement) for message in unit.messages for statement in statements(message.content))
    return list(dict.fromkeys(facts))


def _events(unit: ExpansionUnit) -> Expansion:
    # Not needed, with its tables of patterns, for the other kinds.
    from longmemeval.retrieval.mentions import mentioned_dates

    events: dict[tuple[str, date | None], None] = {}
    for message in unit.messages:
        for statement in statements(message.content):
            for mention in mentioned_dates(statement, unit.said_on):
                events[_named(message, statement), _day(mention.start, mention.end)] = None
    return Expansion(unit.unit_id, tuple(text for text, _ in events), tuple(day for _, day in events))


def _day(start: date, end: date) -> date | None:
    return start if end - start < _LONGEST_DATED else None


def _named(message: Message, statement: str) -> str:
    # A session of two people has facts of both.
    name = speaker_name(message)
    return f"{name}: {statement}" if name else statement
