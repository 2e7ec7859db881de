"""The part `db`: the messages of a haystack."""

from collections.abc import Iterator
from typing import Any

import msgspec

from longmemeval.core.part_options import PartOptions
from longmemeval.errors import FixtureError
from longmemeval.storage.memory_store import MemoryStore
from longmemeval.storage.part_files import REMAKE
from longmemeval.storage.parts import Part, PartInput, PartOutput, PartTools, Stored

# Indented JSON: extra bytes of a message and of a thread compared to their compact JSON.
_MESSAGE_INDENT, _THREAD_BYTES = 65, 175


class MessagesPart(Part[MemoryStore]):
    """All messages, by threads."""

    name = "db"
    optionless = True

    def recipe(self, tools: PartTools) -> dict[str, Any]:
        """Return the fixed recipe: there are no options."""
        return {"version": 1, "working_memory": None}

    def make(self, source: PartInput, tools: PartTools) -> PartOutput:
        """Return the haystack as `db.json`."""
        return PartOutput(MemoryStore.from_haystack(source.haystack).persist())

    def open(self, stored: Stored) -> MemoryStore:
        """Return the messages.

        Raises:
            FixtureError: they belong to another haystack.
        """
        store = MemoryStore.hydrate(stored.data(), stored.where)
        if store.resource.id != stored.meta.resource_id:
            raise FixtureError(
                f"The part belongs to '{store.resource.id}', the fixture to '{stored.meta.resource_id}'",
                where=stored.where,
                fix=REMAKE,
            )
        return store

    def size(self, source: PartInput, options: PartOptions, dimension: int) -> float:
        """Estimate the size from the layout of the file."""
        text = len(msgspec.json.encode(source.messages))
        return text + _MESSAGE_INDENT * len(source.messages) + _THREAD_BYTES * len(source.haystack.sessions)

    def contradictions(self, stored: Stored) -> Iterator[str]:
        """Iterate over contradictions to `meta.json`."""
        if tuple(thread.id for thread in stored.part(self).threads) != stored.meta.thread_ids:
            yield "names other threads than db.json has"

    def shown(self, stored: Stored) -> str:
        """Return the numbers of threads and messages."""
        opened = stored.part(self)
        return f"{len(opened.threads)} threads, {len(opened.messages)} messages"


MESSAGES = MessagesPart()
