"""LiteLLM's calls in an event loop: its connections close with the loop, and no two calls start at the same moment."""

import asyncio
from collections.abc import AsyncGenerator
from types import ModuleType
from weakref import WeakKeyDictionary

from longmemeval.llm.http.wire import watch_requests

_open_connections: WeakKeyDictionary[asyncio.AbstractEventLoop, AsyncGenerator[None, None]] = WeakKeyDictionary()


async def close_connections_with_the_loop(litellm: ModuleType) -> None:
    """Ensure that LiteLLM's connections of the running event loop are closed when it ends.

    LiteLLM keeps them, by the memory address of the loop, as long as the process lives; a later loop may get the same
    address. The only moment to close them is when `asyncio.run` finishes every started async generator.
    """
    loop = asyncio.get_running_loop()
    if loop not in _open_connections:
        watch_requests(litellm)
        _open_connections[loop] = connections = _connections(litellm, f"-{id(loop)}")
        await anext(connections)


async def _connections(litellm: ModuleType, key_end: str) -> AsyncGenerator[None, None]:
    try:
        yield
    finally:
        cache = litellm.in_memory_llm_clients_cache
        for key in [key for key in list(cache.cache_dict) if key.endswith(key_end)]:
            client = cache.cache_dict[key]
            cache.delete_cache(key)
            await client.close()


_beginnings: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()


async def one_at_a_time() -> None:
    """Return when this call may start: one per round of the event loop.

    LiteLLM takes some milliseconds to start a call, and some more to read its reply. If many calls start in one round,
    and are answered in one, each waits for all the others, and that wait would be measured as the model's.
    """
    async with _beginnings.setdefault(asyncio.get_running_loop(), asyncio.Lock()):
        await asyncio.sleep(0)
