"""Replies to forwarded requests of other programs, cached on disk next to those of our own."""

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
        self._model = model
        self._endpoints = endpoints
        self._cache = open_cache(cache_path) if cache_path else None
        self._writing = Lock()
        self._places = asyncio.Semaphore(concurrency)
        self._under_way: WeakValueDictionary[bytes, asyncio.Lock] = WeakValueDictionary()

    async def get_ready(self) -> None:
        """Load what the first call would otherwise have to wait for."""
        await self._model.get_ready()

    def canonical(self, body: Mapping[str, Any]) -> bytes:
        """Return everything that can change the reply, as JSON with sorted keys."""
        return self._canonicals(body)[0]

    def _canonicals(self, body: Mapping[str, Any]) -> list[bytes]:
        request = {"schema": _SCHEMA, "spec": self.spec, "body": relevant(body)}
        return [msgspec.json.encode(request | {"endpoint": address}, order="sorted") for address in self._endpoints]

    async def forward(self, body: Mapping[str, Any], receipts: Receipts | None) -> tuple[Forwarded, bool]:
        """Return the reply, and whether it came from the cache.

        Raises:
            HarnessError: there is none; see `ForwardedModel.forward`.
        """
        canonicals = await asyncio.to_thread(self._canonicals, body)
        key, *earlier = (cache_key("forwarded", canonical.decode()) for canonical in canonicals)
        lock = self._under_way.setdefault(key, asyncio.Lock())
        async with lock:
            if cached := await asyncio.to_thread(self._cached, [key, *earlier]):
                return cached, True
            return await self._call_model(body, key, canonicals[0], receipts)

    async def _call_model(
        self, body: Mapping[str, Any], key: bytes, canonical: bytes, receipts: Receipts | None
    ) -> tuple[Forwarded, bool]:
        async with only_maker(self._cache, key):
            # Another process may just have stored it.
            if cached := await asyncio.to_thread(self._cached, [key]):
                return cached, True
            async with self._places:
                reply = await self._model.forward(body)
            await asyncio.to_thread(self._keep, key, canonical, reply, receipts)
            return reply, False

    def _cached(self, keys: Sequence[bytes]) -> Forwarded | None:
        if self._cache is None:
            return None
        with self._writing:
            entries = (self._cache.get_record(key, _Entry) for key in keys)
            entry = next(filter(None, entries), None)
        return entry.reply if entry else None

    def _keep(self, key: bytes, canonical: bytes, reply: Forwarded, receipts: Receipts | None) -> None:
        if self._cache is None:
            return
        # An empty reply is paid for too.
        entry = {} if reply.is_empty else {key: msgspec.json.encode(_Entry(sha256_bytes(canonical), reply))}
        with self._writing:
            if receipts:
                receipts.store(self._cache, entry, reply.usage)
            else:
                self._cache.put_many(entry)
