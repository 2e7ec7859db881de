"""Replies to forwarded requests of other programs, cached on disk next to those of our own."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from longmemeval.llm.cache import CachedReply, ReplyCache
from longmemeval.llm.costs.receipts import Receipts
from longmemeval.llm.http.forward import Forwarded, ForwardedModel, relevant


class CachedForwarding:
    """Answers repeated requests from the cache; limits concurrent calls, and never makes two identical ones at once.

    All methods are called in one event loop.

    Args:
        model: answers requests that are not cached.
        cache_path: the SQLite file; None: nothing is cached.
        endpoints: addresses of the model, as by `cache_addresses`; replies are stored under the first.
        concurrency: maximum number of concurrent calls.
    """

    def __init__(
        self, model: ForwardedModel, cache_path: Path | None, endpoints: Sequence[str], concurrency: int
    ) -> None:
        self.spec = model.spec
        self.get_ready = model.get_ready
        self._model = model
        self._replies = ReplyCache(
            "forwarded", CachedReply[Forwarded], cache_path, model.spec, endpoints, in_threads=True
        )
        self._places = asyncio.Semaphore(concurrency)

    def canonical(self, body: Mapping[str, Any]) -> bytes:
        """Return everything that can change the reply, as JSON with sorted keys."""
        return self._replies.canonicals({"body": relevant(body)})[0]

    async def forward(self, body: Mapping[str, Any], receipts: Receipts | None) -> tuple[Forwarded, bool]:
        """Return the reply, and whether it came from the cache.

        Raises:
            HarnessError: there is no reply; see `ForwardedModel.forward`.
        """

        async def call() -> Forwarded:
            async with self._places:
                return await self._model.forward(body)

        return await self._replies.get({"body": relevant(body)}, call, receipts)
