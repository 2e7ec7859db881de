"""Chat models behind HTTP: one request, its retries and its cost."""

import re
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import cached_property, partial
from typing import Any, Generic, Protocol, TypeVar

from msgspec import UNSET, Struct, structs, to_builtins
from msgspec.structs import astuple

from longmemeval.core.event_loop import in_thread
from longmemeval.core.secrets.parameters import resolved
from longmemeval.core.secrets.redaction import Address, without_secrets
from longmemeval.errors import HarnessError, ModelError, TransientModelError
from longmemeval.llm.costs import Account, Counted, price
from longmemeval.llm.http.connections import Destination, Response, Wire, one_at_a_time, watched
from longmemeval.llm.http.direct import way_to
from longmemeval.llm.http.errors import Breaker, call_with_retries, meaning_of
from longmemeval.llm.http.own_server import OwnServer, is_own_server
from longmemeval.llm.http.refusals import Refusals
from longmemeval.llm.options import ModelOptions
from longmemeval.llm.protocol import ChatMessage, ChatReply, ChatRequest, ToolCall
from longmemeval.llm.providers import has_price, split_spec, table_entry
from longmemeval.llm.rates import Permit, RateLimiter, TokenEstimate
from longmemeval.llm.reasoning import ReplyLimits
from longmemeval.llm.thoughts import split_thoughts
from longmemeval.llm.tokens import TokenCounter, framing_tokens, token_counter
from longmemeval.records import Asked, Usage, sum_latencies

# One call to a model: its turn, its account entry, and attempts until it is answered.

_ATTEMPTS_IF_EMPTY = {"length": 1, "": 3}
"""Attempts at empty replies by finish reason, 2 for any other: the same request usually gets the same again, at full
cost each time. One that just stops, for no reason that is said, is tried again like a failure."""


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

    @property
    def why_empty(self) -> str:
        """What the server says or sends in place of content; empty if nothing."""
        ...


R = TypeVar("R", bound=Answered)


class Named(Protocol):
    """What answers the calls of one model."""

    name: str
    """The model and its address, for messages."""
    gate: RateLimiter
    """Limiter of its calls."""


class Caller:
    """Makes the calls of one model, which share the state of the endpoint (`Breaker`).

    Args:
        destination: endpoint of the calls, or the program that answers them.
        options: timeout and retries.
        account: records attempts; None: they are not recorded.
    """

    def __init__(self, spec: str, destination: Named, options: ModelOptions, account: Account | None) -> None:
        self._spec, self._options, self._account = spec, options, account
        self._gate = destination.gate
        self._breaker = Breaker(destination.name, options.give_up_after_s)

    @property
    def counts_tokens(self) -> bool:
        """True if the size of a call must be known."""
        return self._account is not None or self._gate.counts_tokens

    async def call(
        self, send: Callable[[float, Permit], Awaitable[R]], size: TokenEstimate, most: float | None = None
    ) -> "Called[R]":
        """Send until there is an answer or another attempt is useless.

        An empty reply is retried like a failure. One that stays empty is returned; the usage is that of all replies.

        Args:
            send: makes one attempt with a time limit in seconds, and passes the headers to the permit.
            size: tokens of the call, if they are needed.
            most: highest cost of one attempt, US dollars; None: that of its tokens.

        Raises:
            TransientModelError: all attempts failed in a way that might have passed.
            ModelError: this request cannot be answered.
            FatalModelError: no request can.
            EndpointDownError: no call to this endpoint has succeeded for too long.
            SpendingLimitError: the account has no room for the call.
        """
        if most is None:
            most = (price(self._spec, *astuple(size)) or 0.0) if self._account else 0.0
        call = _Call(size, most)
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
                        turn.refused(error.retry_after, self._options.give_up_after_s)
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
    if reply.finish_reason == "stop" and not reply.why_empty:
        return reply.is_empty
    return reply.is_empty and attempts < _ATTEMPTS_IF_EMPTY.get(reply.finish_reason, 2)


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
    reasoning_content: Any = None
    """Reasoning as DeepSeek, vLLM, llama.cpp and LiteLLM name it."""
    reasoning: Any = None
    """The same as OpenRouter, Ollama and newer servers of vLLM name it."""
    refusal: Any = None
    """What is said in place of a text."""


class _Choice(Struct, frozen=True):
    message: _Message
    finish_reason: str | None = None


class _Details(Struct, frozen=True):
    reasoning_tokens: int | None = None


class _Tokens(Struct, frozen=True):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None
    completion_tokens_details: _Details | None = None


class Completion(Struct, frozen=True):
    """The fields that we read from a response."""

    choices: tuple[_Choice, ...] = ()
    usage: _Tokens | None = None
    model: str | None = None

    @property
    def counted(self) -> Counted:
        """The tokens by the server's count."""
        return Counted.of(to_builtins(self.usage))


