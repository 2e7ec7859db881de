"""What a server of the user's own tells of its model: the context window, and whether the model is loaded.

vLLM tells it at `/v1/models` (`max_model_len`), Ollama at `/api/ps` (the loaded model's `context_length`; versions
before July 2025 do not, so that `num_ctx` of `/api/show` counts if the Modelfile has one), LM Studio at
`/api/v0/models`, llama.cpp at `/props` (`n_ctx` of one slot). Sources: vLLM's `ModelCard`, Ollama's pull request 11331,
LM Studio's page on its REST API v0, the README of llama.cpp's server. A server without such an address refuses the
question, which then tells nothing.
"""

import asyncio
import logging
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Annotated

import msgspec
from msgspec import Struct

from longmemeval.llm.http.connections import Destination, once
from longmemeval.llm.http.endpoints import OWN_ENDPOINT, served_at
from longmemeval.llm.options import ModelOptions
from longmemeval.llm.providers import split_spec, table_entry
from longmemeval.records import TRUNCATED

_LOG = logging.getLogger(__name__)

_PATIENCE_S = 3.0
"""Seconds that all questions together may take."""
_FAR_BELOW = 0.6
"""Share of our own count below which a server's count of a prompt is no matter of another tokenizer."""
_LONG = 1000
"""Tokens of a prompt from which the two counts are compared."""
_LOCAL = ("ollama", "ollama_chat", "llamafile")
"""Providers whose models the user serves: LiteLLM's table has what a model can take, not what is loaded."""
_NUM_CTX = re.compile(r"^num_ctx\s+(\d+)", re.MULTILINE)


class Told(Struct, frozen=True):
    """What a server tells of a model."""

    window: int | None = None
    """Tokens of prompt and reply together; None: it does not tell."""
    source: str = ""
    """The server and the address that told it."""
    is_loaded: bool = True


_Tokens = Annotated[int, msgspec.Meta(ge=0)]


class _Model(Struct, frozen=True):
    id: str = ""
    name: str = ""
    state: str = ""
    max_model_len: _Tokens | None = None
    context_length: _Tokens | None = None
    loaded_context_length: _Tokens | None = None


class _Settings(Struct, frozen=True):
    n_ctx: _Tokens | None = None


class _Reply(Struct, frozen=True):
    data: tuple[_Model, ...] = ()
    models: tuple[_Model, ...] | None = None
    default_generation_settings: _Settings = _Settings()
    parameters: str = ""


def is_own_server(spec: str, options: ModelOptions) -> bool:
    """Return whether a model is served by a server that only its user knows: no table has its window.

    Raises:
        FatalModelError: LiteLLM knows no such provider, or the address is invalid.
    """
    provider, _ = split_spec(spec)
    if provider in _LOCAL or provider == "azure":  # Every model of Azure has an address that its user names.
        return provider in _LOCAL
    address = served_at(spec, options)
    return address not in (None, OWN_ENDPOINT) and not (table_entry(spec) or {}).get("max_input_tokens")


class OwnServer:
    """The server of one model; see `is_own_server`.

    Attributes:
        told: what it told when it was asked.
        loading_s: seconds that it took to load the model; 0 if it was loaded already.
    """

    def __init__(self, spec: str, options: ModelOptions, destination: Destination) -> None:
        self._spec, self._destination = spec, destination
        self._wanted = options.more.get("num_ctx") if split_spec(spec)[0] in _LOCAL else None
        self.told, self.loading_s = Told(), 0.0
        self._is_ready = self._has_warned = False

    async def get_ready(self, load: Callable[[], Awaitable[object]]) -> None:
        """Ask the server, once; have a model that is not loaded loaded by `load`, so that no question waits for it."""
        if not self._is_ready:
            self.told, self.loading_s = await once(f"window of {self._destination.name}", lambda: self._asked(load))
            self._is_ready = True

    async def _asked(self, load: Callable[[], Awaitable[object]]) -> tuple[Told, float]:
        told = await self._ask()
        if told.is_loaded and self._wanted in (None, told.window):
            return told, 0.0
        began = time.perf_counter()
        with suppress(Exception):  # What is wrong, the first question says.
            await load()
        return await self._ask(), time.perf_counter() - began

    async def _ask(self) -> Told:
        base, (_, name) = self._destination.served_at or "", split_spec(self._spec)
        key = {"Authorization": f"Bearer {self._destination.key}"} if self._destination.key else {}
        with suppress(Exception):  # A server that cannot be asked tells nothing.
            async with asyncio.timeout(_PATIENCE_S):
                return await _told(base.rstrip("/"), name, key | self._destination.headers)
        return Told()

    def note(self, ours: int | None, theirs: int) -> str:
        """Return a note if the server counted far fewer tokens of a prompt than we did, which it says once; else empty.

        Ollama truncates a prompt without an error, and counts what is left.
        """
        if ours is None or ours < _LONG or not 0 < theirs < _FAR_BELOW * ours:
            return ""
        note = f"{TRUNCATED}it counted {theirs:,} prompt tokens, we count {ours:,}"
        if not self._has_warned:
            self._has_warned = True
            _LOG.warning("%s: %s. Give it a larger context window.", self._destination.name, note)
        return note


async def _told(base: str, name: str, headers: Mapping[str, str]) -> Told:
    from longmemeval.llm.http.direct import fetched

    async def reply(address: str, body: bytes | None = None) -> _Reply:
        with suppress(msgspec.DecodeError):
            return msgspec.json.decode(await fetched(address, headers, body), type=_Reply, strict=False)
        return _Reply()

    root = base.removesuffix("/v1")
    names = {name, f"{name}:latest"}
    listed = (await reply(f"{base}/models")).data
    model = next((model for model in listed if model.id in names), listed[0] if len(listed) == 1 else _Model())
    if window := model.max_model_len or model.context_length:
        return Told(window, "/v1/models")
    if (running := (await reply(f"{root}/api/ps")).models) is not None:
        loaded = next((model for model in running if model.name in names), None)
        if loaded is None:
            return Told(is_loaded=False)
        if loaded.context_length:
            return Told(loaded.context_length, "/api/ps")
        shown = await reply(f"{root}/api/show", msgspec.json.encode({"model": name}))
        given = _NUM_CTX.search(shown.parameters)
        return Told(int(given[1]), "/api/show") if given else Told()
    known = next((model for model in (await reply(f"{root}/api/v0/models")).data if model.id in names), _Model())
    if known.state:
        return Told(known.loaded_context_length, "/api/v0/models", known.state == "loaded")
    settings = (await reply(f"{root}/props")).default_generation_settings
    return Told(settings.n_ctx, "/props") if settings.n_ctx else Told()
