"""Requests of other programs, forwarded to a model unchanged: chat completions of the OpenAI API.

The content of a request stays: tools, reply formats, temperature. Only the model is replaced by the configured one, and
what the user's options for that model say.
"""

import asyncio
from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Raw, Struct

from longmemeval.core.secrets.redaction import Address, without_secrets
from longmemeval.llm.cache import CachedReply, ReplyCache
from longmemeval.llm.costs import Account, Counted, Receipts, price
from longmemeval.llm.finish_reasons import is_whole
from longmemeval.llm.http.client import Called, Caller, options_sent
from longmemeval.llm.http.connections import Destination
from longmemeval.llm.http.direct import way_to
from longmemeval.llm.http.errors import meaning_of
from longmemeval.llm.options import ModelOptions
from longmemeval.llm.providers import has_price, split_spec, table_entry
from longmemeval.llm.rates import Permit, TokenEstimate
from longmemeval.llm.reasoning import ReplyLimits
from longmemeval.llm.tokens import TokenCounter, token_counter
from longmemeval.records import Usage

# fmt: off
_UNSENT = frozenset((
    "model", "stream", "stream_options", "user", "metadata", "store", "background", "service_tier",
    "safety_identifier", "prompt_cache_key", "prompt_cache_retention", "extra_headers", "extra_query", "timeout"
))
"""Fields that do not change the reply, or that the harness decides."""
_KNOWN = frozenset((
    "messages", "temperature", "top_p", "n", "stop", "max_tokens", "max_completion_tokens",
    "response_format", "seed", "tools", "tool_choice", "parallel_tool_calls", "functions",
    "function_call", "logprobs", "top_logprobs", "presence_penalty", "frequency_penalty", "logit_bias",
    "modalities", "prediction", "audio", "reasoning_effort", "verbosity", "web_search_options"
))
# fmt: on
_LIMITS = ("max_tokens", "max_completion_tokens")
_ALLOWED = ["tools", "tool_choice", "parallel_tool_calls", "response_format", "seed"]
"""Fields that LiteLLM would omit for models it does not know; a reply in another form would be a silent error."""
_LONGEST_REPLY = 16_384
"""Tokens of a reply, if neither the request nor the price table gives a maximum."""


class Forwarded(Struct, frozen=True):
    """A reply in the form that the other program receives."""

    document: Raw
    """JSON in the form of the OpenAI API."""
    usage: Usage
    finish_reason: str
    is_empty: bool
    served_model: str = ""
    latency_ms: float = 0.0
    why_empty: str = ""


class ForwardedModel:
    """A model for requests of other programs; created by `registry.load_forwarded`.

    Args:
        spec: the model.
        options: endpoint, timeout and retries.
        api_key: sent with each call; None leaves it to LiteLLM and the environment.
        address: destination of calls; None leaves that to LiteLLM and the environment.
        account: records attempts; None: they are not recorded.
    """

    def __init__(
        self, spec: str, options: ModelOptions, api_key: str | None, address: Address | None, account: Account | None
    ) -> None:
        self.spec, self.decisive = spec, options.recorded
        """What the user asked for of its replies, beside the requests."""
        self._options, self._limits = options, ReplyLimits(spec, options)
        self._destination = Destination(spec, options, api_key, address)
        entry = table_entry(spec)
        self._priced = has_price(entry)
        self._longest = int((entry or {}).get("max_output_tokens") or _LONGEST_REPLY)
        self._extends = split_spec(spec)[0] == "openai"
        self._way = way_to(spec, self._destination, _ALLOWED)
        self._caller = Caller(spec, self._destination, options, account)

    async def get_ready(self) -> None:
        """Load what the first call would otherwise have to wait for."""
        await self._way.get_ready()

    async def forward(self, body: Mapping[str, Any]) -> Forwarded:
        """Return the reply to a request, retried like every call.

        Raises:
            ModelError: this request cannot be answered.
            FatalModelError, EndpointDownError, SpendingLimitError: no request can.
        """
        request = relevant(body)
        if self.decisive:
            request |= {name: self._limits.first(int(request[name])) for name in _LIMITS if request.get(name)}
        await self._way.get_ready()
        size = await asyncio.to_thread(self._size, request) if self._caller.counts_tokens else TokenEstimate()
        called: Called[Forwarded] = await self._caller.call(
            lambda seconds, turn: self._send(request, seconds, turn), size
        )
        return msgspec.structs.replace(called.reply, usage=called.usage, latency_ms=called.latency_ms)

    def _size(self, request: Mapping[str, Any]) -> TokenEstimate:
        """Return the tokens of one attempt, including the JSON around the texts."""
        limits = [request.get(name) for name in _LIMITS]
        longest = max((int(limit) for limit in limits if limit), default=self._longest) * int(request.get("n") or 1)
        return TokenEstimate(self._counter.count(msgspec.json.encode(request).decode()), longest)

    @cached_property
    def _counter(self) -> TokenCounter:
        return token_counter(self.spec)

    async def _send(self, request: Mapping[str, Any], seconds: float, turn: Permit) -> Forwarded:
        sent = {name: value for name, value in request.items() if name in _KNOWN}
        # Fields that only this server knows, such as arguments of a chat template, are passed on where that is usual.
        if self._extends and (more := {name: value for name, value in request.items() if name not in _KNOWN}):
            sent["extra_body"] = more
        own = options_sent(self.spec, self._options)
        if more := sent.get("extra_body", {}) | own.pop("extra_body", {}):
            sent["extra_body"] = more
        try:
            response = await self._way.send(sent | own, seconds, frozenset(own))
            document = response.read(dict[str, Any])
        except Exception as error:
            # The cause is omitted on purpose: its traceback may print the key.
            raise meaning_of(error, self._destination.name) from None
        turn.learn(response.headers)
        cost = response.cost() if self._priced else None
        return await asyncio.to_thread(self._read, request, document, cost)

    def _read(self, request: Mapping[str, Any], document: dict[str, Any], cost: float | None) -> Forwarded:
        text, finish = _reply_content(document)
        counted = Counted.of(document.get("usage"))
        if counted.is_whole(replied=bool(text)):
            if self._priced and cost is None:
                cost = price(self.spec, counted.prompt, counted.completion)
            usage = Usage.of_call(counted.prompt, counted.completion, cost)
        else:
            own = self._size(request).prompt_tokens, self._counter.count(text)
            usage = counted.usage(*own, partial(price, self.spec))
            tokens = usage.prompt_tokens, usage.completion_tokens, usage.prompt_tokens + usage.completion_tokens
            document["usage"] = dict(zip(("prompt_tokens", "completion_tokens", "total_tokens"), tokens, strict=True))
        clean = without_secrets(msgspec.json.encode(document).decode())
        return Forwarded(
            document=Raw(clean.encode()),
            usage=usage,
            finish_reason=without_secrets(finish)[:100],
            is_empty=not text.strip(),
            served_model=without_secrets(str(document.get("model") or "")),
        )


