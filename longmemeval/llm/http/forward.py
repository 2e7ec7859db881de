"""Requests of other programs, passed on to a model as they are: chat completions of the OpenAI API.

What a request says stays: tools, forms of the reply, temperature. Only the model is the one that was configured.
"""

import asyncio
from collections.abc import Mapping, Sequence
from functools import cached_property
from types import ModuleType
from typing import Any

import msgspec
from msgspec import Raw, Struct

from longmemeval.core.secrets.addresses import Address
from longmemeval.core.secrets.redaction import without_secrets
from longmemeval.llm.costs.prices import load_litellm, price
from longmemeval.llm.costs.spending import Account
from longmemeval.llm.http.calling import Called, Caller
from longmemeval.llm.http.client import cost_of, headers_of
from longmemeval.llm.http.connections import close_connections_with_the_loop
from longmemeval.llm.http.destination import Destination
from longmemeval.llm.http.errors_map import meaning_of
from longmemeval.llm.http.warm_up import warm_up
from longmemeval.llm.options import ModelOptions
from longmemeval.llm.providers import has_price, split_spec, table_entry
from longmemeval.llm.rates.book import TokenEstimate
from longmemeval.llm.rates.gate import Permit
from longmemeval.llm.tokens import TokenCounter, token_counter
from longmemeval.records import Usage

# fmt: off
_UNSENT = frozenset((
    "model", "stream", "stream_options", "user", "metadata", "store", "background", "service_tier",
    "safety_identifier", "prompt_cache_key", "prompt_cache_retention", "extra_headers", "extra_query", "timeout"
))
"""What changes no reply, or is ours to decide."""
_KNOWN = frozenset((
    "messages", "temperature", "top_p", "n", "stop", "max_tokens", "max_completion_tokens",
    "response_format", "seed", "tools", "tool_choice", "parallel_tool_calls", "functions",
    "function_call", "logprobs", "top_logprobs", "presence_penalty", "frequency_penalty", "logit_bias",
    "modalities", "prediction", "audio", "reasoning_effort", "verbosity", "web_search_options"
))
# fmt: on
_ALLOWED = ["tools", "tool_choice", "parallel_tool_calls", "response_format", "seed"]
"""LiteLLM would leave these out for models it does not know; a reply in another form would be a silent fault."""
_LONGEST_REPLY = 16_384
"""Tokens of a reply, where neither the request nor the price table says how many there can be."""


class Forwarded(Struct, frozen=True):
    """A reply as the other program gets it."""

    document: Raw
    """JSON in the form of the OpenAI API."""
    usage: Usage
    finish_reason: str
    is_empty: bool
    served_model: str = ""
    latency_ms: float = 0.0


class ForwardedModel:
    """A model for requests of other programs; made by `registry.load_forwarded`.

    Args:
        spec: the model.
        options: endpoint, time-out and retries.
        api_key: sent with each call; None leaves it to LiteLLM and the environment.
        address: where calls go; None leaves that to LiteLLM and the environment.
        account: where attempts are written down; None: nowhere.
    """

    def __init__(
        self, spec: str, options: ModelOptions, api_key: str | None, address: Address | None, account: Account | None
    ) -> None:
        self.spec = spec
        self._destination = Destination(spec, options, api_key, address)
        entry = table_entry(spec)
        self._priced = has_price(entry)
        self._longest = int((entry or {}).get("max_output_tokens") or _LONGEST_REPLY)
        self._extends = split_spec(spec)[0] == "openai"
        self._caller = Caller(spec, self._destination, options, account)

    async def get_ready(self) -> None:
        """Load what the first call would have to wait for."""
        litellm = await asyncio.to_thread(load_litellm)
        await warm_up(litellm, self._destination.served_at)

    async def forward(self, body: Mapping[str, Any]) -> Forwarded:
        """The reply to a request; tried again as every call is.

        Raises:
            ModelError: this request cannot be answered.
            FatalModelError, EndpointDownError, SpendingLimitError: no request can.
        """
        request = relevant(body)
        litellm = await asyncio.to_thread(load_litellm)
        await close_connections_with_the_loop(litellm)
        size = await asyncio.to_thread(self._size, request) if self._caller.counts_tokens else TokenEstimate()
        called: Called[Forwarded] = await self._caller.call(
            lambda seconds, turn: self._send(litellm, request, seconds, turn), size
        )
        return msgspec.structs.replace(called.reply, usage=called.usage, latency_ms=called.latency_ms)

    def _size(self, request: Mapping[str, Any]) -> TokenEstimate:
        """Tokens of one attempt; JSON around the texts is counted too."""
        asked = [request.get(name) for name in ("max_tokens", "max_completion_tokens")]
        longest = max((int(one) for one in asked if one), default=self._longest) * int(request.get("n") or 1)
        return TokenEstimate(self._counter.count(msgspec.json.encode(request).decode()), longest)

    @cached_property
    def _counter(self) -> TokenCounter:
        return token_counter(self.spec)

    async def _send(self, litellm: ModuleType, request: Mapping[str, Any], seconds: float, turn: Permit) -> Forwarded:
        sent = {name: value for name, value in request.items() if name in _KNOWN}
        # What only this server knows (a chat template's arguments, say) goes along where that is the custom.
        if self._extends and (more := {name: value for name, value in request.items() if name not in _KNOWN}):
            sent["extra_body"] = more
        if "tools" in sent:
            sent["_skip_mcp_handler"] = True  # LiteLLM would look for servers of its own among them, with a library.
        try:
            async with asyncio.timeout(seconds):
                response = await litellm.acompletion(
                    **sent,
                    allowed_openai_params=[name for name in _ALLOWED if name in sent],
                    **self._destination.arguments(seconds),
                )
            document: dict[str, Any] = response.model_dump(mode="json", exclude_none=True)
        except Exception as error:
            # The cause is left out on purpose: a traceback of it may print the key.
            raise meaning_of(error, self._destination.name) from None
        turn.told(headers_of(response))
        return self._read(document, cost_of(litellm, response, self.spec) if self._priced else None)

    def _read(self, document: dict[str, Any], cost: float | None) -> Forwarded:
        usage = document.get("usage") or {}
        prompt, completion = (int(usage.get(key) or 0) for key in ("prompt_tokens", "completion_tokens"))
        if self._priced and cost is None:
            cost = price(self.spec, prompt, completion)
        text, finish = _said(document)
        clean = without_secrets(msgspec.json.encode(document).decode())
        return Forwarded(
            document=Raw(clean.encode()),
            usage=Usage(
                calls=1,
                prompt_tokens=prompt,
                completion_tokens=completion,
                cost_usd=cost or 0.0,
                unpriced_calls=int(cost is None),
            ),
            finish_reason=finish,
            is_empty=not text.strip(),
            served_model=without_secrets(str(document.get("model") or "")),
        )


def relevant(body: Mapping[str, Any]) -> dict[str, Any]:
    """What of a request can change the reply."""
    return {name: value for name, value in body.items() if name not in _UNSENT and value is not None}


def _said(document: dict[str, Any]) -> tuple[str, str]:
    """All that stands in the choices, calls of tools too, and how the first one ended."""
    choices: Sequence[dict[str, Any]] = document.get("choices") or ()
    for choice in choices:
        # Clients of other languages expect the key.
        choice.setdefault("message", {}).setdefault("content", None)
    said = [str(choice["message"][key]) for choice in choices for key in _SAYING if choice["message"].get(key)]
    return "".join(said), str(choices[0].get("finish_reason") or "") if choices else ""


_SAYING = ("content", "tool_calls", "function_call", "refusal", "audio")
