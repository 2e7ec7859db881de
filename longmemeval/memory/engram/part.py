"""The parts `engram`, the facts of a haystack in all their versions, and `engram-vectors`, their vectors."""

from collections.abc import Awaitable, Iterator, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from longmemeval.core.part_options import PartOptions
from longmemeval.memory.asking import MAX_TOKENS
from longmemeval.memory.engram.engine import Consolidated, Consolidation, Engine, replayed
from longmemeval.memory.engram.extraction.chat import task_in
from longmemeval.memory.engram.extraction.rules import RuleExtractor
from longmemeval.memory.engram.profiles import Summary, summaries
from longmemeval.memory.engram.records import Fact, facts_at
from longmemeval.storage.messages_part import MESSAGES
from longmemeval.storage.part_files import FORMAT, decode_versioned
from longmemeval.storage.parts import ModelPart, PartInput, PartOutput, PartTools, Stored
from longmemeval.storage.vector_index import VectorItem
from longmemeval.storage.vectors_part import VectorsPart

_VERSION = 1
"""Increase when ledger, timeline or summaries change."""


class FactsFile(Struct, frozen=True, omit_defaults=True):
    """The contents of `engram.json`."""

    format: int
    facts: list[Fact]
    """All versions, in the order in which they were learned; their episodes are messages."""
    summaries: list[Summary]
    """One summary per session."""
    dropped: dict[str, int] = {}
    """Items of the chat model's replies that were dropped, by reason; see `Consolidated.dropped`."""
    verdicts: dict[str, int] = {}
    """Number of contradictions that the chat model judged, by verdict."""


class FactsPart(ModelPart[FactsFile]):
    """The facts, read by rules or by a chat model."""

    name = "engram"
    option = "fact_model"
    title = "facts"
    figure_names = ("sessions for the fact model", "tokens of sessions for the fact model")
    prompt_tokens, reply_tokens, most_reply_tokens = 950, 600, MAX_TOKENS
    share = 0.5  # By rules on conversations between people.

    def recipe(self, tools: PartTools) -> dict[str, Any]:
        """Return extractor and versions."""
        if tools.options.fact_model == "rules":
            # The first version stands for itself: the "version" of the recipe is that of the rules.
            return {**RuleExtractor().recipe, **({"engine": _VERSION} if _VERSION > 1 else {})}
        return {"engine": _VERSION, **_consolidation(tools).recipe}

    def make(self, source: PartInput, tools: PartTools) -> PartOutput | Awaitable[PartOutput]:
        """Replay all messages, oldest first."""
        if tools.options.fact_model == "rules":
            return _output(source, replayed(source.messages), Consolidated())
        return self._read(source, tools)

    async def _read(self, source: PartInput, tools: PartTools) -> PartOutput:
        engine = replayed(source.messages, _consolidation(tools))
        return _output(source, engine, await engine.consolidation())

    def open(self, stored: Stored) -> FactsFile:
        """Return the facts.

        Raises:
            FixtureError: the part is damaged.
        """
        return decode_versioned(stored.data(), FactsFile, stored.where)

    def shown(self, stored: Stored) -> str:
        """Show the final facts, when they hold, what superseded them, and how many items of replies were dropped."""
        file = stored.part(self)
        lines = list(_chains(facts_at(file.facts)))
        for what, counts in (("discarded", file.dropped), ("contradictions decided", file.verdicts)):
            if counts:
                lines.append(f"{what}: {', '.join(f'{number} for {why}' for why, number in counts.items())}")
        return "\n".join(lines) + "\n"

    def contradictions(self, stored: Stored) -> Iterator[str]:
        """Yield a complaint for each fact from a message that is not in the fixture."""
        store = stored.part(MESSAGES)
        for fact in stored.part(self).facts:
            if not all(episode_id in store.positions for episode_id in fact.episode_ids):
                yield f"contains fact {fact.version_id}, which is from a message that is not in db.json"


def _chains(facts: Sequence[Fact]) -> Iterator[str]:
    """Yield a line for each fact, followed by those that superseded it, indented."""
    after: dict[str, list[Fact]] = {}
    for fact in facts:
        after.setdefault(fact.supersedes.rpartition(".")[0] if fact.supersedes else "", []).append(fact)
    known = {fact.fact_id for fact in facts}
    waiting = [(fact, 0) for before, those in after.items() if before not in known for fact in those][::-1]
    while waiting:
        fact, depth = waiting.pop()
        until = f"{fact.invalid_at:%Y-%m-%d}" if fact.invalid_at else "now"
        begin = "  then " if depth else ""
        disputed = "  (disputed)" if fact.disputed else ""
        yield f"{begin}{fact.text}  [{fact.valid_at:%Y-%m-%d} to {until}]{disputed}"
        waiting += [(later, depth + 1) for later in reversed(after.get(fact.fact_id, []))]


def _consolidation(tools: PartTools) -> Consolidation:
    return Consolidation(tools.chat_model(tools.options.fact_model), task_in(tools.options.fact_prompt))


def _output(source: PartInput, engine: Engine, read: Consolidated) -> PartOutput:
    versions = engine.ledger.store.versions()
    found = summaries(source.messages, versions)
    file = FactsFile(FORMAT, versions, found, read.dropped, read.verdicts)
    stats = {"facts": len(versions)}
    stats |= {f"contradictions_{word}": number for word, number in read.verdicts.items()}
    data = msgspec.json.format(msgspec.json.encode(file), indent=2) + b"\n"
    return PartOutput(data, notes=read.notes, stats=stats, dropped=read.dropped)


FACTS = FactsPart()


class FactVectors(VectorsPart):
    """One vector per version of a fact, without a graph."""

    name = "engram-vectors"
    needs = (FACTS,)
    index_name = "facts"

    def entries(self, source: PartInput, options: PartOptions) -> tuple[list[VectorItem], list[str]]:
        """Return the facts and their texts."""
        facts = source.part(FACTS).facts
        items = [VectorItem(fact.version_id, thread_of(fact), number) for number, fact in enumerate(facts)]
        return items, [fact.text for fact in facts]


FACT_VECTORS = FactVectors()


def thread_of(fact: Fact) -> str:
    """Return the session in which a fact was said last."""
    return fact.episode_ids[-1].rpartition(":")[0]
