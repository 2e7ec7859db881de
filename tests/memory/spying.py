"""Memories of somebody who looks for labels in all they are given, by every way a class in this process can come."""

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
from pydantic import Field

from longmemeval.memory.definition import MemoryDefinition
from longmemeval.memory.items import message_item
from longmemeval.memory.parameters import Parameters
from longmemeval.memory.protocol import MemoryTools
from longmemeval.ranking.dates import DATES
from longmemeval.ranking.history import RankedUnit
from longmemeval.ranking.message_vectors import VECTORS
from longmemeval.ranking.word_counts import WORDS
from longmemeval.records import Question, Recall
from longmemeval.storage.fixture import Fixture
from longmemeval.storage.messages_part import MESSAGES
from longmemeval.storage.parts import Part, PartInput, PartOutput, PartTools, Stored


def seen(thing: object, depth: int = 5) -> Iterator[str]:
    """Yield all texts and names in the public attributes of an object."""
    if isinstance(thing, bytes):
        yield thing.decode("utf-8", "replace")
    elif isinstance(thing, dict):
        yield from (text for pair in thing.items() for one in pair for text in seen(one, depth - 1))
    elif isinstance(thing, (list, tuple, set)):
        yield from (text for one in thing for text in seen(one, depth - 1))
    elif isinstance(thing, (str, Path)):
        yield str(thing)
    elif depth and type(thing).__module__.startswith("longmemeval."):
        for name in dir(thing):
            if not name.startswith("_") and not callable(one := getattr(thing, name)):
                yield from seen(one, depth - 1)


class Noted(Part[dict[str, Any]]):
    """What `prepare` shows to a part, a file; and the messages said to be the evidence."""

    name = "noted"
    needs = (MESSAGES, DATES)

    def recipe(self, tools: PartTools) -> dict[str, Any]:
        return {"version": 1}

    def make(self, source: PartInput, tools: PartTools) -> PartOutput:
        threads = [session.session_id for session in source.haystack.sessions]
        assert list(dict.fromkeys(message.thread_id for message in source.messages)) == threads
        assert [thread.id for thread in source.part(MESSAGES).threads] == threads
        texts = [*seen([source.haystack, source.messages, source.part(MESSAGES), source.part(DATES)])]
        first = [f"{thread}:0" for thread in threads]
        return PartOutput(msgspec.json.encode({"seen": texts, "first": first}))

    def open(self, stored: Stored) -> dict[str, Any]:
        opened: dict[str, Any] = msgspec.json.decode(stored.data())
        return opened | {"stored": [*seen([stored.meta, stored.where, stored.info])]}


class NotedFolder(Part[list[str]]):
    """The same in a directory."""

    name = "noted-folder"
    directory = True
    needs = (MESSAGES,)

    def recipe(self, tools: PartTools) -> dict[str, Any]:
        return {"version": 1}

    def make(self, source: PartInput, tools: PartTools) -> PartOutput:
        texts = [str(source.folder), *seen(source.messages)]
        (source.folder / "seen.json").write_text(json.dumps(texts))
        return PartOutput()

    def open(self, stored: Stored) -> list[str]:
        folder = stored.folder()
        read: list[str] = json.loads((folder / "seen.json").read_text())
        return [*read, str(folder), *seen(stored.meta)]


NOTED, FOLDER = Noted(), NotedFolder()


class Spy:
    """Recalls the first message of every session, evidence first where a name gives it away."""

    class Parameters(Parameters):
        """What can be set."""

        told: str = Field("", description="File that gets all that was seen.")

    @staticmethod
    def parts(parameters: "Spy.Parameters") -> Sequence[Part[Any]]:
        """What it reads of a fixture."""
        return MESSAGES, VECTORS, WORDS, DATES, NOTED, FOLDER

    def __init__(self, parameters: "Spy.Parameters", tools: MemoryTools) -> None:
        self.told = parameters.told

    async def recall(self, question: Question, fixture: Fixture) -> Recall:
        store = fixture.part(MESSAGES)
        noted = fixture.part(NOTED)
        parts: list[object] = [fixture.part(VECTORS), fixture.part(WORDS), fixture.part(DATES)]
        files = [fixture.read_part(name) for name in ("db", "vector", "dates")]
        texts = [*seen([question, fixture, store, *parts, files, noted, fixture.part(FOLDER)])]
        with Path(self.told).open("a") as file:
            file.write(json.dumps(texts) + "\n")
        return Recall(tuple(message_item(store.message(one)) for one in self._ordered(noted["first"])[:1]))

    def rank(self, question: Question, fixture: Fixture) -> list[RankedUnit]:
        """Rank all first messages."""
        store = fixture.memory
        found = [store.message(one) for one in self._ordered([f"{thread.id}:0" for thread in store.threads])]
        return [RankedUnit(one.message_id, one.thread_id, (one.message_id,), -place) for place, one in enumerate(found)]

    def _ordered(self, ids: Sequence[str]) -> list[str]:
        return sorted(ids, key=lambda one: re.match("answer", one) is None)


class Peek(Spy):
    """Asks the fixture's public attributes for the ids behind those it sees."""

    async def recall(self, question: Question, fixture: Fixture) -> Recall:
        store = fixture.memory
        first = [f"{thread.id}:0" for thread in store.threads]
        holders = [getattr(fixture, name, None) for name in dir(fixture) if not name.startswith("_")]
        told = [own(one) for one in first for holder in holders if callable(own := getattr(holder, "own", None))]
        Path(self.told).write_text(json.dumps(told))
        return Recall(tuple(message_item(store.message(one)) for one in first[:1]))


def _build(parameters: Spy.Parameters, tools: MemoryTools) -> Spy:
    return Spy(parameters, tools)


SPY = MemoryDefinition("A spy by its definition.", Spy.Parameters, Spy.parts, _build)


class AddSearch:
    """A class with `add` and `search`: it keeps what it got in a file of its own."""

    def __init__(self, told: str = "") -> None:
        self.told, self.kept = told, list[object]()

    def add(self, session: object) -> None:
        with Path(self.told).open("a") as file:
            file.write(json.dumps([*seen(session), str(session)]) + "\n")
        self.kept.append(session)

    def search(self, query: str, *, date: str, limit: int) -> list[str]:
        return [str(session)[:40] for session in self.kept][:limit]
