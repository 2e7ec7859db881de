"""Replies kept on disk, so that a call made once is not paid for again."""

import asyncio
from pathlib import Path
from weakref import WeakValueDictionary

import msgspec

from longmemeval.caches.served import open_cache
from longmemeval.caches.sqlite import cache_key
from longmemeval.costs.receipts import Receipts
from longmemeval.files import sha256_bytes
from longmemeval.llm.options import is_offline
from longmemeval.llm.protocol import ChatModel, ChatReply, ChatRequest
from longmemeval.records import Usage
from longmemeval.secrets.addresses import split_address

_SCHEMA = 1
"""Raised whenever a stored reply may no longer be what the same call gives."""


class _Entry(msgspec.Struct, frozen=True):
    request_sha256: str
    reply: ChatReply


class CachedChatModel:
    """A chat model that remembers its replies.

    For work that is repeated and should come out the same, such as preparing fixtures; not for answers, where each
    call is a measurement. Identical calls under way at once are made once. Failures and empty replies are not kept; a
    damaged entry counts as missing.
    Offline models are passed through: they cost nothing, and answer from fields that never leave the process.

    Args:
        model: the model that answers what is not remembered.
        cache_path: the SQLite file, shared by all models and processes.
        endpoint: where the model is served, when that is not its provider's own address.
        receipts: where each call that was paid for is written down with its reply.
    """

    def __init__(
        self, model: ChatModel, cache_path: Path, *, endpoint: str = "", receipts: Receipts | None = None
    ) -> None:
        self._receipts = receipts
        self._model = model
        # With another password the same server gives the same replies.
        self._endpoint = split_address(endpoint).url
        self._cache = open_cache(cache_path)
        self._under_way: WeakValueDictionary[tuple[asyncio.AbstractEventLoop, bytes], asyncio.Lock] = (
            WeakValueDictionary()
        )

    @property
    def spec(self) -> str:
        """The spec of the model behind."""
        return self._model.spec

    async def complete(self, request: ChatRequest) -> ChatReply:
        """The remembered reply, its usage marked as cached and free of cost, or a new one.

        Raises:
            ModelError: this call failed for good.
            FatalModelError: no call can succeed.
        """
        if is_offline(self.spec):
            return await self._model.complete(request)
        canonical = self._canonical(request)
        key = cache_key("chat", canonical.decode())
        # The dictionary forgets a lock with the last call that holds it.
        lock = self._under_way.setdefault((asyncio.get_running_loop(), key), asyncio.Lock())
        async with lock:
            remembered = self._remembered(key)
            if remembered is not None:
                return _as_cached(remembered)
            reply = await self._model.complete(request)
            entry = msgspec.json.encode(_Entry(sha256_bytes(canonical), reply))
            values = {key: entry} if reply.text else {}
            if self._receipts:
                self._receipts.store(self._cache, values, reply.usage)
            else:
                self._cache.put_many(values)
            return reply

    def _canonical(self, request: ChatRequest) -> bytes:
        """Everything that can change the reply, as JSON with sorted keys."""
        return msgspec.json.encode(
            {
                "schema": _SCHEMA,
                "spec": self.spec,
                "endpoint": self._endpoint,
                "messages": request.messages,
                "temperature": request.temperature,
                "max_tokens": request.max_tokens,
            },
            order="sorted",
        )

    def _remembered(self, key: bytes) -> ChatReply | None:
        entry = self._cache.get_record(key, _Entry)
        return entry.reply if entry else None


def _as_cached(reply: ChatReply) -> ChatReply:
    usage = Usage(
        calls=1,
        cached_calls=1,
        prompt_tokens=reply.usage.prompt_tokens,
        completion_tokens=reply.usage.completion_tokens,
    )
    return msgspec.structs.replace(reply, usage=usage, attempts=0, latency_ms=0.0)
