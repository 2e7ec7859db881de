"""A real OpenAI-compatible HTTP server on the loopback, with faults on demand."""

import asyncio
import base64
import hashlib
import json
import random
import socket
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import numpy as np
import uvicorn
from numpy.typing import NDArray
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

Responder = Callable[[dict[str, Any]], str]


@dataclass(frozen=True)
class RecordedRequest:
    """One request as it arrived."""

    path: str
    body: dict[str, Any]
    headers: dict[str, str]
    time: float
    """Seconds on the monotonic clock."""
    raw: bytes = b""
    """The body as it was sent."""
    query: str = ""
    client: tuple[str, int] | None = None
    """Address and port of the connection's other end."""


@dataclass(frozen=True)
class Refusal:
    """An error reply; `retry_after` becomes the header of that name.

    `flat`: vLLM's older form, without an `error` around it.
    """

    status: int
    message: str = "refused on purpose"
    code: str | None = None
    retry_after: str | None = None
    param: str | None = None
    flat: bool = False

    def response(self) -> Response:
        headers = {"Retry-After": self.retry_after} if self.retry_after is not None else {}
        error = {"message": self.message, "type": "test_fault", "param": self.param, "code": self.code}
        whole = {"object": "error", **error} if self.flat else {"error": error}
        return JSONResponse(whole, status_code=self.status, headers=headers)


Fault = int | str | bytes | Refusal
"""A status code, a whole `Refusal`, the bytes of a reply, or
"garbage", "drop", "hang", "slow:SECONDS", "no-choices", "null-content" (finish
reason `length`), "redirect:ADDRESS", "empty" (finish reason `stop`), "cut" (half the text, finish reason `length`)."""


def mixed_faults(seed: int) -> Callable[[], Fault | None]:
    """One request in five goes wrong, in all the ways that are known of providers; the same ones for the same seed."""
    faults: dict[Fault | None, int] = {
        Refusal(429, retry_after="0.05"): 10,
        500: 5,
        "drop": 3,
        "garbage": 2,
        "empty": 2,
        "hang": 1,
    }
    faults[None] = 100 - sum(faults.values())
    chance = random.Random(seed)
    return lambda: chance.choices(list(faults), weights=list(faults.values()))[0]


@contextmanager
def black_hole() -> Iterator[str]:
    """An address at which connecting hangs: nobody takes the connections, and the queue for them is full."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        waiting = [socket.socket() for _ in range(4)]
        for one in waiting:
            one.setblocking(False)
            one.connect_ex(listener.getsockname())
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        finally:
            for one in waiting:
                one.close()


def nobody() -> str:
    """An address at which connections are refused."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        return f"http://127.0.0.1:{free.getsockname()[1]}/v1"


