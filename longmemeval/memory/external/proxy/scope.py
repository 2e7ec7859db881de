"""The model calls of one history at one stage, which are answered, counted and recorded."""

import asyncio
import secrets
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any, Literal

import msgspec

from longmemeval.core.files import sha256_bytes
from longmemeval.embedding.registry import is_remote, load_embedder
from longmemeval.errors import EndpointDownError, FatalModelError, HarnessError, SpendingLimitError
from longmemeval.llm.costs import EMBEDDINGS, REPLIES, Account
from longmemeval.llm.http.endpoints import cache_addresses
from longmemeval.llm.http.forward import CachedForwarding
from longmemeval.llm.model_calls import CallFile, CallKind, ModelCall, Stage
from longmemeval.llm.options import ModelOptions
from longmemeval.llm.registry import ModelAccess, load_forwarded
from longmemeval.memory.external.proxy.responses import to_chat_request, to_response
from longmemeval.memory.external.proxy.vectors import Vectorised, Vectoriser, dimension_of
from longmemeval.records import Usage

_FINAL = (SpendingLimitError, EndpointDownError, FatalModelError)
"""Errors after which no call can succeed."""


class ProxiedScope:
    """The model calls of one history, while `ModelProxy.offered` offers it models.

    Args:
        name: the opaque name of the scope.
        stage: filling or searching.
        access: the models to offer.
        calls: the file in which every call is recorded.
        haystack_id: our own id, recorded in that file.
    """

    def __init__(self, name: str, stage: Stage, access: ModelAccess, calls: CallFile, haystack_id: str = "") -> None:
        self.token = secrets.token_urlsafe(18)
        self.base_url = ""
        """The address, set when the models are offered."""
        self.access = access
        self.usage = Usage()
        """The cost of the calls so far."""
        self.stopped: HarnessError | None = None
        """The reason why no call can succeed any more; raised to code that waits for the memory system."""
        self.failures: list[str] = []
        """The errors of single calls."""
        self._name, self._stage, self._calls, self._haystack_id = name, stage, calls, haystack_id
        self._attempt = secrets.token_hex(4)
        self._vectoriser: Vectoriser | None = None

    async def get_ready(self) -> None:
        """Load what the first call would have to wait for; an error is reported by that call."""
        with suppress(HarnessError):
            if self.access.chat_model:
                model = await asyncio.to_thread(self._model)
                await model.get_ready()
        with suppress(HarnessError):
            if self._stage == "search":
                await asyncio.to_thread(lambda: self._vectors().get_ready())

    @property
    def fields(self) -> dict[str, Any]:
        """The fields of `open` about models; may take a moment."""
        embedder = self._vectors()
        return {
            "chat_base_url": self.base_url,
            "chat_model": self.access.chat_model or "",
            "embedding_base_url": self.base_url,
            "embedding_model": self.access.embedder,
            "embedding_dimension": dimension_of(embedder.embedder),
        }

    def check(self) -> None:
        """Raise if no call can succeed any more.

        Raises:
            HarnessError: the reason.
        """
        if self.stopped:
            raise self.stopped

    async def forward(self, kind: Literal["chat", "responses"], body: Mapping[str, Any]) -> dict[str, Any]:
        """Return the reply of the chat model.

        Raises:
            HarnessError: the call failed.
        """
        self.check()
        with self._calls.awaited():
            return await self._forwarded(kind, body)

    async def _forwarded(self, kind: Literal["chat", "responses"], body: Mapping[str, Any]) -> dict[str, Any]:
        started = time.perf_counter()
        try:
            request = to_chat_request(body) if kind == "responses" else body
            model = await asyncio.to_thread(self._model)
            reply, cached = await model.forward(request, self.access.receipts)
        except HarnessError as error:
            raise self._failed(kind, body, error, started) from None
        usage = reply.usage.from_cache() if cached else reply.usage
        self._count(
            ModelCall(
                stage=self._stage,
                scope=self._name,
                kind=kind,
                model=model.spec,
                asked=_other(body, model.spec),
                served_model=reply.served_model,
                prompt_tokens=usage.prompt_tokens,
                completion_tokens=usage.completion_tokens,
                cached=cached,
                cost_usd=usage.dollars,
                milliseconds=_milliseconds_since(started),
                request_sha256=sha256_bytes(model.canonical(request)),
            ),
            usage,
        )
        document: dict[str, Any] = await asyncio.to_thread(msgspec.json.decode, reply.document)
        return to_response(document, body) if kind == "responses" else document

    async def embed(self, body: Mapping[str, Any]) -> Vectorised:
        """Return the vectors of the texts in a request.

        Raises:
            HarnessError: the request is invalid, or the embedder failed.
        """
        self.check()
        with self._calls.awaited():
            return await self._embedded(body)

    async def _embedded(self, body: Mapping[str, Any]) -> Vectorised:
        started = time.perf_counter()
        try:
            vectoriser = await asyncio.to_thread(self._vectors)
            found = await asyncio.to_thread(vectoriser.embed, body, self.access.receipts)
        except HarnessError as error:
            raise self._failed("embeddings", body, error, started) from None
        self._count(
            ModelCall(
                stage=self._stage,
                scope=self._name,
                kind="embeddings",
                model=self.access.embedder,
                asked=_other(body, self.access.embedder),
                prompt_tokens=found.tokens,
                texts=len(found.rows),
                cached=found.cached,
                cost_usd=found.usage.dollars,
                milliseconds=_milliseconds_since(started),
                request_sha256=found.request_sha256,
            ),
            found.usage,
        )
        return found

    def _model(self) -> CachedForwarding:
        access = self.access
        if access.chat_model is None:
            raise FatalModelError(
                "The memory system asks a chat model, and none is configured for it",
                fix="Give `prepare` --memory-model openai/gpt-4o-mini, say, with --api-base for a local endpoint",
            )
        caches = access.cache_dir
        path = caches / REPLIES if caches else None
        with _MAKING:
            # Determined for each call: the environment may have changed the addresses.
            endpoints = tuple(cache_addresses(access.chat_model, access.options))
            return _forwarding(access.chat_model, access.options, path, access.account, access.concurrency, endpoints)

    def _vectors(self) -> Vectoriser:
        if self._vectoriser is None:
            make = _own_vectoriser if is_remote(self.access.embedder) else _shared_vectoriser
            path = self.access.cache_dir / EMBEDDINGS if self.access.cache_dir else None
            with _MAKING:
                self._vectoriser = make(self.access.embedder, path, self.access.options, self.access.account)
        return self._vectoriser

    def _failed(self, kind: CallKind, body: Mapping[str, Any], error: HarnessError, started: float) -> HarnessError:
        """Record a failed call, and return its error for the memory system."""
        if isinstance(error, _FINAL):
            self.stopped = self.stopped or error
        self.failures.append(str(error))
        model = (self.access.embedder if kind == "embeddings" else self.access.chat_model) or "none"
        document: dict[str, Any] = {
            "stage": self._stage,
            "scope": self._name,
            "kind": kind,
            "model": model,
            "error": str(error),
        }
        document |= {"milliseconds": _milliseconds_since(started), "asked": _other(body, model)}
        self._write(msgspec.convert(document, ModelCall))
        return error

    def _count(self, call: ModelCall, usage: Usage) -> None:
        self.usage += usage
        self._write(call)

    def _write(self, call: ModelCall) -> None:
        own = {"attempt": self._attempt, "haystack_id": self._haystack_id}
        self._calls.append(msgspec.structs.replace(call, **own))


_MAKING = Lock()
"""Lock held while an object is created, so that there is only one of each."""


@cache
def _forwarding(
    spec: str,
    options: ModelOptions,
    cache_path: Path | None,
    account: Account | None,
    concurrency: int,
    endpoints: tuple[str, ...],
) -> CachedForwarding:
    """Return one object for all histories, which share the state of the endpoint and the calls under way."""
    model = load_forwarded(spec, options, account=account)
    return CachedForwarding(model, cache_path, endpoints, concurrency)


def _own_vectoriser(spec: str, path: Path | None, options: ModelOptions, account: Account | None) -> Vectoriser:
    return Vectoriser(load_embedder(spec, options, cache_path=path, account=account))


_shared_vectoriser = cache(_own_vectoriser)
"""A cached `_own_vectoriser`: embedders in this process are loaded once and shared."""


def _other(body: Mapping[str, Any], model: str) -> str:
    """Return the model's name in the request, if it differs from the one that is called."""
    named = str(body.get("model") or "")
    return "" if named in (model, model.partition("/")[2], model.partition(":")[2]) else named[:200]


def _milliseconds_since(started: float) -> float:
    return round((time.perf_counter() - started) * 1000, 1)
