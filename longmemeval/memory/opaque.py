"""Memory systems of other packages see opaque ids, whatever way they come in; what they return is translated back."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from msgspec import structs

from longmemeval.llm.tokens import Counted, TokenCounter
from longmemeval.memory.protocol import (
    EmbedsQuestions,
    ExplainsScores,
    HasProcesses,
    KnowsTokens,
    MemorySystem,
    MemoryTools,
    RankingMemory,
)
from longmemeval.ranking.history import RankedUnit
from longmemeval.records import Question, Recall
from longmemeval.storage.fixture import Fixture, OpaqueFixture, opaque_ids
from longmemeval.storage.opaque import opaque_question


class AskedQuestions:
    """The questions a memory was asked under opaque ids, so that the run's tools know which one is meant."""

    def __init__(self) -> None:
        self._own: dict[str, Question] = {}

    def shown(self, question: Question) -> Question:
        """Return a question as a memory of another package sees it."""
        shown = opaque_question(question)
        self._own[shown.question_id] = question
        return shown

    def tools(self, tools: MemoryTools) -> MemoryTools:
        """Return tools that may be asked about a question under either id."""
        analyse = tools.analyse
        if analyse is None:
            return tools
        return replace(tools, analyse=lambda question: analyse(self._own.get(question.question_id, question)))


class OpaqueMemory:
    """A memory system of another package; it has the further abilities of a memory that the wrapped one has.

    Args:
        memory: the memory system.
        questions: the questions it was asked.
    """

    def __init__(self, memory: MemorySystem, questions: AskedQuestions) -> None:
        self._memory: Any = memory
        self._questions = questions
        self.__module__ = type(memory).__module__  # Its failures are its own.
        abilities: dict[type, dict[str, Any]] = {
            RankingMemory: {"rank": self._rank},
            ExplainsScores: {"ingredients": self._ingredients},
            EmbedsQuestions: {"texts_to_embed": self._texts_to_embed},
            KnowsTokens: {"known_tokens": self._known_tokens},
            HasProcesses: {"peak_resident_bytes": getattr(memory, "peak_resident_bytes", None)},
        }
        for ability, methods in abilities.items():
            if isinstance(memory, ability):
                self.__dict__.update(methods)

    async def recall(self, question: Question, fixture: Fixture) -> Recall:
        """Return the recall of the memory, with our ids."""
        ids = opaque_ids(fixture)
        recall: Recall = await self._memory.recall(self._questions.shown(question), OpaqueFixture(fixture))
        return ids.recall(recall, ids.own)

    def _rank(self, question: Question, fixture: Fixture) -> list[RankedUnit]:
        own = opaque_ids(fixture).own
        return [
            structs.replace(
                unit,
                unit_id=own(unit.unit_id),
                thread_id=own(unit.thread_id),
                message_ids=tuple(map(own, unit.message_ids)),
            )
            for unit in self._memory.rank(self._questions.shown(question), OpaqueFixture(fixture))
        ]

    def _ingredients(self, question: Question, fixture: Fixture) -> Mapping[str, Mapping[str, float]]:
        own = opaque_ids(fixture).own
        found = self._memory.ingredients(self._questions.shown(question), OpaqueFixture(fixture))
        return {own(message_id): scores for message_id, scores in found.items()}

    def _texts_to_embed(self, question: Question, names: Sequence[str]) -> Sequence[str]:
        texts: Sequence[str] = self._memory.texts_to_embed(self._questions.shown(question), names)
        return texts

    def _known_tokens(self, counter: TokenCounter, fixture: Fixture, recall: Recall) -> Sequence[Counted] | None:
        ids = opaque_ids(fixture)
        shown = ids.recall(recall, ids.shown)
        known: Sequence[Counted] | None = self._memory.known_tokens(counter, OpaqueFixture(fixture), shown)
        return known
