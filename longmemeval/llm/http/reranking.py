"""Rerankers behind HTTP, by LiteLLM's rerank call: scores of texts for a query."""

import asyncio
import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from msgspec import Struct

from longmemeval.core.secrets.redaction import Address
from longmemeval.core.text.figures import count_of
from longmemeval.errors import ModelError
from longmemeval.llm.costs import Account
from longmemeval.llm.http.client import Called, Caller
from longmemeval.llm.http.connections import Destination
from longmemeval.llm.http.errors import meaning_of
from longmemeval.llm.http.litellm_way import LiteLLMResponse, LiteLLMWay
from longmemeval.llm.litellm_package import load_litellm
from longmemeval.llm.options import ModelOptions
from longmemeval.llm.providers import has_price, table_entry
from longmemeval.llm.rates import Permit, TokenEstimate
from longmemeval.records import Usage

_BYTES_OF_TOKEN = 3
_SEARCH_TEXTS, _TEXT_TOKENS = 100, 500
"""Texts of one search unit, and tokens above which a text counts as several, as Cohere bills them."""


class _Result(Struct, frozen=True):
    index: int
    relevance_score: float


class _Billed(Struct, frozen=True):
    search_units: float | None = None
    total_tokens: int | None = None


class _Tokens(Struct, frozen=True):
    input_tokens: int | None = None


class _Meta(Struct, frozen=True):
    billed_units: _Billed | None = None
    tokens: _Tokens | None = None


class _Ranked(Struct, frozen=True):
    results: tuple[_Result, ...] | None = None
    meta: _Meta | None = None


class Reranked(Struct, frozen=True):
    """The reply to one call."""

    scores: tuple[float, ...]
    """The score of each text, in the order of the request; higher is better."""
    usage: Usage
    finish_reason: str = "stop"
    is_empty: bool = False
    why_empty: str = ""


class _Way(LiteLLMWay):
    """Sends requests by `litellm.arerank`."""

    async def send(self, parameters: Mapping[str, Any], seconds: float, exact: Collection[str] = ()) -> LiteLLMResponse:
        """Send a request and return its reply."""
        arguments = self._destination.arguments(seconds)
        arguments["headers"] = arguments.pop("extra_headers")
        async with asyncio.timeout(seconds):
            response = await load_litellm().arerank(**parameters, **arguments)
        return LiteLLMResponse(load_litellm(), response, self._spec)


class RerankModel:
    """A reranker of a provider that LiteLLM knows; created by `registry.load_rerank_model`.

    Supports any number of concurrent calls, in any number of event loops; arguments as for `RemoteChatModel`.
    """

    def __init__(
        self, spec: str, options: ModelOptions, api_key: str | None, address: Address | None, account: Account | None
    ) -> None:
        self.spec = spec
        self._destination = Destination(spec, options, api_key, address)
        self._entry = table_entry(spec) or {}
        self._way = _Way(spec, self._destination)
        self._caller = Caller(spec, self._destination, options, account)

    async def rerank(self, query: str, texts: Sequence[str]) -> Called[Reranked]:
        """Return the scores of `texts`, retried like every call.

        Raises:
            ModelError: this request cannot be answered, or the reply has not one finite score for each text.
            FatalModelError, EndpointDownError, SpendingLimitError: no request can.
        """
        await self._way.get_ready()
        tokens = [len((query + text).encode()) // _BYTES_OF_TOKEN + 1 for text in texts]
        units = math.ceil(sum(count // _TEXT_TOKENS + 1 for count in tokens) / _SEARCH_TEXTS)
        most = self._dollars(units, sum(tokens)) or 0.0
        size = TokenEstimate(sum(tokens))
        return await self._caller.call(lambda seconds, turn: self._send(query, texts, seconds, turn), size, most)

    async def _send(self, query: str, texts: Sequence[str], seconds: float, turn: Permit) -> Reranked:
        request = {"query": query, "documents": list(texts), "top_n": len(texts), "return_documents": False}
        try:
            response = await self._way.send(request, seconds)
            reply = response.read(_Ranked)
        except Exception as error:
            # The cause is omitted on purpose: its traceback may print the key.
            meaning = meaning_of(error, self._destination.name)
            meaning.fix = meaning.fix.replace("--api-base", "its address")
            raise meaning from None
        turn.learn(response.headers)
        results = sorted(reply.results or (), key=lambda result: result.index)
        if [result.index for result in results] != list(range(len(texts))):
            raise self._wrong(f"{count_of(len(results), 'score')}, not one for each of {len(texts)} texts")
        scores = tuple(result.relevance_score for result in results)
        if not all(map(math.isfinite, scores)):
            raise self._wrong("scores that are not finite numbers")
        meta = reply.meta or _Meta()
        billed, counted = meta.billed_units or _Billed(), meta.tokens or _Tokens()
        tokens = max(counted.input_tokens or billed.total_tokens or 0, 0)
        return Reranked(scores, Usage.of_call(tokens, 0, self._dollars(billed.search_units, tokens)))

    def _wrong(self, what: str) -> ModelError:
        return ModelError(
            f"The reranker returned {what}",
            where=self._destination.name,
            fix="Check that its address is that of a server with /rerank in Cohere's or Jina's form",
            may_be_billed=True,
        )

    def _dollars(self, units: float | None, tokens: int) -> float | None:
        """Return the cost of one call; None if it is not known."""
        by_query, by_token = (self._entry.get(f"input_cost_per_{unit}") or 0.0 for unit in ("query", "token"))
        if not has_price(self._entry) or (by_token and not tokens):
            return None
        return float(by_query * (units or 1) + by_token * tokens)
