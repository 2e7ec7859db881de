"""Chat models behind LiteLLM: one request, its retries and its cost."""

import asyncio
import re
from collections.abc import Mapping
from functools import cached_property
from types import ModuleType
from typing import Any

from msgspec import Struct, convert, structs

from longmemeval.core.event_loop import in_thread
from longmemeval.core.secrets.redaction import Address, without_secrets
from longmemeval.llm.costs.prices import load_litellm
from longmemeval.llm.costs.spending import Account
from longmemeval.llm.http.calling import Caller
from longmemeval.llm.http.connections import close_connections_with_the_loop
from longmemeval.llm.http.destination import Destination
from longmemeval.llm.http.errors_map import meaning_of
from longmemeval.llm.http.warm_up import warm_up
from longmemeval.llm.options import ModelOptions
from longmemeval.llm.protocol import ChatMessage, ChatReply, ChatRequest, ToolCall
from longmemeval.llm.providers import has_price, split_spec, table_entry
from longmemeval.llm.rates.book import TokenEstimate
from longmemeval.llm.rates.gate import Permit
from longmemeval.llm.tokens import TokenCounter, framing_tokens, token_counter
from longmemeval.records import Usage

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
        options: endpoint, time-out and retries.
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
            # LiteLLM's own time-out limits the gap between two bytes; a gateway that sends blanks to keep the
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
