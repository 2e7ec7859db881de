"""Calls that need no LiteLLM: a server that speaks OpenAI's protocol, asked over aiohttp."""

import asyncio
import os
import re
import ssl
import time
import zlib
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from contextlib import suppress
from functools import cache, cached_property
from importlib import import_module
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote, urlsplit
from weakref import WeakKeyDictionary

from longmemeval.core.http import proxy_for, refuse_other_address
from longmemeval.errors import chain
from longmemeval.llm.http.connections import (
    CONNECT_S,
    Destination,
    DirectResponse,
    Way,
    current_wire,
    once,
    try_connection,
)
from longmemeval.llm.http.errors import UnreadableReplyError
from longmemeval.llm.http.openai_protocol import RefusedCall, is_direct, reply_document, request_body
from longmemeval.llm.providers import AZURE_VERSIONS, OPENAI_PROVIDERS, account_headers, setting, split_spec

if TYPE_CHECKING:
    from aiohttp import ClientSession, TraceRequestRedirectParams

T = TypeVar("T")

_DATED = re.compile(r"\d{4}-\d\d-\d\d(?:-preview)?")
_OF_A_REGION = re.compile(r"https://[^/]+\.api\.openai\.com(?:[:/]|$)")


class DirectWay:
    """Sends chat requests to one address; see `Way`.

    Args:
        url: the whole address.
        headers: the key, among others.
    """

    def __init__(self, spec: str, url: str, headers: Mapping[str, str]) -> None:
        self._spec, self._url = spec, url
        self._headers = {"Content-Type": "application/json", "Accept": "application/json", **headers}

    async def get_ready(self) -> None:
        """Load aiohttp, and connect to the model's server once in the loop."""
        await once(self._url, self._get_ready)

    async def _get_ready(self) -> None:
        await asyncio.to_thread(import_module, "aiohttp")
        await _session()
        await try_connection(self._url)

    @cached_property
    def _named(self) -> dict[str, Any]:
        return _named(self._url, self._headers)

    async def send(
        self, parameters: Mapping[str, Any], seconds: float, exact: Collection[str] = ()
    ) -> "DirectResponse":
        """Send a request and return its reply; redirects are followed on the same server.

        Raises:
            RefusedCall: the server refuses it.
            FatalModelError: it redirects to another server.
            TimeoutError, aiohttp.ClientError: there is none.
            ValueError, MisshapenReplyError: it is no completion.
        """
        wire, body = current_wire(), request_body(self._spec, parameters, exact)
        await _session()
        async with asyncio.timeout(seconds):
            wire.sent = wire.sent or time.perf_counter()
            try:
                status, headers, content = await self._exchange(body, seconds)
            finally:
                wire.replied = time.perf_counter()
        if not 200 <= status < 300:
            raise RefusedCall(status, headers, content)
        return DirectResponse(self._spec, reply_document(content), headers)

    async def _exchange(self, body: bytes, seconds: float) -> tuple[int, Mapping[str, str], bytes]:
        """Send a body and return status, headers and body of the reply."""
        from aiohttp import ClientPayloadError, ClientTimeout, TooManyRedirects

        limit, session = ClientTimeout(total=None, sock_connect=min(seconds / 4, CONNECT_S)), await _session()
        try:
            async with session.post(self._url, data=body, timeout=limit, **self._named) as response:
                return response.status, response.headers, await response.read()
        except TooManyRedirects:
            unreadable = "too many redirects"
        except ClientPayloadError as error:
            if not (garbled := [link for link in chain(error) if isinstance(link, zlib.error)]):
                raise
            unreadable = str(garbled[0])
        raise UnreadableReplyError(unreadable)


def way_to(spec: str, destination: Destination, allowed: Sequence[str] = ()) -> Way:
    """Return the way to a model: direct where its server speaks OpenAI's protocol, else LiteLLM's.

    Args:
        allowed: fields that LiteLLM is to send to models it does not know too.
    """
    if direct := _direct_way(spec, destination):
        return direct
    from longmemeval.llm.http.litellm_way import LiteLLMWay

    return LiteLLMWay(spec, destination, allowed)


def _direct_way(spec: str, destination: Destination) -> DirectWay | None:
    if not is_direct(spec):
        return None
    provider, name = split_spec(spec)
    base = destination.served_at or OPENAI_PROVIDERS[provider].address or ""
    # LiteLLM knows the prices of OpenAI's regions, and does not check certificates where it is told so. aiohttp speaks
    # no SOCKS.
    if not base or _OF_A_REGION.match(base) or os.environ.get("SSL_VERIFY") or destination.proxy.is_socks:
        return None
    parts = urlsplit(base)
    path, query, headers = parts.path.rstrip("/"), parts.query, {"Authorization": f"Bearer {destination.key}"}
    if provider == "azure":
        version = setting(*AZURE_VERSIONS)
        if (
            "/openai" in path
            or not destination.key
            or not _DATED.fullmatch(version)
            or "gateway.ai.cloudflare.com" in base
        ):
            return None
        path += f"/openai/deployments/{quote(name, safe='')}"
        query, headers = f"api-version={version}", {"api-key": destination.key}
    elif provider == "openai":
        headers |= account_headers()
    url = parts._replace(path=f"{path.removesuffix('/chat/completions')}/chat/completions", query=query).geturl()
    return DirectWay(spec, url, headers | destination.headers)


# One session for each event loop: its connections close with the loop.

_sessions: WeakKeyDictionary[asyncio.AbstractEventLoop, AsyncGenerator["ClientSession", None]] = WeakKeyDictionary()
_opened: WeakKeyDictionary[asyncio.AbstractEventLoop, "ClientSession"] = WeakKeyDictionary()


async def _session() -> "ClientSession":
    loop = asyncio.get_running_loop()
    if loop not in _opened:
        _sessions[loop] = sessions = _open_session()
        _opened[loop] = await anext(sessions)
    return _opened[loop]


async def _open_session() -> AsyncGenerator["ClientSession", None]:
    """Yield a session, and close it when `asyncio.run` finishes every started async generator."""
    from aiohttp import ClientSession, TCPConnector, TraceConfig
    from yarl import URL

    async def check(session: ClientSession, context: SimpleNamespace, params: "TraceRequestRedirectParams") -> None:
        location = params.response.headers.get("Location") or params.response.headers.get("URI") or ""
        refuse_other_address(str(params.url), str(params.url.join(URL(location))))

    trace = TraceConfig()
    trace.on_request_redirect.append(check)
    async with ClientSession(connector=TCPConnector(limit=0), trace_configs=[trace]) as session:
        yield session


async def fetched(url: str, headers: Mapping[str, str], body: bytes | None = None) -> bytes:
    """Return what a server sends for a question that is no call; nothing if it refuses it."""
    session = await _session()
    async with session.request("POST" if body else "GET", url, data=body, **_named(url, headers)) as response:
        return await response.read() if response.status == 200 else b""


def _named(url: str, headers: Mapping[str, str]) -> dict[str, Any]:
    """Return how an address is reached, by the names of aiohttp's arguments."""
    certificates = _certificates() if url.startswith("https:") else True
    return {"headers": headers, "proxy": proxy_for(url).url or None, "ssl": certificates}


@cache
def _certificates() -> ssl.SSLContext:
    """Return what trusts the certificates of the system, and Mozilla's."""
    context = ssl.create_default_context()
    with suppress(ImportError, OSError):
        import certifi

        context.load_verify_locations(certifi.where())
    return context
