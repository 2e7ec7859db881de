"""Warm-up before a process's first timed call, so that it takes no longer than the calls that follow.

LiteLLM loads much of itself, and the client behind it, on the first call: a second or two that would count as the
model's. So we rehearse one call against our own server on the loopback, without a key or a question, and open and close
one connection to the model's own address: name look-up and TLS, not a byte of a request.
"""

import asyncio
import json
import ssl
from contextlib import suppress
from types import ModuleType
from urllib.parse import urlsplit
from urllib.request import getproxies
from weakref import WeakKeyDictionary

from longmemeval.core.on_demand import without_collector
from longmemeval.llm.http.connections import close_connections_with_the_loop

_PATIENCE_S = 5.0
"""Seconds to wait for the connection; after that, the first call reports what is wrong."""
_MODEL = "openai/rehearsal"
_REPLY = {
    "id": "rehearsal",
    "object": "chat.completion",
    "created": 0,
    "model": "rehearsal",
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Ready."}}],
    "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
}

_rehearsed: set[str] = set()
"""Set that contains `done` once this process has rehearsed a call."""
_warming: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, asyncio.Task[None]]] = WeakKeyDictionary()


async def warm_up(litellm: ModuleType, address: str | None) -> None:
    """Return when calls to `address` are ready to be timed; concurrent calls share one warm-up.

    Args:
        address: address of the model's server; None: not known, so no connection is made.
    """
    under_way = _warming.setdefault(asyncio.get_running_loop(), {})
    key = address or ""
    if key not in under_way:
        under_way[key] = asyncio.create_task(_warm_up(litellm, address))
    if not under_way[key].done():
        await asyncio.shield(under_way[key])


async def _warm_up(litellm: ModuleType, address: str | None) -> None:
    if not _rehearsed:
        _rehearsed.add("done")
        # Anything that makes the rehearsal fail (for example a proxy for the loopback) does not matter to the calls.
        with suppress(Exception), without_collector(for_good=True):
            # In a thread: loading is work, and other calls may be under way in this loop.
            await asyncio.to_thread(lambda: asyncio.run(_rehearse(litellm)))
    if address and not getproxies():
        with suppress(OSError, TimeoutError, ValueError):
            async with asyncio.timeout(_PATIENCE_S):
                await _connect(address)


async def _rehearse(litellm: ModuleType) -> None:
    await close_connections_with_the_loop(litellm)
    body = json.dumps(_REPLY).encode()
    reply = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(reply)
            await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        await litellm.acompletion(
            model=_MODEL,
            messages=[{"role": "user", "content": "Ready?"}],
            temperature=0.0,
            max_tokens=1,
            api_base=f"http://127.0.0.1:{port}",
            api_key="rehearsal",
            timeout=_PATIENCE_S,
            num_retries=0,
            max_retries=0,
        )


async def _connect(address: str) -> None:
    parts = urlsplit(address)
    secure = parts.scheme == "https"
    port = parts.port or (443 if secure else 80)
    context = ssl.create_default_context() if secure else None
    _, writer = await asyncio.open_connection(parts.hostname, port, ssl=context)
    writer.close()
    await writer.wait_closed()
