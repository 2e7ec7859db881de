"""Times at which a request left and its reply arrived: LiteLLM's own computing is not the model's time.

For a prompt of half a megabyte that computing takes ten milliseconds, and three times as much if 64 calls share a loop.
"""

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module
from types import ModuleType
from typing import Any

import httpx

from longmemeval.core.http import refuse_other_server


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
