"""LiteLLM's way to a model: for the providers that speak a protocol of their own."""

import asyncio
import json
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from types import ModuleType
from typing import Any, Protocol, TypeVar
from weakref import WeakKeyDictionary

import httpx
from msgspec import Struct, convert

from longmemeval.core.http import proxy_for, refuse_other_server
from longmemeval.core.on_demand import without_collector
from longmemeval.llm.finish_reasons import finish_reason_of, is_whole
from longmemeval.llm.http.connections import Destination, DirectResponse, Wire, current_wire, once, try_connection
from longmemeval.llm.http.openai_protocol import MisshapenReplyError, check_end, reply_document
from longmemeval.llm.litellm_package import load_litellm
from longmemeval.llm.providers import split_spec

T = TypeVar("T")


class LiteLLMWay:
    """Sends requests by `litellm.acompletion`; see `Way`.

    Args:
        allowed: fields that LiteLLM is to send to models it does not know too.
    """

    def __init__(self, spec: str, destination: Destination, allowed: Sequence[str] = ()) -> None:
        self._spec, self._destination, self._allowed = spec, destination, allowed

    async def get_ready(self) -> None:
        """Load LiteLLM, rehearse a call once in the process, and connect to the model's server once in the loop."""
        address = self._destination.served_at
        await once(f"litellm {address}", lambda: _warm_up(address))

    async def send(
        self, parameters: Mapping[str, Any], seconds: float, exact: Collection[str] = ()
    ) -> "LiteLLMResponse | DirectResponse":
        """Send a request and return its reply."""
        litellm = load_litellm()
        sent = dict(parameters)
        if "tools" in sent:
            sent["_skip_mcp_handler"] = True  # Otherwise it loads a library to look for its own MCP servers.
        # LiteLLM's own timeout limits the gap between two bytes; a gateway that sends blanks to keep the
        # connection open would never exceed it.
        allowed = [name for name in self._allowed if name in sent]
        if "max_tokens" in exact and "max_tokens" in sent:  # LiteLLM would rename it again.
            sent["extra_body"] = {"max_tokens": sent.pop("max_tokens")} | sent.get("extra_body", {})
        if exact:  # What LiteLLM can translate, it translates; the rest is not dropped silently.
            provider, name = split_spec(self._spec)
            known = litellm.get_supported_openai_params(model=name, custom_llm_provider=provider) or ()
            allowed += [field for field in exact if field in sent and field not in known]
        try:
            async with asyncio.timeout(seconds):
                response = await litellm.acompletion(
                    **sent,
                    allowed_openai_params=allowed,
                    **self._destination.arguments(seconds),
                )
        except Exception:
            if "choices" in (raw := _raw_reply()):  # LiteLLM cannot read it: content in parts, say.
                return DirectResponse(self._spec, raw, {})
            raise
        _restore(response, _raw_reply())
        return LiteLLMResponse(litellm, response, self._spec)


def _raw_reply() -> dict[str, Any]:
    """Return the reply of this attempt as the server sent it; empty if it is not known, or no JSON object.

    Raises:
        FatalModelError, RefusedCall, ModelError: it is a web page, reports an error, or was broken off.
    """
    body = current_wire().body()
    with suppress(ValueError, MisshapenReplyError):
        return reply_document(body)
    with suppress(ValueError):
        document = json.loads(body)
        return document if isinstance(document, dict) and "choices" not in document else {}
    return {}


def _restore(response: "_Dumped", raw: Mapping[str, Any]) -> None:
    """Put into a response what LiteLLM leaves out of it: the server's finish reasons and its words about them."""
    if "choices" in raw:
        for choice, ours in zip(response.choices, raw["choices"], strict=False):
            if not is_whole(ours["finish_reason"]):
                choice.finish_reason = ours["finish_reason"]
            if isinstance(choice.message.content, list):
                choice.message.content = ours["message"]["content"]
            choice.message.refusal = ours["message"].get("refusal")
        return
    if "done" in raw:  # Ollama leaves out the tokens of a prompt that it has cached, which LiteLLM would count.
        counts = raw.get("prompt_eval_count"), raw.get("eval_count"), None
        response.usage.prompt_tokens, response.usage.completion_tokens, response.usage.total_tokens = counts
    candidate: Mapping[str, Any] = next(iter(raw.get("candidates") or ()), {})
    blocked, details = raw.get("promptFeedback") or {}, raw.get("stop_details") or {}
    reasons = [raw.get("stop_reason"), raw.get("stopReason"), raw.get("finish_reason"), candidate.get("finishReason")]
    said = candidate.get("finishMessage") or blocked.get("blockReasonMessage") or details.get("explanation")
    named = next(filter(None, reasons), None)
    reason = finish_reason_of(named)
    check_end(reason)
    for choice in response.choices[:1]:
        if not is_whole(reason):
            choice.finish_reason = reason
        choice.message.refusal = said or blocked.get("blockReason") or (named if reason == "content_filter" else None)


class _Dumped(Protocol):
    choices: Sequence[Any]
    usage: Any

    def model_dump(self, *, mode: str, exclude_none: bool) -> dict[str, Any]: ...


