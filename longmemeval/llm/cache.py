"""A cache of replies on disk, so that no call is paid for twice."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Any, Generic, Protocol, TypeVar
from weakref import WeakValueDictionary

import msgspec
from msgspec import Struct

from longmemeval.core.caches import cache_key, key_lock, open_cache
from longmemeval.core.files import sha256_bytes
from longmemeval.llm.costs import Receipts
from longmemeval.llm.http.endpoints import cache_addresses
from longmemeval.llm.options import ModelOptions, is_offline
from longmemeval.llm.protocol import ChatModel, ChatReply, ChatRequest
from longmemeval.records import Usage

_SCHEMA = 1
"""Version, increased whenever a stored reply may differ from what the same call would now return."""


class Cacheable(Protocol):
    """A reply that was paid for."""

    @property
    def usage(self) -> Usage:
        """Cost of the reply."""
        ...

    @property
    def is_empty(self) -> bool:
        """True if the reply has no content; such a reply is not cached."""
        ...


R = TypeVar("R", bound=Cacheable)
T = TypeVar("T")


class CachedReply(Struct, Generic[R], frozen=True):
    """An entry of the cache."""

    request_sha256: str
    reply: R


class ReplyCache(Generic[R]):
    """The replies of one model by request. Of several identical calls, here or in other processes, only one is made.

    Failures and empty replies are not cached; a damaged entry counts as missing.

    Args:
        kind: keeps replies of different kinds apart.
        entry: type of an entry.
        path: the SQLite file, shared by all models and processes; None: nothing is cached.
        spec: the model.
        endpoints: its addresses, as by `cache_addresses`; replies are stored under the first.
        in_threads: True to look up and store in threads, for an event loop that must not block.
    """

    def __init__(
        self,
        kind: str,
        entry: type[CachedReply[R]],
        path: Path | None,
        spec: str,
        endpoints: Sequence[str],
        *,
        in_threads: bool = False,
    ) -> None:
        self._kind, self._entry = kind, entry
        self._spec, self._endpoints = spec, endpoints
        self._in_threads = in_threads
        self._cache = open_cache(path) if path else None
        self._using = Lock()
        self._under_way: WeakValueDictionary[tuple[asyncio.AbstractEventLoop, bytes], asyncio.Lock] = (
            WeakValueDictionary()
        )

    def canonicals(self, fields: Mapping[str, Any]) -> list[bytes]:
        """Return everything that can change the reply, as JSON with sorted keys, for each of the addresses."""
        whole = {"schema": _SCHEMA, "spec": self._spec, **fields}
        return [msgspec.json.encode(whole | {"endpoint": address}, order="sorted") for address in self._endpoints]

    async def get(
        self, fields: Mapping[str, Any], call: Callable[[], Awaitable[R]], receipts: Receipts | None
    ) -> tuple[R, bool]:
        """Return the reply, and whether it came from the cache.

        Args:
            fields: the fields that can change the reply.
            call: makes the call.
            receipts: records a paid call together with its reply.
        """
        canonicals = await self._run(self.canonicals, fields)
        keys = [cache_key(self._kind, canonical.decode()) for canonical in canonicals]
        # The dictionary drops a lock together with the last call that holds it.
        lock = self._under_way.setdefault((asyncio.get_running_loop(), keys[0]), asyncio.Lock())
        async with lock:
            if found := await self._run(self._look_up, keys):
                return found, True
            async with key_lock(self._cache, keys[0]):
                # Another process may have stored it in the meantime.
                if found := await self._run(self._look_up, keys[:1]):
                    return found, True
                reply = await call()
                await self._run(self._store, keys[0], canonicals[0], reply, receipts)
                return reply, False

    async def _run(self, work: Callable[..., T], *arguments: object) -> T:
        return await asyncio.to_thread(work, *arguments) if self._in_threads else work(*arguments)

    def _look_up(self, keys: Sequence[bytes]) -> R | None:
        if self._cache is None:
            return None
        with self._using:
            entries = (self._cache.get_record(key, self._entry) for key in keys)
            entry = next(filter(None, entries), None)
        return entry.reply if entry else None

    def _store(self, key: bytes, canonical: bytes, reply: R, receipts: Receipts | None) -> None:
        if self._cache is None:
            return
        # An empty reply is paid for too.
        entry = {} if reply.is_empty else {key: msgspec.json.encode(CachedReply(sha256_bytes(canonical), reply))}
        with self._using:
            if receipts:
                receipts.store(self._cache, entry, reply.usage)
            else:
                self._cache.put_many(entry)


class CachedChatModel:
    """A chat model that caches its replies.

    For work that is repeated and should come out the same, such as preparing fixtures; not for answers, where each
    call is a measurement. Offline models are passed through: they cost nothing, and answer from fields that never leave
    the process.

    Args:
        model: the model that answers requests not in the cache.
        cache_path: the SQLite file.
        options: connection options: the same name at another address is another model.
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
        self._decisive = {"options": options.recorded} if options.recorded else {}
        self._model, self.spec = model, model.spec
        # Without user information: the same server gives the same replies with another password.
        endpoints = [] if is_offline(model.spec) else cache_addresses(model.spec, options)
        self._replies = ReplyCache("chat", CachedReply[ChatReply], cache_path, model.spec, endpoints)

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Return the cached reply, its usage marked as cached and free of cost, or a new one.

        Raises:
            ModelError: this call failed for good.
            FatalModelError: no call can succeed.
        """
        if is_offline(self.spec):
            return await self._model.complete(request)
        fields = {name: getattr(request, name) for name in ("messages", "temperature", "max_tokens")} | self._decisive
        reply, cached = await self._replies.get(fields, lambda: self._model.complete(request), self._receipts)
        if not cached:
            return reply
        return msgspec.structs.replace(reply, usage=reply.usage.from_cache(), attempts=0, latency_ms=0.0)
