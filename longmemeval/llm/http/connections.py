"""Connections to chat models: when a request left and its reply arrived, and where LiteLLM is to send it."""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module
from types import ModuleType
from typing import Any
from weakref import WeakKeyDictionary

import httpx

from longmemeval.core.http import refuse_other_server
from longmemeval.core.secrets.redaction import Address
from longmemeval.llm.http.endpoints import endpoint, own_addresses
from longmemeval.llm.options import ModelOptions
from longmemeval.llm.providers import key_in_environment
from longmemeval.llm.rates import gate_for

# Times at which a request left and its reply arrived: LiteLLM's own computing is not the model's time.
#
# For a prompt of half a megabyte that computing takes ten milliseconds, and three times as much if 64 calls share a
# loop.


class Wire:
    """The times of one attempt, in seconds of `time.perf_counter`; None if not known."""

    def __init__(self) -> None:
        self.sent: float | None = None
        """Time at which the first request was handed to a connection."""
        self.replied: float | None = None
        """Time at which the last byte of the last reply was read."""


_watched: ContextVar[Wire | None] = ContextVar("wire", default=None)


@contextmanager
def watched() -> Iterator[Wire]:
    """Record the times of requests made inside the context."""
    wire = Wire()
    token = _watched.set(wire)
    try:
        yield wire
    finally:
        _watched.reset(token)


def watch_requests(litellm: ModuleType) -> None:
    """Make LiteLLM's future connections record when they send and when they have read a reply.

    A LiteLLM version that creates them in another way is left alone; its calls are then timed from outside.
    """
    handler: Any = getattr(
        import_module(f"{litellm.__name__}.llms.custom_httpx.http_handler"), "AsyncHTTPHandler", None
    )
    make: Callable[..., Any] | None = getattr(handler, "create_async_transport", None)
    if make is None or getattr(make, "is_watched", False):
        return

    def create_watched(*arguments: object, **named: object) -> httpx.AsyncBaseTransport | None:
        transport: httpx.AsyncBaseTransport | None = make(*arguments, **named)
        if transport is not None:
            vars(transport)["handle_async_request"] = _timed(transport.handle_async_request)
        return transport

    vars(create_watched)["is_watched"] = True
    handler.create_async_transport = staticmethod(create_watched)


_Handle = Callable[[httpx.Request], Awaitable[httpx.Response]]


def _timed(handle: _Handle) -> _Handle:
    async def timed(request: httpx.Request) -> httpx.Response:
        wire = _watched.get()
        if wire and wire.sent is None:
            wire.sent = time.perf_counter()
        response = await handle(request)
        refuse_other_server(response, request)
        if wire and isinstance(response.stream, httpx.AsyncByteStream):
            response.stream = _Timed(response.stream, wire)
        return response

    return timed


class _Timed(httpx.AsyncByteStream):
    """The bytes of a reply; records when the last byte was read."""

    def __init__(self, stream: httpx.AsyncByteStream, wire: Wire) -> None:
        self._stream, self._wire = stream, wire

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in self._stream:
            self._wire.replied = time.perf_counter()
            yield part

    async def aclose(self) -> None:
        await self._stream.aclose()


# LiteLLM's calls in an event loop: its connections close with the loop, and no two calls start at the same moment.

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


# Endpoint of a model's calls, and the matching arguments of LiteLLM.

CONNECT_S = 10.0
"""Longest wait for a connection, seconds; LiteLLM tries twice."""


class Destination:
    """The endpoint of a model.

    Args:
        options: endpoint and timeout.
        api_key: sent with each call; None leaves it to LiteLLM and the environment.
        address: destination of calls; None leaves that to LiteLLM and the environment.

    Attributes:
        name: the model and its address, for messages.
        served_at: address to connect to in advance; None if unknown.
        gate: limiter of its calls under the provider's limits.
    """

    def __init__(self, spec: str, options: ModelOptions, api_key: str | None, address: Address | None) -> None:
        self._spec, self._timeout_s, self._api_key, self._address = spec, options.timeout_s, api_key, address
        self.name = f"{spec} at {address.url}" if address else spec
        self.served_at = address.url if address else endpoint(spec, options) or next(iter(own_addresses(spec)), None)
        self.gate = gate_for(spec, self.served_at or "", api_key or key_in_environment(spec), options.rates)

    def arguments(self, seconds: float) -> dict[str, Any]:
        """Return LiteLLM's arguments besides the request, for one attempt of at most `seconds` seconds."""
        return {
            "model": self._spec,
            # A dead address is noticed much sooner than a slow model.
            "timeout": httpx.Timeout(self._timeout_s, connect=min(seconds / 4, CONNECT_S)),
            "api_base": self._address.url if self._address else None,
            "extra_headers": self._address.headers if self._address else None,
            "api_key": self._api_key,
            "num_retries": 0,
            "max_retries": 0,
            # A model that takes no temperature is called without one; `registry.model_warning` says so.
            "drop_params": True,
        }