class LiteLLMResponse:
    """A response of LiteLLM; see `Response`."""

    def __init__(self, litellm: ModuleType, response: "_Dumped", spec: str) -> None:
        self._litellm, self._response, self._spec = litellm, response, spec
        self.headers = _headers_of(response)

    def read(self, kind: type[T]) -> T:
        """Return the document as `kind`."""
        if issubclass(kind, Struct):
            return convert(self._response, kind, from_attributes=True)
        return convert(self._response.model_dump(mode="json", exclude_none=True), kind)

    def cost(self) -> float | None:
        """Return its US dollars by LiteLLM's table; None when they cannot be determined."""
        return _cost_of(self._litellm, self._response, self._spec)


_COST_BY_PROXY = "llm_provider-x-litellm-response-cost"
"""Header, by LiteLLM's name, in which a proxy states the cost of a call."""


def _headers_of(response: object) -> Mapping[str, object]:
    """Return the headers of a response, by LiteLLM's names."""
    hidden = getattr(response, "_hidden_params", None)
    return (hidden.get("additional_headers") or {}) if isinstance(hidden, dict) else {}


def _cost_of(litellm: ModuleType, response: object, spec: str) -> float | None:
    """Return the US dollars of a response by LiteLLM's table; None when they cannot be determined."""
    # LiteLLM has already computed it, but relies on a proxy's figure if there is one.
    hidden = getattr(response, "_hidden_params", None)
    if isinstance(hidden, dict) and _COST_BY_PROXY not in _headers_of(response):
        cost = hidden.get("response_cost")
        if isinstance(cost, float):
            return cost
    try:
        return float(litellm.completion_cost(completion_response=response, model=spec))
    except Exception:
        # A paid answer is not discarded because its cost cannot be determined.
        return None


# Warm-up before a process's first timed call, so that it takes no longer than the calls that follow.
#
# LiteLLM loads much of itself, and the client behind it, on the first call: a second or two that would count as the
# model's. So we rehearse one call against our own server on the loopback, without a key or a question, and open and
# close one connection to the model's own address: name look-up and TLS, not a byte of a request.

_PATIENCE_S = 5.0
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


async def _warm_up(address: str | None) -> None:
    litellm = await asyncio.to_thread(load_litellm)
    await close_connections_with_the_loop(litellm)
    if not _rehearsed:
        _rehearsed.add("done")
        # Anything that makes the rehearsal fail (for example a proxy for the loopback) does not matter to the calls.
        with suppress(Exception), without_collector(for_good=True):
            # In a thread: loading is work, and other calls may be under way in this loop.
            await asyncio.to_thread(lambda: asyncio.run(_rehearse(litellm)))
    await try_connection(address)


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


# Times of LiteLLM's requests, and its connections, which close with their event loop.


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
            _speak_socks(transport)
            vars(transport)["handle_async_request"] = _timed(transport.handle_async_request)
        return transport

    vars(create_watched)["is_watched"] = True
    handler.create_async_transport = staticmethod(create_watched)


def _speak_socks(transport: httpx.AsyncBaseTransport) -> None:
    """Make a transport of aiohttp's, which speaks no SOCKS, leave requests through such a proxy to httpx."""
    usual, end, others = transport.handle_async_request, transport.aclose, dict[str, httpx.AsyncHTTPTransport | None]()

    async def handle(request: httpx.Request) -> httpx.Response:
        origin = f"{request.url.scheme}://{request.url.netloc.decode()}"
        if origin not in others:
            proxy = proxy_for(origin)
            others[origin] = httpx.AsyncHTTPTransport(proxy=proxy.url) if proxy.is_socks else None
        return await (other.handle_async_request if (other := others[origin]) else usual)(request)

    async def close() -> None:
        await end()
        for other in filter(None, others.values()):
            await other.aclose()

    vars(transport).update(handle_async_request=handle, aclose=close)


_Handle = Callable[[httpx.Request], Awaitable[httpx.Response]]


def _timed(handle: _Handle) -> _Handle:
    async def timed(request: httpx.Request) -> httpx.Response:
        wire = current_wire()
        if wire.sent is None:
            wire.sent = time.perf_counter()
        response = await handle(request)
        refuse_other_server(response, request)
        if isinstance(response.stream, httpx.AsyncByteStream):
            parts, headers = list[bytes](), response.headers
            response.stream = _Timed(response.stream, wire, parts)
            wire.body = (lambda: _decoded(headers, b"".join(parts))) if response.is_success else bytes
        return response

    return timed


def _decoded(headers: httpx.Headers, body: bytes) -> bytes:
    try:
        return httpx.Response(200, headers=headers, content=body).content
    except httpx.DecodingError:
        return b""


class _Timed(httpx.AsyncByteStream):
    """The bytes of a reply, which are kept; records when the last byte was read."""

    def __init__(self, stream: httpx.AsyncByteStream, wire: Wire, parts: list[bytes]) -> None:
        self._stream, self._wire, self._parts = stream, wire, parts

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in self._stream:
            self._wire.replied = time.perf_counter()
            self._parts.append(part)
            yield part

    async def aclose(self) -> None:
        await self._stream.aclose()


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
