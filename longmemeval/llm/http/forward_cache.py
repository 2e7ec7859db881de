"""Replies to requests of other programs, kept on disk beside those of our own."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Any
from weakref import WeakValueDictionary

import msgspec
from msgspec import Struct

from longmemeval.core.caches.flights import only_maker
from longmemeval.core.caches.served import open_cache
from longmemeval.core.caches.sqlite import cache_key
from longmemeval.core.files import sha256_bytes
from longmemeval.llm.costs.receipts import Receipts
from longmemeval.llm.http.forward import Forwarded, ForwardedModel, relevant

_SCHEMA = 1


class _Entry(Struct, frozen=True):
    request_sha256: str
    reply: Forwarded


class CachedForwarding:
    """Answers from the cache what was answered before; so many calls under way at once, and no two alike.

    All methods are called in one event loop.

    Args:
        model: answers what is not kept.
        cache_path: the SQLite file; None: nothing is kept.
        endpoints: where the model is served, as `cache_addresses` says; the first is the one to keep replies under.
        concurrency: calls under way at one time.
    """

    def __init__(
        self, model: ForwardedModel, cache_path: Path | None, endpoints: Sequence[str], concurrency: int
    ) -> None:
        self.spec = model.spec
        self._model = model
        self._endpoints = endpoints
        self._cache = open_cache(cache_path) if cache_path else None
        self._writing = Lock()
        self._places = asyncio.Semaphore(concurrency)
        self._under_way: WeakValueDictionary[bytes, asyncio.Lock] = WeakValueDictionary()

    async def get_ready(self) -> None:
        """Load what the first call would have to wait for."""
        await self._model.get_ready()

    def canonical(self, body: Mapping[str, Any]) -> bytes:
        """Everything that can change the reply, as JSON with sorted keys."""
        return self._canonicals(body)[0]

    def _canonicals(self, body: Mapping[str, Any]) -> list[bytes]:
        asked = {"schema": _SCHEMA, "spec": self.spec, "body": relevant(body)}
        return [msgspec.json.encode(asked | {"endpoint": one}, order="sorted") for one in self._endpoints]

    async def forward(self, body: Mapping[str, Any], receipts: Receipts | None) -> tuple[Forwarded, bool]:
        """The reply, and whether it was kept from before.

        Raises:
            HarnessError: there is none; see `ForwardedModel.forward`.
        """
        canonicals = await asyncio.to_thread(self._canonicals, body)
        key, *earlier = (cache_key("forwarded", canonical.decode()) for canonical in canonicals)
        lock = self._under_way.setdefault(key, asyncio.Lock())
        async with lock:
            if kept := await asyncio.to_thread(self._kept, [key, *earlier]):
                return kept, True
            return await self._made(body, key, canonicals[0], receipts)

    async def _made(
        self, body: Mapping[str, Any], key: bytes, canonical: bytes, receipts: Receipts | None
    ) -> tuple[Forwarded, bool]:
        async with only_maker(self._cache, key):
            # Another process may have made it just now.
            if kept := await asyncio.to_thread(self._kept, [key]):
                return kept, True
            async with self._places:
                reply = await self._model.forward(body)
            await asyncio.to_thread(self._keep, key, canonical, reply, receipts)
            return reply, False

    def _kept(self, keys: Sequence[bytes]) -> Forwarded | None:
        if self._cache is None:
            return None
        with self._writing:
            entries = (self._cache.get_record(key, _Entry) for key in keys)
            entry = next(filter(None, entries), None)
        return entry.reply if entry else None

    def _keep(self, key: bytes, canonical: bytes, reply: Forwarded, receipts: Receipts | None) -> None:
        if self._cache is None:
            return
        # An empty reply is paid for all the same.
        entry = {} if reply.is_empty else {key: msgspec.json.encode(_Entry(sha256_bytes(canonical), reply))}
        with self._writing:
            if receipts:
                receipts.store(self._cache, entry, reply.usage)
            else:
                self._cache.put_many(entry)
