"""Chat models behind LiteLLM: one request, its retries and its cost."""

import asyncio
import json
import re
import ssl
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import cached_property
from types import ModuleType
from typing import Any, Generic, Protocol, TypeVar
from urllib.parse import urlsplit
from urllib.request import getproxies
from weakref import WeakKeyDictionary

from msgspec import Struct, convert, structs
from msgspec.structs import astuple

from longmemeval.core.event_loop import in_thread
from longmemeval.core.on_demand import without_collector
from longmemeval.core.secrets.redaction import Address, without_secrets
from longmemeval.errors import HarnessError, ModelError, TransientModelError
from longmemeval.llm.costs import Account, load_litellm, price
from longmemeval.llm.http.connections import Destination, Wire, close_connections_with_the_loop, one_at_a_time, watched
from longmemeval.llm.http.errors import Breaker, call_with_retries, meaning_of
from longmemeval.llm.options import ModelOptions
from longmemeval.llm.protocol import ChatMessage, ChatReply, ChatRequest, ToolCall
from longmemeval.llm.providers import has_price, split_spec, table_entry
from longmemeval.llm.rates import Permit, TokenEstimate
from longmemeval.llm.tokens import TokenCounter, framing_tokens, token_counter
from longmemeval.records import Usage

# One call to a model: its turn, its account entry, and attempts until it is answered.

_SELDOM_ELSE = frozenset({"length", "content_filter"})
"""Finish reasons of empty replies that the same request usually gets again, at full cost each time."""
_ATTEMPTS_WHERE_SELDOM_ELSE = 2


class Answered(Protocol):
    """The result of an attempt."""

    @property
    def usage(self) -> Usage:
        """Tokens and cost."""
        ...

    @property
    def finish_reason(self) -> str:
        """The reason why the reply ended."""
        ...

    @property
    def is_empty(self) -> bool:
        """True if it has no content."""
        ...


R = TypeVar("R", bound=Answered)


class Caller:
    """Makes the calls of one model, which share the state of the endpoint (`Breaker`).

    Args:
        destination: endpoint of the calls.
        options: timeout and retries.
        account: records attempts; None: they are not recorded.
    """

    def __init__(self, spec: str, destination: Destination, options: ModelOptions, account: Account | None) -> None:
        self._spec, self._options, self._account = spec, options, account
        self._gate = destination.gate
        self._breaker = Breaker(destination.name, options.give_up_after_s)

    @property
    def counts_tokens(self) -> bool:
        """True if the size of a call must be known."""
        return self._account is not None or self._gate.counts_tokens

    async def call(self, send: Callable[[float, Permit], Awaitable[R]], size: TokenEstimate) -> "Called[R]":
        """Send until there is an answer or another attempt is useless.

        An empty reply is retried like a failure. One that stays empty is returned; the usage is that of all replies.

        Args:
            send: makes one attempt with a time limit in seconds, and passes the headers to the permit.
            size: tokens of the call, if they are needed.

        Raises:
            TransientModelError: all attempts failed in a way that might have passed.
            ModelError: this request cannot be answered.
            FatalModelError: no request can.
            EndpointDownError: no call to this endpoint has succeeded for too long.
            SpendingLimitError: the account has no room for the call.
        """
        call = _Call(size, (price(self._spec, *astuple(size)) or 0.0) if self._account else 0.0)
        reply, attempts = await call_with_retries(
            lambda: self._attempt(send, call),
            max_attempts=self._options.max_attempts,
            max_wait_s=self._options.max_wait_s,
            again=is_worth_another,
            breaker=self._breaker,
        )
        return Called(reply, call.usage, attempts, call.milliseconds)

    async def _attempt(self, send: Callable[[float, Permit], Awaitable[R]], call: "_Call") -> R:
        """Make one attempt, once it has its turn and its cost is reserved."""
        arrived = time.perf_counter()
        turn = await self._gate.turn(call.size, self._breaker.held_back)
        reserved = await self._account.reserve(call.most, self._spec) if self._account else ""
        cost, failed = 0.0, True
        try:
            await one_at_a_time()
            async with self._breaker.passage(call) as seconds:
                call.begin(arrived)
                cost = call.most
                try:
                    with watched() as wire:
                        try:
                            reply = await send(min(seconds, self._options.timeout_s), turn)
                        finally:
                            call.ended(wire)
                except HarnessError as error:
                    if isinstance(error, TransientModelError) and error.too_many:
                        turn.refused(error.retry_after)
                    cost = call.most if isinstance(error, ModelError) and error.may_be_billed else 0.0
                    raise
            failed = reply.is_empty
            cost = call.most if reply.usage.unpriced_calls else reply.usage.cost_usd
            turn.answered(reply.usage.prompt_tokens, reply.usage.completion_tokens)
        finally:
            if self._account:
                self._account.record_cost(reserved, cost, failed=failed)
        call.usage += reply.usage
        return reply


