"""A memory system as somebody outside would write it, in one file: two parts of its own, one asks a chat model."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct
from pydantic import Field

from longmemeval.core.part_options import PartOptions
from longmemeval.llm.protocol import ChatMessage, ChatRequest
from longmemeval.memory.items import message_item
from longmemeval.memory.parameters import Parameters
from longmemeval.memory.protocol import MemoryTools
from longmemeval.records import Question, Recall
from longmemeval.storage.fixture import Fixture
from longmemeval.storage.messages_part import MESSAGES
from longmemeval.storage.parts import Part, PartInput, PartOutput, PartTools, Stored


class Fact(Struct, frozen=True):
    """What a session tells, and the message it stands in."""

    text: str
    message_id: str


class Facts(Part[list[Fact]]):
    """The facts of every session, by a chat model or, without one, its first messages."""

    name = "facts"
    calls_models = True

    def __init__(self, model: str | None = None, per_session: int = 1) -> None:
        self.model, self.per_session = model, per_session

    def models(self, options: PartOptions) -> tuple[str, ...]:
        return (self.model,) if self.model else ()

    def settings(self) -> dict[str, Any]:
        return {"model": self.model, "per_session": self.per_session}

    def recipe(self, tools: PartTools) -> dict[str, Any]:
        return {"version": 1}

    async def make(self, source: PartInput, tools: PartTools) -> PartOutput:
        """All sessions at once: a part may wait for as many replies as it likes."""
        by_session: dict[str, list[Fact]] = {}
        for message in source.messages:
            if message.index < 2 * self.per_session and message.role == "user":
                by_session.setdefault(message.thread_id, []).append(Fact(message.content, message.message_id))
        told = await asyncio.gather(*(self._told(facts, tools) for facts in by_session.values()))
        return PartOutput(msgspec.json.encode([fact for facts in told for fact in facts]))

    async def _told(self, facts: list[Fact], tools: PartTools) -> list[Fact]:
        if self.model is None:
            return facts
        asked = ChatMessage("user", "\n".join(fact.text for fact in facts))
        reply = await tools.chat_model(self.model).complete(ChatRequest((asked,), max_tokens=100))
        return [Fact(reply.text, facts[0].message_id)]

    def open(self, stored: Stored) -> list[Fact]:
        return msgspec.json.decode(stored.data(), type=list[Fact])


class Shelf(Part[dict[str, list[str]]]):
    """A store of its own, a directory made of the facts: one file for each letter; it notes the day of its making."""

    name = "shelf"
    directory = True
    reproducible = False
    resumable = True

    def __init__(self, facts: Facts) -> None:
        self.needs = (facts,)
        self.facts = facts

    def recipe(self, tools: PartTools) -> dict[str, Any]:
        return {"version": 1}

    def make(self, source: PartInput, tools: PartTools) -> PartOutput:
        (source.folder / "pages").mkdir(exist_ok=True)
        pages: dict[str, list[str]] = {}
        for fact in source.part(self.facts):
            pages.setdefault(fact.text[0], []).append(fact.message_id)
        for letter, ids in pages.items():
            (source.folder / "pages" / f"{letter}.json").write_text(json.dumps(ids))
        return PartOutput(notes=(f"{len(pages)} pages",))

    def open(self, stored: Stored) -> dict[str, list[str]]:
        pages = sorted((stored.folder() / "pages").glob("*.json"))
        return {page.stem: json.loads(page.read_text()) for page in pages}


class FactMemory:
    """The facts whose words the question has.

    Only the first line is shown in tables of memories.
    """

    class Parameters(Parameters):
        """What can be set."""

        extractor: str | None = None
        """The chat model that finds the facts; without it, the first messages of a session are."""
        per_session: int = Field(1, ge=1)
        """Messages of a session that are looked at."""
        shelf: bool = False
        """Whether the shelf is read too."""

    @staticmethod
    def parts(parameters: "FactMemory.Parameters") -> Sequence[Part[Any]]:
        """What it reads of a fixture."""
        facts = Facts(parameters.extractor, parameters.per_session)
        return (MESSAGES, facts, *((Shelf(facts),) if parameters.shelf else ()))

    def __init__(self, parameters: "FactMemory.Parameters", tools: MemoryTools) -> None:
        self.reads = self.parts(parameters)

    async def recall(self, question: Question, fixture: Fixture) -> Recall:
        """The messages behind the facts, best first."""
        facts: list[Fact] = fixture.part(self.reads[1])
        words = set(question.text.lower().split())
        ranked = sorted(facts, key=lambda fact: -len(words & set(fact.text.lower().split())))
        notes = tuple(fixture.part(self.reads[2])) if len(self.reads) > 2 else ()
        items = tuple(message_item(fixture.memory.message(fact.message_id)) for fact in ranked[:1])
        return Recall(items, notes=notes)
