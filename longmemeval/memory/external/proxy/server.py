"""The recording proxy: a server on the loopback that speaks the OpenAI API, with an address for each history and stage.

It has its own event loop, so that a memory that waits for a model in another loop does not keep it from answering.
"""

import asyncio
import base64
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
from aiohttp import web

from longmemeval.core.arrays import Vectors
from longmemeval.core.secrets.redaction import redact
from longmemeval.errors import (
    ContextOverflowError,
    EndpointDownError,
    FatalModelError,
    HarnessError,
    SpendingLimitError,
    TransientModelError,
)
from longmemeval.llm.model_calls import CallFile, Stage
from longmemeval.llm.registry import ModelAccess
from longmemeval.memory.external.background import BackgroundLoop
from longmemeval.memory.external.proxy.scope import ProxiedScope
from longmemeval.memory.external.proxy.streaming import chat_events, response_events

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
            "model": scope.access.embedder,
            "data": await asyncio.to_thread(_rows, found.rows, in_base64=in_base64),
            "usage": {"prompt_tokens": found.tokens, "total_tokens": found.tokens},
        }
        return web.Response(
            body=await asyncio.to_thread(msgspec.json.encode, document), content_type="application/json"
        )

    async def _models(self, request: web.Request) -> web.StreamResponse:
        access = self._scope(request).access
        names = [name for name in (access.chat_model, access.embedder) if name]
        data = [{"id": name, "object": "model", "created": 0, "owned_by": "longmemeval"} for name in names]
        return web.json_response({"object": "list", "data": data})


@cache
def model_proxy() -> ModelProxy:
    """Return the proxy of this process."""
    return ModelProxy()


async def _unknown(request: web.Request) -> web.StreamResponse:
    raise HarnessError(
        f"There is no {request.method} {request.path.rpartition('/v1')[2]} here",
        fix="Memory systems may call chat/completions, responses, embeddings and models",
    )


async def _body(request: web.Request) -> dict[str, Any]:
    raw = await request.read()
    try:
        return msgspec.json.decode(raw, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise HarnessError(f"The request is no JSON object: {error}") from error


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
