"""Connections to chat models: when a request left and its reply arrived, and where it is sent."""

import asyncio
import os
import ssl
from collections.abc import Callable, Collection, Coroutine, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any, Protocol, TypeVar
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

import msgspec

from longmemeval.core.http import proxy_for, without_proxy_here
from longmemeval.core.secrets.redaction import Address
from longmemeval.llm.costs import reply_cost, usage_in_form
from longmemeval.llm.http.endpoints import endpoint, own_addresses
from longmemeval.llm.options import ModelOptions
from longmemeval.llm.providers import AZURE_VERSIONS, key_in_environment, setting, split_spec
from longmemeval.llm.rates import gate_for

T = TypeVar("T")

# Times at which a request left and its reply arrived: computing around them is not the model's time.
#
# For a prompt of half a megabyte LiteLLM's takes ten milliseconds, and three times as much if 64 calls share a
# loop.


class Wire:
    """The times of one attempt, in seconds of `time.perf_counter`; None if not known."""

    def __init__(self) -> None:
        self.sent: float | None = None
        """Time at which the first request was handed to a connection."""
        self.replied: float | None = None
        """Time at which the last byte of the last reply was read."""
        self.body: Callable[[], bytes] = bytes
        """Returns the last reply as the server sent it; empty if the way to the model reads it itself."""


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


def current_wire() -> Wire:
    """Return the times of the attempt that is being made."""
    return _watched.get() or Wire()


# The start of calls in an event loop: no two at the same moment, and connections made before.

_beginnings: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()


async def one_at_a_time() -> None:
    """Return when this call may start: one per round of the event loop.

    LiteLLM takes some milliseconds to start a call, and some more to read its reply. If many calls start in one round,
    and are answered in one, each waits for all the others, and that wait would be measured as the model's.
    """
    async with _beginnings.setdefault(asyncio.get_running_loop(), asyncio.Lock()):
        await asyncio.sleep(0)


_begun: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, asyncio.Task[Any]]] = WeakKeyDictionary()


async def once(name: str, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Return the result of `work`, which is done once for each name and event loop; concurrent callers share it."""
    begun = _begun.setdefault(asyncio.get_running_loop(), {})
    if name not in begun:
        begun[name] = asyncio.create_task(work())
    if not begun[name].done():
        await asyncio.shield(begun[name])
    result: T = begun[name].result()
    return result


_PATIENCE_S = 5.0
"""Seconds to wait for the connection; after that, the first call reports what is wrong."""


async def try_connection(address: str | None) -> None:
    """Open and close a connection to a model's server: name look-up and TLS, not a byte of a request."""
    if not address or proxy_for(address).url:
        return
    with suppress(OSError, TimeoutError, ValueError):
        async with asyncio.timeout(_PATIENCE_S):
            parts = urlsplit(address)
            secure = parts.scheme == "https"
            port = parts.port or (443 if secure else 80)
            context = ssl.create_default_context() if secure else None
            _, writer = await asyncio.open_connection(parts.hostname, port, ssl=context)
            writer.close()
            await writer.wait_closed()


# Endpoint of a model's calls, and the ways to it.

CONNECT_S = 10.0
"""Longest wait for a connection, seconds; LiteLLM tries twice."""


class Response(Protocol):
    """A reply with a status below 400."""

    @property
    def headers(self) -> Mapping[str, object]:
        """Its headers."""
        ...

    def read(self, kind: type[T]) -> T:
        """Return the document as `kind`."""
        ...

    def cost(self) -> float | None:
        """Return its US dollars by LiteLLM's table; None when they cannot be determined."""
        ...


class DirectResponse:
    """A reply of a server that speaks OpenAI's protocol; see `Response`."""

    def __init__(self, spec: str, document: dict[str, Any], headers: Mapping[str, str]) -> None:
        self._spec, self.headers = spec, headers
        self._document = document | {"usage": usage_in_form(document.get("usage"))}

    def read(self, kind: type[T]) -> T:
        """Return the document as `kind`."""
        return msgspec.convert(self._document, kind, strict=False)

    def cost(self) -> float | None:
        """Return its US dollars by LiteLLM's table; None when they cannot be determined."""
        return reply_cost(self._spec, self._document)


class Way(Protocol):
    """A way to send the requests of one model."""

    async def get_ready(self) -> None:
        """Load and connect what the first call would otherwise have to wait for."""
        ...

    async def send(self, parameters: Mapping[str, Any], seconds: float, exact: Collection[str] = ()) -> Response:
        """Send a request and return its reply; `meaning_of` explains what it raises.

        Args:
            parameters: the request, by OpenAI's names.
            seconds: time limit.
            exact: fields that are sent as they are, even if this model is thought to refuse them.
        """
        ...


class Destination:
    """The endpoint of a model.

    Args:
        options: endpoint and timeout.
        api_key: sent with each call; None leaves it to LiteLLM and the environment.
        address: destination of calls; None leaves that to LiteLLM and the environment.

    Attributes:
        name: the model, its address and the proxy before it, for messages.
        proxy: the proxy that calls pass.
        served_at: address of the model's server; None if unknown.
        key: key that calls carry; may be empty.
        headers: headers that an address with user information adds.
        gate: limiter of its calls under the provider's limits.
    """

    def __init__(self, spec: str, options: ModelOptions, api_key: str | None, address: Address | None) -> None:
        self._spec, self._timeout_s, self._api_key, self._address = spec, options.timeout_s, api_key, address
        self.served_at = address.url if address else endpoint(spec, options) or next(iter(own_addresses(spec)), None)
        os.environ.update(without_proxy_here(os.environ))  # For LiteLLM, whose clients read it.
        self.proxy = proxy_for(self.served_at or "https:")
        self.name = (f"{spec} at {address.url}" if address else spec) + str(self.proxy)
        self.key = api_key or key_in_environment(spec)
        self.headers = address.headers if address else {}
        self.gate = gate_for(spec, self.served_at or "", self.key, options.rates)

    def arguments(self, seconds: float) -> dict[str, Any]:
        """Return LiteLLM's arguments besides the request, for one attempt of at most `seconds` seconds."""
        import httpx

        return {
            "model": self._spec,
            # A dead address is noticed much sooner than a slow model.
            "timeout": httpx.Timeout(self._timeout_s, connect=min(seconds / 4, CONNECT_S)),
            "api_base": self._address.url if self._address else None,
            "extra_headers": self._address.headers if self._address else None,
            "api_key": self._api_key,
            **self._azures(),
            "num_retries": 0,
            "max_retries": 0,
            # A model that takes no temperature is called without one; `registry.model_warning` says so.
            "drop_params": True,
        }

    def _azures(self) -> dict[str, str]:
        """Return what calls of Azure's models need too, as the environment has it."""
        if split_spec(self._spec)[0] != "azure":
            return {}
        token = {} if self.key else {"azure_ad_token": setting("AZURE_AD_TOKEN")}
        return {"api_version": setting(*AZURE_VERSIONS)} | token
