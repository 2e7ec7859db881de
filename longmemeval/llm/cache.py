"""Replies cached on disk, so that a call made once is not paid for again."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from weakref import WeakValueDictionary

import msgspec

from longmemeval.core.caches.flights import only_maker
from longmemeval.core.caches.served import open_cache
from longmemeval.core.caches.sqlite import cache_key
from longmemeval.core.files import sha256_bytes
from longmemeval.llm.costs.receipts import Receipts
from longmemeval.llm.http.endpoints import cache_addresses
from longmemeval.llm.options import ModelOptions, is_offline
from longmemeval.llm.protocol import ChatModel, ChatReply, ChatRequest

_SCHEMA = 1
"""Increased whenever a stored reply may no longer be what the same call gives."""


class _Entry(msgspec.Struct, frozen=True):
    request_sha256: str
    reply: ChatReply


class CachedChatModel:
    """A chat model that caches its replies.

    For work that is repeated and should come out the same, such as preparing fixtures; not for answers, where each
    call is a measurement. Identical concurrent calls are made once. Failures and empty replies are not cached; a
    damaged entry counts as missing.
    Offline models are passed through: they cost nothing, and answer from fields that never leave the process.

    Args:
        model: the model that answers requests not in the cache.
        cache_path: the SQLite file, shared by all models and processes.
        options: connection options: under one name, another address serves another model.
        receipts: records each paid call together with its reply.
    """

    def __init__(
        self,
        model: ChatModel,
        cache_path: Path,
        *,
        options: ModelOptions = ModelOptions(),
        receipts: Receipts | None = None,
    ) -> None:
        self._receipts = receipts
        self._model, self.spec = model, model.spec
        # Without user information: the same server gives the same replies with another password.
        self._endpoints = [] if is_offline(model.spec) else cache_addresses(model.spec, options)
        self._cache = open_cache(cache_path)
        self._under_way: WeakValueDictionary[tuple[asyncio.AbstractEventLoop, bytes], asyncio.Lock] = (
            WeakValueDictionary()
        )

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Return the cached reply, its usage marked as cached and free of cost, or a new one.

        Raises:
            ModelError: this call failed for good.
            FatalModelError: no call can succeed.
        """
        if is_offline(self.spec):
            return await self._model.complete(request)
        canonicals = [self._canonical(request, endpoint) for endpoint in self._endpoints]
        key, *earlier = (cache_key("chat", canonical.decode()) for canonical in canonicals)
        # The dictionary forgets a lock with the last call that holds it.
        lock = self._under_way.setdefault((asyncio.get_running_loop(), key), asyncio.Lock())
        async with lock:
            remembered = self._remembered([key, *earlier])
            if remembered is not None:
                return _as_cached(remembered)
            return await self._call_model(request, key, canonicals[0])

    async def _call_model(self, request: ChatRequest, key: bytes, canonical: bytes) -> ChatReply:
        async with only_maker(self._cache, key):
            # Another process may just have stored it.
            if (remembered := self._remembered([key])) is not None:
                return _as_cached(remembered)
            reply = await self._model.complete(request)
            entry = msgspec.json.encode(_Entry(sha256_bytes(canonical), reply))
            values = {key: entry} if reply.text else {}
            if self._receipts:
                self._receipts.store(self._cache, values, reply.usage)
            else:
                self._cache.put_many(values)
            return reply

    def _canonical(self, request: ChatRequest, endpoint: str) -> bytes:
        """Return everything that can change the reply, as JSON with sorted keys."""
        return msgspec.json.encode(
            {
                "schema": _SCHEMA,
                "spec": self.spec,
                "endpoint": endpoint,
                "messages": request.messages,
                "temperature": request.temperature,
                "max_tokens": request.max_tokens,
            },
            order="sorted",
        )

    def _remembered(self, keys: Sequence[bytes]) -> ChatReply | None:
        entries = (self._cache.get_record(key, _Entry) for key in keys)
        entry = next(filter(None, entries), None)
        return entry.reply if entry else None


def _as_cached(reply: ChatReply) -> ChatReply:
    return msgspec.structs.replace(reply, usage=reply.usage.from_cache(), attempts=0, latency_ms=0.0)
