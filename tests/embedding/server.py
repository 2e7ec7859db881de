"""A real HTTP server on the loopback that speaks `POST /v1/embeddings`; each test says what it answers."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

WORD_VECTORS = {"red": [3.0, 4.0, 0.0], "blue": [0.0, 0.0, 2.0]}
OTHER_VECTOR = [1.0, 0.0, 0.0]


@dataclass(frozen=True)
class Reply:
    """What one request gets."""

    body: Any
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)


def good_reply(texts: list[str]) -> Reply:
    """Vectors by `WORD_VECTORS`, in order; one prompt token per word."""
    data = [
        {"object": "embedding", "index": i, "embedding": WORD_VECTORS.get(text, OTHER_VECTOR)}
        for i, text in enumerate(texts)
    ]
    tokens = sum(len(text.split()) for text in texts)
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return Reply({"object": "list", "model": "served", "data": data, "usage": usage})


def error_reply(status: int, message: str, code: str | None = None) -> Reply:
    """An error in OpenAI's shape; asks for a retry after a millisecond."""
    return Reply({"error": {"message": message, "type": "t", "code": code}}, status, {"retry-after-ms": "1"})


@dataclass
class EmbeddingServer:
    """A running server: its base address, what it was asked, and what it answers."""

    base: str
    answer: Callable[[Any], Reply] = good_reply
    script: list[Reply] = field(default_factory=list)
    """Replies of the next requests, before `answer` takes over."""
    batches: list[list[str]] = field(default_factory=list)
    """The texts of each request."""
    authorizations: list[str | None] = field(default_factory=list)
    bodies: list[dict[str, Any]] = field(default_factory=list)
    """The requests themselves."""


@contextmanager
def embedding_server() -> Iterator[EmbeddingServer]:
    """Serve on a free port until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            server.authorizations.append(self.headers["authorization"])
            server.bodies.append(body)
            server.batches.append(body["input"])
            known = self.path == "/v1/embeddings"
            reply = server.script.pop(0) if server.script else server.answer(body["input"])
            self._send(reply if known else error_reply(404, "no such path"))

        def _send(self, reply: Reply) -> None:
            content = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
            self.send_response(reply.status)
            for name, value in {"content-type": "application/json", **reply.headers}.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            """Keep quiet."""

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server = EmbeddingServer(f"http://127.0.0.1:{http.server_port}/v1")
    thread = Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        http.shutdown()
        http.server_close()
        thread.join()