class Called(Generic[R]):
    """An answered call.

    Attributes:
        reply: the last reply.
        usage: usage of all replies.
        attempts: number of attempts.
        latency_ms: time since the first attempt was sent, without waiting for turns.
    """

    def __init__(self, reply: R, usage: Usage, attempts: int, latency_ms: float) -> None:
        self.reply, self.usage, self.attempts, self.latency_ms = reply, usage, attempts, latency_ms


class _Call:
    """A call in progress: the cost of its replies, and the time at which waiting for them began.

    Args:
        size: tokens of one attempt.
        most: upper bound of the cost of one attempt, US dollars.
    """

    def __init__(self, size: TokenEstimate, most: float) -> None:
        self.size, self.most = size, most
        self.usage = Usage()
        self._sent: float | None = None
        self._begun = 0.0

    def begin(self, arrived: float) -> None:
        """Record that an attempt, ready at `arrived`, is sent now; the wait in between is not the endpoint's."""
        self._begun = now = time.perf_counter()
        self._sent = now if self._sent is None else self._sent + (now - arrived)

    def ended(self, wire: Wire) -> None:
        """Record that an attempt is over.

        Our own computing before its request left and after its reply arrived is not the endpoint's time.
        """
        if self._sent is not None and wire.sent is not None:
            self._sent += wire.sent - self._begun
            self._sent += 0.0 if wire.replied is None else time.perf_counter() - wire.replied

    @property
    def milliseconds(self) -> float:
        """Time from the first request to the last reply, without waiting for turns and our own computing."""
        return 0.0 if self._sent is None else (time.perf_counter() - self._sent) * 1000


def is_worth_another(reply: Answered, attempts: int) -> bool:
    """Return whether a reply is empty and another attempt may get one that is not."""
    hopeless = reply.finish_reason in _SELDOM_ELSE and attempts >= _ATTEMPTS_WHERE_SELDOM_ELSE
    return reply.is_empty and not hopeless


# Warm-up before a process's first timed call, so that it takes no longer than the calls that follow.
#
# LiteLLM loads much of itself, and the client behind it, on the first call: a second or two that would count as the
# model's. So we rehearse one call against our own server on the loopback, without a key or a question, and open and
# close one connection to the model's own address: name look-up and TLS, not a byte of a request.

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


_COST_BY_PROXY = "llm_provider-x-litellm-response-cost"
"""Header, by LiteLLM's name, in which a proxy states the cost of a call."""

_HALF_SIGN = re.compile("[\ud800-\udfff]")


class _Function(Struct, frozen=True):
    name: str | None = None
    arguments: str | None = None


class _ToolCall(Struct, frozen=True):
    function: _Function
    id: str | None = None


class _Message(Struct, frozen=True):
    content: str | None = None
    tool_calls: tuple[_ToolCall, ...] | None = None


class _Choice(Struct, frozen=True):
    message: _Message
    finish_reason: str | None = None


class _Tokens(Struct, frozen=True):
    prompt_tokens: int = 0
    completion_tokens: int = 0


class Completion(Struct, frozen=True):
    """The fields that we read from a response."""

    choices: tuple[_Choice, ...] = ()
    usage: _Tokens | None = None
    model: str | None = None