class _HttpServer(uvicorn.Server):
    """uvicorn, which ends at once: its own look whether it shall end, and its wait for connections, take 0.1 s each."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = threading.Event()

    async def main_loop(self) -> None:
        self._loop, self._ended = asyncio.get_running_loop(), asyncio.Event()
        await self.on_tick(0)
        self.ready.set()
        await self._ended.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for server in self.servers:
            server.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        # What is still being answered is cancelled with the event loop.
        await asyncio.sleep(0)

    def end(self) -> None:
        """Have the server end, from another thread."""
        self.should_exit = True
        self._loop.call_soon_threadsafe(self._ended.set)


class ModelServer:
    """Chat completions, embeddings and the list of models under `url`, served from a thread of this process.

    Args:
        responder: from the body of a chat request to the text of the reply; runs in a worker thread, so it may wait.
        dimension: length of the embedding vectors when the request does not name one.
        served_model: the name replies carry; None echoes the one asked for.
        vector: the embedding of a text of a length.

    `faults` holds what goes wrong with the next chat requests, `embedding_faults` with the next embedding requests: one
    fault is used up by each request. "slow:SECONDS" waits and then answers. Where none is left, `plan` says what goes
    wrong with a request of either kind. "together:N" waits until N requests have arrived.
    """

    def __init__(
        self,
        responder: Responder = lambda body: "A fixed reply.",
        *,
        dimension: int = 8,
        served_model: str | None = None,
        vector: Callable[[str, int], NDArray[np.float32]] | None = None,
    ) -> None:
        self.responder, self.vector = responder, vector or text_vector
        self.message: Callable[[dict[str, Any]], dict[str, Any]] | None = None
        """Makes the whole message of a reply (calls of tools, say) where it has more than a text."""
        self.choice: Callable[[dict[str, Any]], dict[str, Any]] = lambda body: {}
        """Makes what the choice of a reply has besides, or instead: a finish reason, an error."""
        self.dimension = dimension
        self.served_model = served_model
        self.headers: dict[str, str] = {}
        """Sent with every reply."""
        self.faults: deque[Fault] = deque()
        self.embedding_faults: deque[Fault] = deque()
        self.rerank_faults: deque[Fault] = deque()
        self.relevance: Callable[[str, str], float] = shared_words
        """The score that the reranker gives a query and a text."""
        self.plan: Callable[[], Fault | None] = lambda: None
        self.limits: Callable[[dict[str, Any]], Refusal | dict[str, str]] | None = None
        """From the body of a chat request to a refusal, or to headers for its reply."""
        self._requests: list[RecordedRequest] = []
        self._lock = threading.Lock()
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}/v1"
        application = Starlette(
            routes=[
                Route("/v1/chat/completions", self._chat, methods=["POST"]),
                Route("/v1/openai/deployments/{name}/chat/completions", self._chat, methods=["POST"]),
                Route("/v1/embeddings", self._embeddings, methods=["POST"]),
                Route("/v1/rerank", self._rerank, methods=["POST"]),
                Route("/v2/rerank", self._rerank, methods=["POST"]),
                Route("/v1/models", self._models, methods=["GET"]),
                *self.more_routes(),
            ]
        )
        # Faults raise inside the application on purpose; only what uvicorn itself cannot survive is worth printing.
        self._server = _HttpServer(
            uvicorn.Config(application, lifespan="off", log_level="critical", access_log=False, ws="none")
        )
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self._socket]}, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        while not self._server.ready.wait(0.1):
            if not self._thread.is_alive():
                raise RuntimeError("the test server did not start")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.end()
        self._thread.join(timeout=10)
        self._socket.close()

    @property
    def requests(self) -> list[RecordedRequest]:
        """All requests so far, in order of arrival; a copy."""
        with self._lock:
            return list(self._requests)

    @property
    def chat_requests(self) -> list[RecordedRequest]:
        """Those of `requests` that asked for a chat completion."""
        return [request for request in self.requests if request.path == "/v1/chat/completions"]

    def more_routes(self) -> list[Route]:
        """What a server of more than models serves."""
        return []

    async def _record(self, request: Request) -> dict[str, Any]:
        raw = await request.body()
        body: dict[str, Any] = json.loads(raw) if raw else {}
        recorded = RecordedRequest(
            request.url.path, body, dict(request.headers), time.monotonic(), raw, request.url.query, request.client
        )
        with self._lock:
            self._requests.append(recorded)
        return body

    async def _chat(self, request: Request) -> Response:
        body = await self._record(request)
        fault = self.faults.popleft() if self.faults else self.plan()
        limited = self.limits(body) if self.limits else {}
        if isinstance(limited, Refusal):
            return limited.response()
        spoilt = await self._spoil(fault)
        if spoilt is not None:
            return spoilt
        text = "" if fault == "empty" else await run_in_threadpool(self.responder, body)
        said = self.message(body) if self.message else {"content": text}
        end = "tool_calls" if "tool_calls" in said else "stop"
        choice: dict[str, Any] = {"index": 0, "message": {"role": "assistant"} | said, "finish_reason": end}
        if fault == "null-content":
            choice |= {"message": {"role": "assistant", "content": None}, "finish_reason": "length"}
        choice |= self.choice(body)
        text = str(said.get("content") or "")
        if fault == "cut":
            half = {"role": "assistant", "content": text[: len(text) // 2]}
            choice |= {"message": half, "finish_reason": "length"}
        choices = [] if fault == "no-choices" else [choice]
        return JSONResponse(self.completion(body, choices, text), headers=self.headers | limited)

    def completion(self, body: dict[str, Any], choices: list[dict[str, Any]], text: str) -> dict[str, Any]:
        """The whole reply to a request, whose tokens are words."""
        prompt_tokens = sum(len(str(message["content"]).split()) for message in body["messages"])
        return {
            "id": "chatcmpl-test",
            "object": "chat.completion",
            "created": 0,
            "model": self.served_model or body["model"],
            "choices": choices,
            "usage": _usage(prompt_tokens, len(text.split())),
        }

    async def _embeddings(self, request: Request) -> Response:
        body = await self._record(request)
        spoilt = await self._spoil(self.embedding_faults.popleft() if self.embedding_faults else self.plan())
        if spoilt is not None:
            return spoilt
        texts: list[str] = [body["input"]] if isinstance(body["input"], str) else body["input"]
        dimension: int = body.get("dimensions") or self.dimension
        encode = _base64 if body.get("encoding_format") == "base64" else _floats
        data = [
            {"object": "embedding", "index": index, "embedding": encode(self.vector(text, dimension))}
            for index, text in enumerate(texts)
        ]
        usage = _usage(sum(len(text.split()) for text in texts), 0)
        return JSONResponse({"object": "list", "model": body["model"], "data": data, "usage": usage})

    async def _rerank(self, request: Request) -> Response:
        """Results in Cohere's and Jina's form, the best first."""
        body = await self._record(request)
        spoilt = await self._spoil(self.rerank_faults.popleft() if self.rerank_faults else self.plan())
        if spoilt is not None:
            return spoilt
        scores = [self.relevance(body["query"], text) for text in body["documents"]]
        order = sorted(range(len(scores)), key=lambda place: -scores[place])[: body.get("top_n")]
        results = [{"index": place, "relevance_score": scores[place]} for place in order]
        tokens = sum(len(text.split()) for text in body["documents"])
        document = {"id": "rerank-test", "model": body["model"], "results": results, "usage": {"total_tokens": tokens}}
        return Response(json.dumps(document), media_type="application/json", headers=self.headers)

    async def _spoil(self, fault: Fault | None) -> Response | None:
        """The reply that `fault` puts in the place of the right one; None lets the right one through."""
        if isinstance(fault, int):
            fault = Refusal(fault)
        if isinstance(fault, Refusal):
            return fault.response()
        if isinstance(fault, bytes):
            return Response(fault, media_type="application/json")
        if fault == "garbage":
            return Response('{"id": "chatcmpl-test", "choices": [{', media_type="application/json")
        if fault == "drop":
            return StreamingResponse(_broken_body(), headers={"Content-Length": "1000"}, media_type="application/json")
        while isinstance(fault, str) and fault.startswith("together:") and len(self.requests) < int(fault[9:]):
            await asyncio.sleep(0.01)
        while fault == "hang" and not self._server.should_exit:
            await asyncio.sleep(0.05)
        if fault is not None and fault.startswith("redirect:"):
            return Response(status_code=307, headers={"Location": fault.removeprefix("redirect:")})
        if fault is not None and fault.startswith("slow:"):
            await asyncio.sleep(float(fault.removeprefix("slow:")))
        return None

    async def _models(self, request: Request) -> Response:
        await self._record(request)
        model = {"id": self.served_model or "test-model", "object": "model", "created": 0, "owned_by": "tests"}
        return JSONResponse({"object": "list", "data": [model]})


class ReasoningServer(ModelServer):
    """A model that reasons before it replies, and whose reasoning counts against the limit.

    Args:
        responder: as for `ModelServer`.
        tells: False: a server that does not say how many tokens went into reasoning.
        spends: tokens of reasoning by effort; None: that of a request without one.
    """

    def __init__(self, responder: Responder = lambda body: "A fixed reply.", *, tells: bool = True) -> None:
        super().__init__(responder)
        self.tells = tells
        self.spends: dict[str | None, int] = {None: 900, "low": 300, "medium": 900, "high": 6000}

    def completion(self, body: dict[str, Any], choices: list[dict[str, Any]], text: str) -> dict[str, Any]:
        limit = body.get("max_completion_tokens") or body.get("max_tokens") or 10**9
        spent = min(self.spends[body.get("reasoning_effort")], limit)
        visible = text.split()[: limit - spent]
        if len(visible) < len(text.split()):
            content = " ".join(visible) or None
            choices = [choices[0] | {"message": {"role": "assistant", "content": content}, "finish_reason": "length"}]
        whole = super().completion(body, choices, " ".join(visible))
        whole["usage"]["completion_tokens"] += spent
        if self.tells:
            whole["usage"]["completion_tokens_details"] = {"reasoning_tokens": spent}
        return whole


def shared_words(query: str, text: str) -> float:
    """The share of a query's words that a text has."""
    words = query.lower().split()
    return sum(word in text.lower().split() for word in words) / len(words)


def text_vector(text: str, dimension: int) -> NDArray[np.float32]:
    """The embedding the server gives `text`: shape (dimension,), float32, length 1, drawn from a hash of the text."""
    seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")
    vector = np.random.default_rng(seed).standard_normal(dimension)
    return (vector / np.linalg.norm(vector)).astype(np.float32)


def _floats(vector: NDArray[np.float32]) -> list[float]:
    return [float(value) for value in vector]


def _base64(vector: NDArray[np.float32]) -> str:
    return base64.b64encode(vector.astype("<f4").tobytes()).decode()


def _usage(prompt_tokens: int, completion_tokens: int) -> dict[str, int]:
    return {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": completion_tokens,
        "total_tokens": prompt_tokens + completion_tokens,
    }


async def _broken_body() -> AsyncIterator[bytes]:
    yield b'{"id": "chatcmpl-test", "choices": ['
    raise ConnectionAbortedError("dropped on purpose")