class RemoteChatModel:
    """A model of a provider that LiteLLM knows, called directly where that is possible.

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
        self._provider, _ = split_spec(spec)
        self._priced = has_price(table_entry(spec))
        self._destination = Destination(spec, options, api_key, address)
        self._way = way_to(spec, self._destination)
        self._caller = Caller(spec, self._destination, options, account)
        self._options = options
        self.limits = ReplyLimits(spec, options)
        """The limits that the model is sent."""
        self.own_server = OwnServer(spec, options, self._destination) if is_own_server(spec, options) else None
        """The model's server, if only its user knows it."""
        self._refusals = Refusals(self._destination.name, options)

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Send `request` until it is answered or another attempt is useless.

        An empty reply is retried like a failure, once with a wider limit if the limit was spent. One that stays empty
        is returned; `usage` is that of all replies.

        Raises:
            TransientModelError: all attempts failed in a way that might have passed.
            ModelError: this request cannot be answered.
            FatalModelError: no request can.
            EndpointDownError: no call to this endpoint has succeeded for too long.
            SpendingLimitError: the account has no room for the call.
        """
        await self.get_ready()
        if self.own_server or self.limits.window:
            request = structs.replace(request, prompt_tokens=await self._prompt_tokens(request))
        prompt = request.prompt_tokens or 0
        limit = self.limits.first(request.max_tokens, prompt)
        reply = await self._answered(request, limit)
        if (
            reply.is_starved
            and self._options.max_attempts > 1
            and (wider := self.limits.wider(request.max_tokens, limit, prompt))
        ):
            limit, again = wider, await self._answered(request, wider)
            reply = after(reply, again)
        self.limits.learn(reply, limit)
        return reply

    async def get_ready(self) -> None:
        """Do what the first call would otherwise have to wait for; ask a server of the user's for the window."""
        await self._way.get_ready()
        if self.own_server:
            await self.own_server.get_ready(self._load)
            self.limits.window = self.limits.window or self.own_server.told.window

    async def _load(self) -> None:
        """Have the server load the model, by a request for one token."""
        request = ChatRequest((ChatMessage("user", "Hello"),), max_tokens=1)
        await self._way.send(_parameters(request, 1, self.spec, self._options), self._options.timeout_s)

    async def _answered(self, request: ChatRequest, limit: int) -> ChatReply:
        """Send a request with a limit of the whole reply."""
        size = await self._size(request, limit) if self._caller.counts_tokens else TokenEstimate()
        called = await self._caller.call(lambda seconds, turn: self._send(request, limit, seconds, turn), size)
        reply = structs.replace(
            called.reply, usage=called.usage, attempts=called.attempts, latency_ms=called.latency_ms
        )
        return with_limit(reply, request, limit)

    async def _size(self, request: ChatRequest, limit: int) -> TokenEstimate:
        """Return the tokens of a call: the prompt with the protocol's additions, and the longest reply."""
        return TokenEstimate(await self._prompt_tokens(request) + framing_tokens(len(request.messages)), limit)

    async def _prompt_tokens(self, request: ChatRequest) -> int:
        tokens = request.prompt_tokens
        return await in_thread(self._tokens_of, request) if tokens is None else tokens

    def _tokens_of(self, request: ChatRequest) -> int:
        return sum(self._counter.count(message.content) for message in request.messages)

    @cached_property
    def _counter(self) -> TokenCounter:
        return token_counter(self.spec)

    async def _send(self, request: ChatRequest, limit: int, seconds: float, turn: Permit) -> ChatReply:
        """Make one attempt; what the server refuses of it is left out, and costs nothing."""
        response, completion = await self._response(_parameters(request, limit, self.spec, self._options), seconds)
        turn.learn(response.headers)
        reply = reply_of(completion, response.cost() if self._priced else None, self._provider)
        if reply.usage.estimated_calls:
            size, said = await self._size(request, limit), await in_thread(self._counter.count, reply.whole)
            usage = completion.counted.usage(size.prompt_tokens, said, partial(price, self.spec))
            reply = structs.replace(reply, usage=usage)
        notes = self._refusals.notes
        if self.own_server and (cut := self.own_server.note(request.prompt_tokens, reply.usage.prompt_tokens)):
            notes = (*notes, cut)
        return with_deviations(reply, notes)

    async def _response(self, planned: Mapping[str, Any], seconds: float) -> tuple[Response, Completion]:
        """Send parameters without those that the server refuses."""
        while True:
            sent, exact = self._refusals.applied(planned), self._refusals.exact
            try:
                response = await self._way.send(sent, seconds, exact)
                return response, response.read(Completion)
            except Exception as error:
                # The cause is omitted on purpose: its traceback may print the key.
                has_learnt = self._refusals.learn(error, sent)
                if not has_learnt or (self._refusals.applied(planned), self._refusals.exact) == (sent, exact):
                    raise meaning_of(error, self._destination.name) from None


