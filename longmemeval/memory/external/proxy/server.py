"""The recording proxy: a server on the loopback that speaks the OpenAI API, with an address for each history and stage.

It has its own event loop, so that a memory that waits for a model in another loop does not keep it from answering.
"""

import asyncio
import base64
import os
import secrets
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any, Literal

import msgspec
import numpy as np
from aiohttp import web

from longmemeval.core.arrays import Vectors
from longmemeval.core.files import sha256_bytes
from longmemeval.core.http import without_proxy_here
from longmemeval.core.secrets.redaction import redact
from longmemeval.embedding.registry import is_remote, load_embedder
from longmemeval.errors import (
    ContextOverflowError,
    EndpointDownError,
    FatalModelError,
    HarnessError,
    SpendingLimitError,
    TransientModelError,
)
from longmemeval.llm.costs import EMBEDDINGS, REPLIES, Account
from longmemeval.llm.finish_reasons import is_whole
from longmemeval.llm.http.endpoints import cache_addresses
from longmemeval.llm.http.forward import CachedForwarding
from longmemeval.llm.model_calls import CallFile, CallKind, ModelCall, Stage
from longmemeval.llm.options import ModelOptions, named, split_options
from longmemeval.llm.registry import ModelAccess, load_forwarded
from longmemeval.memory.external.background import BackgroundLoop
from longmemeval.memory.external.proxy.responses import (
    Vectorised,
    Vectoriser,
    dimension_of,
    to_chat_request,
    to_response,
)
from longmemeval.records import Usage

# The model calls of one history at one stage, which are answered, counted and recorded.

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
            "chat_model": split_options(self.access.chat_model or "")[0],
            "embedding_base_url": self.base_url,
            "embedding_model": split_options(self.access.embedder)[0],
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
                cut="" if is_whole(reply.finish_reason) else reply.finish_reason,
                prompt_tokens=usage.prompt_tokens,
                completion_tokens=usage.completion_tokens,
                estimated=bool(usage.estimated_calls),
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
                estimated=bool(found.usage.estimated_calls),
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
                "The memory system asks a chat model, but none is configured for it",
                fix="Give `prepare` --memory-model openai/gpt-4o-mini, say, with --api-base for a local endpoint",
            )
        caches = access.cache_dir
        path = caches / REPLIES if caches else None
        with _MAKING:
            # Determined for each call: the environment may have changed the addresses.
            spec, options = named(access.chat_model, access.options)
            endpoints = tuple(cache_addresses(spec, options))
            return _forwarding(spec, options, path, access.account, access.concurrency, endpoints)

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
    asked, model = str(body.get("model") or ""), split_options(model)[0]
    return "" if asked in (model, model.partition("/")[2], model.partition(":")[2]) else asked[:200]


def _milliseconds_since(started: float) -> float:
    return round((time.perf_counter() - started) * 1000, 1)


# Turn a complete reply into the stream of events that a client requested.

_DONE = b"data: [DONE]\n\n"


def chat_events(document: Mapping[str, Any], options: Mapping[str, Any]) -> Iterator[bytes]:
    """Yield the chunks of a chat completion: the message, the finish reason, and the tokens if requested.

    Args:
        document: the completion.
        options: `stream_options` of the request.
    """
    frame = {key: document.get(key) for key in ("id", "created", "model")} | {"object": "chat.completion.chunk"}
    choices: Sequence[Mapping[str, Any]] = document.get("choices") or ()
    for choice in choices:
        delta = dict(choice.get("message") or {})
        if calls := delta.get("tool_calls"):
            delta["tool_calls"] = [{"index": place} | dict(call) for place, call in enumerate(calls)]
        yield _data(frame | {"choices": [{"index": choice.get("index", 0), "delta": delta, "finish_reason": None}]})
    for choice in choices:
        end = {"index": choice.get("index", 0), "delta": {}, "finish_reason": choice.get("finish_reason")}
        yield _data(frame | {"choices": [end]})
    if options.get("include_usage"):
        yield _data(frame | {"choices": [], "usage": document.get("usage")})
    yield _DONE