class LiteLLMChatModel:
    """A model of one of LiteLLM's providers.

    Supports any number of concurrent calls, in any number of event loops. All calls share the state of the endpoint
    (`Breaker`).

    Args:
        spec: the model, already validated.
        options: endpoint, timeout and retries.
        api_key: sent with each call; None leaves it to LiteLLM and the environment.
        address: destination of calls; None leaves that to LiteLLM and the environment.
        account: records attempts; None: they are not recorded. The model's price is known.
    """

    def __init__(
        self,
        spec: str,
        options: ModelOptions,
        api_key: str | None = None,
        *,
        address: Address | None = None,
        account: Account | None = None,
    ) -> None:
        self.spec = spec
        """The model's name in LiteLLM."""
        self._options = options
        self._api_key = api_key
        self._provider, _ = split_spec(spec)
        self._priced = has_price(table_entry(spec))
        self._address = address
        self._destination = Destination(spec, options, api_key, address)
        self._caller = Caller(spec, self._destination, options, account)

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Send `request` until it is answered or another attempt is useless.

        An empty reply is retried like a failure. One that stays empty is returned; `usage` is that of all replies.

        Raises:
            TransientModelError: all attempts failed in a way that might have passed.
            ModelError: this request cannot be answered.
            FatalModelError: no request can.
            EndpointDownError: no call to this endpoint has succeeded for too long.
            SpendingLimitError: the account has no room for the call.
        """
        litellm = load_litellm()
        await close_connections_with_the_loop(litellm)
        await warm_up(litellm, self._destination.served_at)
        size = await self._size(request) if self._caller.counts_tokens else TokenEstimate()
        called = await self._caller.call(lambda seconds, turn: self._send(litellm, request, seconds, turn), size)
        return structs.replace(called.reply, usage=called.usage, attempts=called.attempts, latency_ms=called.latency_ms)

    async def _size(self, request: ChatRequest) -> TokenEstimate:
        """Return the tokens of a call: the prompt with the protocol's additions, and the longest reply."""
        tokens = request.prompt_tokens
        if tokens is None:
            tokens = await in_thread(self._tokens_of, request)
        return TokenEstimate(tokens + framing_tokens(len(request.messages)), request.max_tokens)

    def _tokens_of(self, request: ChatRequest) -> int:
        return sum(self._counter.count(message.content) for message in request.messages)

    @cached_property
    def _counter(self) -> TokenCounter:
        return token_counter(self.spec)

    async def _send(self, litellm: ModuleType, request: ChatRequest, seconds: float, turn: Permit) -> ChatReply:
        try:
            # LiteLLM's own timeout limits the gap between two bytes; a gateway that sends blanks to keep the
            # connection open would never exceed it.
            async with asyncio.timeout(seconds):
                response = await litellm.acompletion(
                    messages=[_sent(message) for message in request.messages],
                    temperature=request.temperature,
                    max_tokens=request.max_tokens,
                    n=1,
                    **_tools(request),
                    **self._destination.arguments(seconds),
                )
            completion = convert(response, Completion, from_attributes=True)
        except Exception as error:
            # The cause is omitted on purpose: its traceback may print the key.
            raise meaning_of(error, self._destination.name) from None
        turn.learn(headers_of(response))
        return reply_of(completion, cost_of(litellm, response, self.spec) if self._priced else None, self._provider)


def _sent(message: ChatMessage) -> dict[str, Any]:
    """Return a message as OpenAI's protocol has it."""
    sent: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.tool_calls:
        sent["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in message.tool_calls
        ]
    if message.tool_call_id:
        sent["tool_call_id"] = message.tool_call_id
    return sent


def _tools(request: ChatRequest) -> dict[str, Any]:
    """Return the arguments that offer tools; providers require them as long as the messages contain tool calls."""
    if not request.tools:
        return {}
    choice = "none" if request.must_answer else "auto"
    # Otherwise LiteLLM would load a library to look for its own MCP servers among them.
    return {"tools": list(request.tools), "tool_choice": choice, "_skip_mcp_handler": True}


def reply_of(completion: Completion, cost: float | None, provider: str) -> ChatReply:
    """Turn a response into a reply; `cost` in US dollars, None if it is not known."""
    choice = completion.choices[0] if completion.choices else _Choice(_Message())
    tokens = completion.usage or _Tokens()
    served = without_secrets(completion.model or "")
    # JSON can encode half of a surrogate pair, which no file and no request can contain.
    content = _HALF_SIGN.sub("\N{REPLACEMENT CHARACTER}", choice.message.content or "")
    # A server may echo what it was sent, headers included.
    text = without_secrets(content)
    return ChatReply(
        text=text,
        redacted=text != content,
        tool_calls=tuple(_tool_call(number, call) for number, call in enumerate(choice.message.tool_calls or ())),
        finish_reason=choice.finish_reason or "",
        usage=Usage.of_call(tokens.prompt_tokens, tokens.completion_tokens, cost),
        # LiteLLM puts the provider before the name the server sent, for all but `openai`.
        served_model=served if provider == "openai" else served.removeprefix(f"{provider}/"),
    )


def _tool_call(number: int, call: _ToolCall) -> ToolCall:
    """Return a call of a tool; servers may leave out its id."""
    function = call.function
    return ToolCall(call.id or f"call_{number}", function.name or "", without_secrets(function.arguments or ""))


def headers_of(response: object) -> Mapping[str, object]:
    """Return the headers of a response, by LiteLLM's names."""
    hidden = getattr(response, "_hidden_params", None)
    return (hidden.get("additional_headers") or {}) if isinstance(hidden, dict) else {}


def cost_of(litellm: ModuleType, response: object, spec: str) -> float | None:
    """Return the US dollars of a response by LiteLLM's table; None when they cannot be determined."""
    # LiteLLM has already computed it, but relies on a proxy's figure if there is one.
    hidden = getattr(response, "_hidden_params", None)
    if isinstance(hidden, dict) and _COST_BY_PROXY not in headers_of(response):
        cost = hidden.get("response_cost")
        if isinstance(cost, float):
            return cost
    try:
        return float(litellm.completion_cost(completion_response=response, model=spec))
    except Exception:
        # A paid answer is not discarded because its cost cannot be determined.
        return None