def relevant(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a request that can change the reply."""
    return {name: value for name, value in body.items() if name not in _UNSENT and value is not None}


def _reply_content(document: dict[str, Any]) -> tuple[str, str]:
    """Return the content of all choices, tool calls included, and the finish reason of the first that is not whole."""
    choices: Sequence[dict[str, Any]] = document.get("choices") or ()
    for choice in choices:
        # Clients in other languages require the key.
        choice.setdefault("message", {}).setdefault("content", None)
    texts = [str(choice["message"][key]) for choice in choices for key in _SAYING if choice["message"].get(key)]
    reasons = [str(choice.get("finish_reason") or "") for choice in choices] or [""]
    return "".join(texts), next((reason for reason in reasons if not is_whole(reason)), reasons[0])


_SAYING = ("content", "tool_calls", "function_call", "refusal", "audio")


# Replies to forwarded requests of other programs, cached on disk next to those of our own.


class CachedForwarding:
    """Answers repeated requests from the cache; limits concurrent calls, and never makes two identical ones at once.

    All methods are called in one event loop.

    Args:
        model: answers requests that are not cached.
        cache_path: the SQLite file; None: nothing is cached.
        endpoints: addresses of the model, as by `cache_addresses`; replies are stored under the first.
        concurrency: maximum number of concurrent calls.
    """

    def __init__(
        self, model: ForwardedModel, cache_path: Path | None, endpoints: Sequence[str], concurrency: int
    ) -> None:
        self.spec = model.spec
        self.get_ready = model.get_ready
        self._model = model
        self._replies = ReplyCache(
            "forwarded", CachedReply[Forwarded], cache_path, model.spec, endpoints, in_threads=True
        )
        self._places = asyncio.Semaphore(concurrency)

    def canonical(self, body: Mapping[str, Any]) -> bytes:
        """Return everything that can change the reply, as JSON with sorted keys."""
        return self._replies.canonicals(self._decisive(body))[0]

    def _decisive(self, body: Mapping[str, Any]) -> dict[str, Any]:
        return {"body": relevant(body)} | ({"options": self._model.decisive} if self._model.decisive else {})

    async def forward(self, body: Mapping[str, Any], receipts: Receipts | None) -> tuple[Forwarded, bool]:
        """Return the reply, and whether it came from the cache.

        Raises:
            HarnessError: there is no reply; see `ForwardedModel.forward`.
        """

        async def call() -> Forwarded:
            async with self._places:
                return await self._model.forward(body)

        return await self._replies.get(self._decisive(body), call, receipts)