def response_events(document: Mapping[str, Any]) -> Iterator[bytes]:
    """Yield the events of a response, each part in one piece."""
    for number, event in enumerate(_response_documents(document)):
        yield f"event: {event['type']}\n".encode() + _data(event | {"sequence_number": number})


def _response_documents(document: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    started = dict(document) | {"status": "in_progress", "output": [], "usage": None}
    yield {"type": "response.created", "response": started}
    yield {"type": "response.in_progress", "response": started}
    for place, item in enumerate(document.get("output") or ()):
        at = {"output_index": place, "item_id": item.get("id")}
        empty = dict(item) | {key: type(item[key])() for key in ("content", "arguments") if item.get(key)}
        yield {"type": "response.output_item.added", "output_index": place, "item": empty | {"status": "in_progress"}}
        for index, part in enumerate(item.get("content") or ()):
            if part.get("type") != "output_text":
                continue
            inside = at | {"content_index": index}
            yield {"type": "response.content_part.added", "part": dict(part) | {"text": ""}} | inside
            yield {"type": "response.output_text.delta", "delta": part["text"], "logprobs": []} | inside
            yield {"type": "response.output_text.done", "text": part["text"], "logprobs": []} | inside
            yield {"type": "response.content_part.done", "part": part} | inside
        if arguments := item.get("arguments"):
            yield {"type": "response.function_call_arguments.delta", "delta": arguments} | at
            yield {"type": "response.function_call_arguments.done", "arguments": arguments} | at
        yield {"type": "response.output_item.done", "output_index": place, "item": item}
    last = "response.completed" if document.get("status") != "incomplete" else "response.incomplete"
    yield {"type": last, "response": document}


def _data(document: Mapping[str, Any]) -> bytes:
    return b"data: " + msgspec.json.encode(document) + b"\n\n"


KEY = "longmemeval"
"""The key that memory systems are given; any key is accepted, and none is stored."""
_LARGEST_REQUEST = 64 * 1024 * 1024

_STATUS: tuple[tuple[type[HarnessError], int, str], ...] = (
    (SpendingLimitError, 402, "spending_limit"),
    (FatalModelError, 400, "no_model"),
    (EndpointDownError, 503, "endpoint_down"),
    (TransientModelError, 503, "endpoint_failed"),
    (ContextOverflowError, 400, "context_length_exceeded"),
)

_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class ModelProxy:
    """The server of this process; it starts when models are first offered."""

    def __init__(self) -> None:
        self._loop = BackgroundLoop("longmemeval-model-proxy")
        self._scopes: dict[str, ProxiedScope] = {}
        self._port = 0
        self._starting: asyncio.Lock | None = None

    @contextmanager
    def offered(
        self, name: str, stage: Stage, access: ModelAccess, calls: Path | None, haystack_id: str = ""
    ) -> Iterator[ProxiedScope]:
        """Offer models at their own address within the context, once they can be called without delay.

        Args:
            name: the opaque name of the scope.
            stage: filling or searching.
            access: the models to offer.
            calls: the file in which every call is recorded.
            haystack_id: recorded in that file, which no memory system reads.
        """
        scope = ProxiedScope(name, stage, access, CallFile(calls), haystack_id)
        scope.base_url = f"http://127.0.0.1:{self._loop.complete(self._started())}/{scope.token}/v1"
        self._scopes[scope.token] = scope
        self._loop.complete(scope.get_ready())
        try:
            yield scope
        finally:
            del self._scopes[scope.token]

    async def _started(self) -> int:
        """Start the server if it is not running, and return its port."""
        self._starting = self._starting or asyncio.Lock()
        async with self._starting:
            if not self._port:
                application = web.Application(client_max_size=_LARGEST_REQUEST)
                for path, handler in (
                    ("chat/completions", self._chat),
                    ("responses", self._responses),
                    ("embeddings", self._embeddings),
                ):
                    application.router.add_post(f"/{{token}}/v1/{path}", _with_api_errors(handler))
                application.router.add_get("/{token}/v1/models", _with_api_errors(self._models))
                application.router.add_route("*", "/{rest:.*}", _with_api_errors(_unknown))
                runner = web.AppRunner(application, access_log=None, handle_signals=False)
                await runner.setup()
                site = web.TCPSite(runner, "127.0.0.1", 0)
                await site.start()
                self._port = runner.addresses[0][1]
                os.environ.update(without_proxy_here(os.environ))  # For memories of this process.
            return self._port

    def _scope(self, request: web.Request) -> ProxiedScope:
        scope = self._scopes.get(request.match_info["token"])
        if scope is None:
            raise HarnessError("This address is not open: its history is not being filled or searched any more")
        return scope

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        return await self._forwarded("chat", request)

    async def _responses(self, request: web.Request) -> web.StreamResponse:
        return await self._forwarded("responses", request)

    async def _forwarded(self, kind: Literal["chat", "responses"], request: web.Request) -> web.StreamResponse:
        scope, body = self._scope(request), await _body(request)
        document = await scope.forward(kind, body)
        if not body.get("stream"):
            return web.Response(body=msgspec.json.encode(document), content_type="application/json")
        stream = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-cache"})
        await stream.prepare(request)
        options = body.get("stream_options") or {}
        for event in chat_events(document, options) if kind == "chat" else response_events(document):
            await stream.write(event)
        await stream.write_eof()
        return stream

    async def _embeddings(self, request: web.Request) -> web.StreamResponse:
        scope, body = self._scope(request), await _body(request)
        found = await scope.embed(body)
        in_base64 = body.get("encoding_format") == "base64"
        document = {
            "object": "list",
            "model": split_options(scope.access.embedder)[0],
            "data": await asyncio.to_thread(_rows, found.rows, in_base64=in_base64),
            "usage": {"prompt_tokens": found.tokens, "total_tokens": found.tokens},
        }
        return web.Response(
            body=await asyncio.to_thread(msgspec.json.encode, document), content_type="application/json"
        )

    async def _models(self, request: web.Request) -> web.StreamResponse:
        access = self._scope(request).access
        names = [split_options(name)[0] for name in (access.chat_model, access.embedder) if name]
        data = [{"id": name, "object": "model", "created": 0, "owned_by": "longmemeval"} for name in names]
        return web.json_response({"object": "list", "data": data})


@cache
def model_proxy() -> ModelProxy:
    """Return the proxy of this process."""
    return ModelProxy()


async def _unknown(request: web.Request) -> web.StreamResponse:
    raise HarnessError(
        f"Unknown endpoint: {request.method} {request.path.rpartition('/v1')[2]}",
        fix="Memory systems may call chat/completions, responses, embeddings and models",
    )


async def _body(request: web.Request) -> dict[str, Any]:
    raw = await request.read()
    try:
        return msgspec.json.decode(raw, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise HarnessError(f"The request is not a JSON object: {error}") from error


def _with_api_errors(handler: _Handler) -> _Handler:
    """Report errors in the form of the OpenAI API. Clients are told not to retry, since retries happen here."""

    async def answer(request: web.Request) -> web.StreamResponse:
        try:
            return await handler(request)
        except HarnessError as error:
            known = ((status, code) for kind, status, code in _STATUS if isinstance(error, kind))
            status, code = next(known, (400, "invalid_request"))
            fault = {"message": redact(str(error)), "type": "longmemeval_error", "param": None, "code": code}
            return web.json_response({"error": fault}, status=status, headers={"x-should-retry": "false"})

    return answer


def _rows(rows: Vectors, *, in_base64: bool) -> list[dict[str, Any]]:
    def written(row: Vectors) -> object:
        return base64.b64encode(row.astype(np.dtype("<f4")).tobytes()).decode() if in_base64 else row.tolist()

    return [{"object": "embedding", "index": place, "embedding": written(row)} for place, row in enumerate(rows)]
