"""The part `db`: the messages of a haystack."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

import msgspec

from longmemeval.core.part_options import PartOptions
from longmemeval.errors import FixtureError
from longmemeval.records import PartInfo
from longmemeval.storage.format import REMAKE
from longmemeval.storage.memory_store import MemoryStore
from longmemeval.storage.parts import Part, PartInput, PartOutput, PartTools, Stored

DOCUMENT = "working_memory"
"""In recipes of an earlier version: the recipe of the working memory, which was in `db.json` then."""

# Indented JSON: extra bytes of a message and of a thread compared to their compact JSON.
_MESSAGE_INDENT, _THREAD_BYTES = 65, 175


class MessagesPart(Part[MemoryStore]):
    """All messages, by threads."""

    name = "db"

    def recipe(self, tools: PartTools) -> dict[str, Any]:
        """Return the fixed recipe: nothing can be configured."""
        return {"version": 1, DOCUMENT: None}

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
        """Estimate the size from the form of the file."""
        text = len(msgspec.json.encode(source.messages))
        return text + _MESSAGE_INDENT * len(source.messages) + _THREAD_BYTES * len(source.haystack.sessions)

    def comparable_recipe(self, recipe: Mapping[str, Any]) -> dict[str, Any]:
        """Return the recipe without the working memory, which does not matter for reading messages."""
        return {**recipe, DOCUMENT: None}

    def check_replaced(self, info: PartInfo, made: Collection[str], where: str) -> None:
        """Refuse to drop a working memory that an earlier version stored: it may have been paid for.

        Raises:
            FixtureError: it would be dropped.
        """
        if info.recipe.get(DOCUMENT) and "working-memory" not in made:
            raise FixtureError(
                "Making part 'db' again for these configurations alone would drop its working memory",
                where=where,
                fix="Add --memory working-memory, or choose another --name",
            )

    def contradictions(self, stored: Stored) -> Iterator[str]:
        """Iterate over contradictions to `meta.json`."""
        store = stored.part(self)
        if tuple(thread.id for thread in store.threads) != stored.meta.thread_ids:
            yield "names other threads than db.json has"
        if stored.info and (store.working_memory is not None) != bool(stored.info.recipe.get(DOCUMENT)):
            yield "has another working memory than db.json has"

    def shown(self, stored: Stored) -> str:
        """Return the numbers of threads and messages."""
        opened = stored.part(self)
        return f"{len(opened.threads)} threads, {len(opened.messages)} messages"


MESSAGES = MessagesPart()
