"""One history at a memory service, opened, filled and searched by a trial."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from longmemeval.memory.external.ids import OpaqueIds, scope_id
from longmemeval.memory.external.ingestion.batches import batches
from longmemeval.memory.external.messages import Add, Open, Search
from longmemeval.memory.external.recalled import recalled_items
from longmemeval.memory.external.transports.service import MemoryService
from longmemeval.records import Message, RecalledItem


class TriedScope:
    """A scope for a trial, with the ids that were sent and the refs that came back.

    Args:
        name: the name of the history.
        messages: all messages of the history, oldest first.
        distinct: texts that distinguish the scope from those of other trials, which the service may still have.
    """

    def __init__(self, service: MemoryService, name: str, messages: Sequence[Message], *distinct: str) -> None:
        self.service, self.messages = service, messages
        self.id = scope_id(*distinct)
        self.ids = OpaqueIds(name, messages)
        self._refs: dict[str, tuple[str, ...]] = {}

    async def open(
        self,
        folder: Path,
        configuration: Mapping[str, Any],
        models: Mapping[str, Any],
        reference: str = "",
        mode: Literal["prepare", "read"] = "prepare",
    ) -> tuple[str, ...]:
        """Open the scope and return the ids of the batches it has; for `models` see `ProxiedScope.fields`."""
        folder.mkdir(parents=True, exist_ok=True)
        request = Open(self.id, str(folder), mode, dict(configuration), reference, **models)
        return (await self.service.open(request)).batch_ids

    async def batches(self) -> list[Add]:
        """Return the history in batches of the service's unit."""
        return list(batches(self.id, self.messages, self.ids, (await self.service.hello()).capabilities.unit))

    async def add(self, batch: Add) -> None:
        """Add a batch."""
        self._refs |= (await self.service.add(batch)).refs

    async def search(self, query: str, date: datetime, limit: int) -> tuple[RecalledItem, ...]:
        """Return the items found, best first."""
        found = await self.service.search(Search(self.id, query, date, limit))
        return recalled_items(found.items, self.ids, self._refs)

    async def held(self) -> tuple[RecalledItem, ...]:
        """Return all items that the service lists."""
        return recalled_items((await self.service.list(self.id)).items, self.ids, self._refs)
