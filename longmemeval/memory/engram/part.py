"""The parts `engram`, the facts of a haystack in all their versions, and `engram-vectors`, their vectors."""

from typing import Any

import msgspec
from msgspec import Struct

from longmemeval.memory.engram.engine import replayed
from longmemeval.memory.engram.extraction.rules import RuleExtractor
from longmemeval.memory.engram.ledger import facts_at
from longmemeval.memory.engram.records import Fact
from longmemeval.memory.engram.summaries import Summary, summaries
from longmemeval.part_options import PartOptions
from longmemeval.storage.format import FORMAT, decode_versioned
from longmemeval.storage.parts import Made, Part, PartTools, Source, Stored
from longmemeval.storage.vector_store import VectorItem
from longmemeval.storage.vectors_part import VectorsPart

_VERSION = 1
"""To be raised when ledger, timeline or summaries change."""


class FactsFile(Struct, frozen=True):
    """`engram.json`."""

    format: int
    facts: list[Fact]
    """All versions, as they were learned; their episodes are messages."""
    summaries: list[Summary]
    """Of each session."""


class FactsPart(Part[FactsFile]):
    """The facts, by rules: no model is asked."""

    name = "engram"

    def recipe(self, tools: PartTools) -> dict[str, Any]:
        """Versions of the rules."""
        return {"version": _VERSION, **RuleExtractor().recipe}

    def make(self, source: Source, tools: PartTools) -> Made:
        """All messages, oldest first, replayed."""
        engine = replayed(source.messages)
        versions = engine.ledger.store.versions()
        file = FactsFile(FORMAT, versions, summaries(source.messages, versions))
        return Made(msgspec.json.format(msgspec.json.encode(file), indent=2) + b"\n", told={"facts": len(versions)})

    def open(self, stored: Stored) -> FactsFile:
        """The facts.

        Raises:
            FixtureError: the part is damaged.
        """
        return decode_versioned(stored.data(), FactsFile, stored.where)

    def shown(self, stored: Stored) -> str:
        """What is believed at the end, with when it holds."""
        lines = [
            f"{fact.text}  [{fact.valid_at:%Y-%m-%d} to {f'{fact.invalid_at:%Y-%m-%d}' if fact.invalid_at else 'now'}]"
            for fact in facts_at(stored.part(self).facts)
        ]
        return "\n".join(lines) + "\n"


FACTS = FactsPart()


class FactVectors(VectorsPart):
    """A vector for each version of a fact, without a graph."""

    name = "engram-vectors"
    needs = (FACTS,)
    index_name = "facts"
    exact = True

    def entries(self, source: Source, options: PartOptions) -> tuple[list[VectorItem], list[str]]:
        """The texts of the facts."""
        facts = source.part(FACTS).facts
        items = [VectorItem(fact.version_id, thread_of(fact), number) for number, fact in enumerate(facts)]
        return items, [fact.text for fact in facts]


FACT_VECTORS = FactVectors()


def thread_of(fact: Fact) -> str:
    """The session in which a fact was said last."""
    return fact.episode_ids[-1].rpartition(":")[0]
