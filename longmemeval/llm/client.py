"""Chat models behind LiteLLM: one request, retries, and what it cost."""

import asyncio
import time
from collections.abc import AsyncGenerator
from types import ModuleType
from weakref import WeakKeyDictionary

from msgspec import Struct, convert, structs

from longmemeval.addresses import Address
from longmemeval.llm.errors_map import meaning_of
from longmemeval.llm.protocol import ChatReply, ChatRequest
from longmemeval.llm.providers import has_price, split_spec, table_entry
from longmemeval.llm.registry import ModelOptions
from longmemeval.llm.retry import call_with_retries
from longmemeval.prices import load_litellm
from longmemeval.records import Usage
from longmemeval.redaction import without_secrets


class _Message(Struct, frozen=True):
    content: str | None = None


class _Choice(Struct, frozen=True):
    message: _Message
    finish_reason: str | None = None


class _Tokens(Struct, frozen=True):
    prompt_tokens: int = 0
    completion_tokens: int = 0


class _Completion(Struct, frozen=True):
    """The part of LiteLLM's response that is read."""

    choices: tuple[_Choice, ...] = ()
    usage: _Tokens | None = None
    model: str | None = None


class LiteLLMChatModel:
    """A model of one of LiteLLM's providers; any number of calls may be under way, in any number of event loops.

    Args:
        spec: the model, known to be well-formed.
        options: endpoint, time-out and retries.
        api_key: sent with each call; None leaves it to LiteLLM and the environment.
        address: where calls go; None leaves that to LiteLLM and the environment.
    """

    def __init__(
        self, spec: str, options: ModelOptions, api_key: str | None = None, *, address: Address | None = None
    ) -> None:
        self._spec = spec
        self._options = options
        self._api_key = api_key
        self._provider, _ = split_spec(spec)
        self._priced = has_price(table_entry(spec))
        self._address = address
        self._where = f"{spec} at {address.url}" if address else spec

    @property
    def spec(self) -> str:
        """The model as LiteLLM names it."""
        return self._spec

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Send `request` until it is answered or there is no sense in trying again.

        Raises:
            TransientModelError: all attempts failed in a way that might have passed.
            ModelError: this request cannot be answered.
            FatalModelError: no request can.
        """
        litellm = load_litellm()
        await _close_connections_with_the_loop(litellm)
        started = time.perf_counter()
        reply, attempts = await call_with_retries(
            lambda: self._attempt(litellm, request),
            max_attempts=self._options.max_attempts,
            max_wait_s=self._options.max_wait_s,
        )
        return structs.replace(reply, attempts=attempts, latency_ms=(time.perf_counter() - started) * 1000)

    async def _attempt(self, litellm: ModuleType, request: ChatRequest) -> ChatReply:
        options = self._options
        try:
            # LiteLLM's own time-out is for the gap between two bytes; a gateway that sends blanks to keep the line
            # open would never run into it.
            async with asyncio.timeout(options.timeout_s):
                response = await litellm.acompletion(
                    model=self._spec,
                    messages=[{"role": message.role, "content": message.content} for message in request.messages],
                    temperature=request.temperature,
                    max_tokens=request.max_tokens,
                    n=1,
                    timeout=float(options.timeout_s),
                    api_base=self._address.url if self._address else None,
                    extra_headers=self._address.headers if self._address else None,
                    api_key=self._api_key,
                    num_retries=0,
                    max_retries=0,
                    # A model that takes no temperature is called without one; `registry.model_warning` says so.
                    drop_params=True,
                )
            completion = convert(response, _Completion, from_attributes=True)
        except Exception as error:
            # The cause is left out on purpose: a traceback of it may print the key.
            raise meaning_of(error, self._where) from None
        return self._reply(completion, self._cost(litellm, response))

    def _reply(self, completion: _Completion, cost: float | None) -> ChatReply:
        choice = completion.choices[0] if completion.choices else _Choice(_Message())
        tokens = completion.usage or _Tokens()
        served = without_secrets(completion.model or "")
        said = choice.message.content or ""
        # A server may repeat what it was sent, the headers too.
        text = without_secrets(said)
        return ChatReply(
            text=text,
            redacted=text != said,
            finish_reason=choice.finish_reason or "",
            usage=Usage(
                calls=1,
                prompt_tokens=tokens.prompt_tokens,
                completion_tokens=tokens.completion_tokens,
                cost_usd=cost or 0.0,
                unpriced_calls=1 if cost is None else 0,
            ),
            # LiteLLM puts the provider before the name the server sent, for all but `openai`.
            served_model=served if self._provider == "openai" else served.removeprefix(f"{self._provider}/"),
        )

    def _cost(self, litellm: ModuleType, response: object) -> float | None:
        """US dollars by LiteLLM's table; None when it has no price."""
        if not self._priced:
            return None
        try:
            return float(litellm.completion_cost(completion_response=response, model=self._spec))
        except Exception:
            # An answer that was paid for is not thrown away because its bill cannot be made out.
            return None


_open_connections: WeakKeyDictionary[asyncio.AbstractEventLoop, AsyncGenerator[None, None]] = WeakKeyDictionary()


async def _close_connections_with_the_loop(litellm: ModuleType) -> None:
    """See to it that LiteLLM's connections of the running event loop are closed when it ends.

    LiteLLM keeps them under the address of the loop for as long as the process lives; a later loop may get the same
    address. `asyncio.run` finishes every async generator that was begun, which is the one moment to close them.
    """
    loop = asyncio.get_running_loop()
    if loop not in _open_connections:
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
