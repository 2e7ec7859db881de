"""Addresses of chat models: the provider's own, or one set by an option or the environment.

The address is part of a judge's identity: labels given at one say nothing about another.
"""

import asyncio
import os
import re
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit, urlunsplit
from weakref import WeakKeyDictionary

import httpx

from longmemeval.core.http import refuse_other_server
from longmemeval.core.secrets.redaction import Address, public_url, split_address
from longmemeval.llm.costs import load_litellm
from longmemeval.llm.options import ModelOptions, check_endpoint, is_offline
from longmemeval.llm.providers import key_in_environment, split_spec
from longmemeval.llm.rates import gate_for

OWN_ENDPOINT = "provider's own"
"""Address of a model whose calls are not redirected."""

OWN_ADDRESSES = {
    "openai": "https://api.openai.com/v1",
    "anthropic": "https://api.anthropic.com",
    "gemini": "https://generativelanguage.googleapis.com",
}
"""Addresses that `--api-base` may name without redirecting calls; LiteLLM knows those of OpenAI-compatible
providers."""
_VARIABLE = re.compile(r"([A-Z0-9_]{3,}?)_(?:API_BASE|BASE_URL)")
_DEFAULT_PORTS = {"http": ":80", "https": ":443"}


def endpoint(spec: str, options: ModelOptions = ModelOptions()) -> str | None:
    """Return the address that `--api-base` or the environment redirects a model's calls to; None if neither does.

    Raises:
        FatalModelError: LiteLLM knows no such provider, or the address is invalid.
    """
    if options.api_base is not None:
        check_endpoint(options.api_base)
        return options.api_base
    if is_offline(spec):
        return None
    # Loaded before the environment is read: LiteLLM loads a `.env` file into it.
    provider, _ = split_spec(spec)
    return next((os.environ[name] for name in _variables(provider) if os.environ.get(name)), None)


def served_at(spec: str, options: ModelOptions = ModelOptions()) -> str | None:
    """Return a model's address without user, password and query; `OWN_ENDPOINT` for its provider's own.

    Args:
        spec: the model; for an offline model the result is None.

    Raises:
        FatalModelError: LiteLLM knows no such provider, or the address is invalid.
    """
    if is_offline(spec):
        return None
    base = endpoint(spec, options)
    if base is None:
        return OWN_ENDPOINT
    address = _normal(base)
    return OWN_ENDPOINT if address in own_addresses(spec) else address


def cache_addresses(spec: str, options: ModelOptions = ModelOptions()) -> list[str]:
    """Return the forms of a model's address in the keys of its replies: normalised, and as it was given.

    Empty means the provider's own. Replies stored by an earlier version are found if their key has the same address;
    for addresses from the environment it stored none, so those replies count as the provider's own.

    Raises:
        FatalModelError: see `endpoint`.
    """
    served = served_at(spec, options)
    normalised = "" if served in (None, OWN_ENDPOINT) else str(served)
    raw = split_address(endpoint(spec, options) or "").url
    return list(dict.fromkeys((normalised, raw or normalised)))


def _variables(provider: str) -> list[str]:
    """Return the environment variables for a provider's address in LiteLLM; the first one set counts."""
    if provider == "openai":
        return ["OPENAI_BASE_URL", "OPENAI_API_BASE"]
    # One rule for all others: COHERE_API_BASE also applies to `cohere_chat`, the longest name first.
    flat = re.sub("[^a-z0-9]", "", provider.lower())
    named = {name: match[1].replace("_", "").lower() for name in os.environ if (match := _VARIABLE.fullmatch(name))}
    fitting = [name for name, start in named.items() if flat.startswith(start)]
    return sorted(fitting, key=lambda name: (-len(named[name]), name))


def own_addresses(spec: str) -> set[str]:
    """Return the known addresses of the model's own provider."""
    provider, _ = split_spec(spec)
    own = {OWN_ADDRESSES[provider]} if provider in OWN_ADDRESSES else set()
    if not any(os.environ.get(name) for name in _variables(provider)):
        _, _, _, usual = load_litellm().get_llm_provider(model=spec)
        own |= {_normal(usual)} if usual else set()
    return own


def _normal(url: str) -> str:
    """Normalise an address: host in lower case, no default port, no final slash."""
    parts = urlsplit(public_url(url))
    host = parts.netloc.lower().removesuffix(_DEFAULT_PORTS.get(parts.scheme, ""))
    return urlunsplit((parts.scheme, host, parts.path, "", ""))


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
        options: endpoint and time-out.
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
