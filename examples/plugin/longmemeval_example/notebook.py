"""A memory system that keeps a notebook: of each message the words that carry its meaning.

Ingestion is asynchronous: all sessions of a haystack are noted at the same time, as they would be by a service.
"""

import asyncio
import math
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec
from pydantic import Field

from longmemeval.memory.items import Hit, message_item
from longmemeval.memory.parameters import Parameters as Base
from longmemeval.memory.protocol import MemoryTools
from longmemeval.ranking.history import RankedUnit
from longmemeval.records import Message, Question, Recall
from longmemeval.storage.fixture import Fixture
from longmemeval.storage.messages_part import MESSAGES
from longmemeval.storage.parts import Part, PartInput, PartOutput, PartTools, Stored

EMPTY_WORDS = frozenset(
    re.split(" ", "a an and at by do does for how i in is it my of on our the to was we were what where who")
)


class Note(msgspec.Struct, frozen=True):
    """What is kept of one message."""

    message_id: str
    words: tuple[str, ...]


class Notebook(Part[list[Note]]):
    """The notes on all messages, in their order: `notebook.json`."""

    name = "notebook"

    def recipe(self, tools: PartTools) -> dict[str, object]:
        """All that its bytes depend on, besides the haystack."""
        return {"version": 1, "empty_words": sorted(EMPTY_WORDS)}

    async def make(self, source: PartInput, tools: PartTools) -> PartOutput:
        """Note all sessions at the same time."""
        sessions: dict[str, list[Message]] = {}
        for message in source.messages:
            sessions.setdefault(message.thread_id, []).append(message)
        noted = await asyncio.gather(*map(self._note, sessions.values()))
        return PartOutput(msgspec.json.encode([note for notes in noted for note in notes]))

    async def _note(self, messages: Sequence[Message]) -> list[Note]:
        await asyncio.sleep(0)  # Here a service would be asked, by `tools.chat_model` or a client of its own.
        return [Note(message.message_id, tuple(sorted(words(message.content)))) for message in messages]

    def open(self, stored: Stored) -> list[Note]:
        """Return the notes."""
        return msgspec.json.decode(stored.data(), type=list[Note])


NOTEBOOK = Notebook()


class NotebookMemory:
    """Recalls the messages that share the rarest words with the question."""

    class Parameters(Base):
        """What can be set with --set."""

        top_k: int = Field(4, ge=1)
        """Messages to recall."""

    @staticmethod
    def parts(parameters: Parameters) -> tuple[Part[Any], ...]:
        """Return the parts that the memory reads."""
        return MESSAGES, NOTEBOOK

    def __init__(self, parameters: Parameters, tools: MemoryTools) -> None:
        self.top_k = parameters.top_k

    async def recall(self, question: Question, fixture: Fixture) -> Recall:
        """Return the best messages, each with the words' weight as its score."""
        store = fixture.part(MESSAGES)
        best = [unit for unit in self.rank(question, fixture)[: self.top_k] if unit.score > 0]
        return Recall(
            tuple(
                message_item(store.message(unit.unit_id), Hit(rank, unit.score))
                for rank, unit in enumerate(best, start=1)
            )
        )

    def rank(self, question: Question, fixture: Fixture) -> list[RankedUnit]:
        """All messages, best first; with this method `retrieval` scores the whole ranking."""
        notes = fixture.part(NOTEBOOK)
        counts = Counter(word for note in notes for word in note.words)
        asked = words(question.text)
        scores = [
            sum(math.log(1 + len(notes) / counts[word]) for word in sorted(asked.intersection(note.words)))
            for note in notes
        ]
        ranked = sorted(zip(notes, scores, strict=True), key=lambda pair: -pair[1])
        return [
            RankedUnit(note.message_id, note.message_id.rpartition(":")[0], (note.message_id,), score)
            for note, score in ranked
        ]


def words(text: str) -> set[str]:
    """Return the words of a text that carry meaning, in lower case."""
    return set(re.findall(r"\w+", text.lower())) - EMPTY_WORDS