def with_limit(reply: ChatReply, request: ChatRequest, limit: int) -> ChatReply:
    """Return a reply that states the limit that was sent, if that is not the request's own."""
    if limit == request.max_tokens:
        return reply
    return structs.replace(reply, asked=structs.replace(reply.asked or Asked(), max_tokens=limit))


def with_deviations(reply: ChatReply, notes: tuple[str, ...]) -> ChatReply:
    """Return a reply that states what was sent otherwise than planned."""
    return structs.replace(reply, asked=structs.replace(reply.asked or Asked(), deviations=notes)) if notes else reply


def after(starved: ChatReply, again: ChatReply) -> ChatReply:
    """Return the second reply to a request, with what both cost, and took."""
    return structs.replace(
        again,
        usage=starved.usage + again.usage,
        attempts=starved.attempts + again.attempts,
        latency_ms=sum_latencies((starved.latency_ms, again.latency_ms)),
    )


def options_sent(spec: str, options: ModelOptions) -> dict[str, Any]:
    """Return the fields of a request that a user's options set."""
    sent = dict(options.given)
    more: dict[str, Any] = resolved(options.more) if options.model_option else {}
    if spec.startswith("ollama"):  # LiteLLM puts them where Ollama reads them: `num_ctx` among its `options`.
        return sent | more
    budget = options.reasoning_budget
    if budget is not None and options.reasoning_effort is None:
        provider, name = split_spec(spec)
        if provider == "openrouter":
            more = {"reasoning": {"max_tokens": budget} if budget else {"enabled": False}} | more
        elif (provider == "gemini" or provider.startswith("vertex_ai") or "claude" in name) and (
            budget or "claude" not in name  # Claude reasons only where it is told to.
        ):
            sent["thinking"] = {"type": "enabled", "budget_tokens": budget}
    return sent | ({"extra_body": more} if more else {})


def _parameters(request: ChatRequest, limit: int, spec: str, options: ModelOptions) -> dict[str, Any]:
    """Return a request by OpenAI's names."""
    parameters: dict[str, Any] = {
        "messages": [_sent(message) for message in request.messages],
        "temperature": request.temperature,
        "max_tokens": limit,
        "n": 1,
    } | options_sent(spec, options)
    # Providers require the tools as long as the messages contain tool calls.
    if request.tools:
        parameters |= {"tools": list(request.tools), "tool_choice": "none" if request.must_answer else "auto"}
    return parameters


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


def reply_of(completion: Completion, cost: float | None, provider: str) -> ChatReply:
    """Turn a response into a reply; `cost` in US dollars, None if it is not known.

    `usage.estimated_calls` is 1 if the server did not count all tokens: the caller is to count the rest.
    """
    choice = completion.choices[0] if completion.choices else _Choice(_Message())
    tokens = completion.usage or _Tokens()
    served = without_secrets(completion.model or "")
    # JSON can encode half of a surrogate pair, which no file and no request can contain.
    message = choice.message
    apart = (part for part in (message.reasoning_content, message.reasoning) if isinstance(part, str) and part)
    content, thoughts = (
        _HALF_SIGN.sub("\N{REPLACEMENT CHARACTER}", part) for part in (message.content or "", next(apart, ""))
    )
    # A server may echo what it was sent, headers included.
    whole, given = without_secrets(content), without_secrets(thoughts)
    text, reasoning = split_thoughts(whole, given)
    details = tokens.completion_tokens_details
    reasoned = max(details.reasoning_tokens or 0, 0) if details else 0
    refusal = message.refusal if isinstance(message.refusal, str) else ""
    counted = completion.counted
    reply = ChatReply(
        text=text,
        refusal=_HALF_SIGN.sub("\N{REPLACEMENT CHARACTER}", without_secrets(refusal)),
        reasoning=reasoning,
        redacted=(whole, given) != (content, thoughts),
        asked=Asked(reasoning_tokens=reasoned) if reasoned else UNSET,
        tool_calls=tuple(_tool_call(number, call) for number, call in enumerate(message.tool_calls or ())),
        finish_reason=without_secrets(choice.finish_reason or "")[:100],
        usage=Usage.of_call(counted.prompt, counted.completion, cost),
        # LiteLLM puts the provider before the name the server sent, for all but `openai`.
        served_model=served if provider == "openai" else served.removeprefix(f"{provider}/"),
    )
    if counted.is_whole(replied=bool(reply.whole)):
        return reply
    return structs.replace(reply, usage=Usage(1, 0, counted.prompt, counted.completion, 0.0, 1, estimated_calls=1))


def _tool_call(number: int, call: _ToolCall) -> ToolCall:
    """Return a call of a tool; servers may leave out its id."""
    function = call.function
    return ToolCall(call.id or f"call_{number}", function.name or "", without_secrets(function.arguments or ""))
