"""Replies that no HTTP client can read: each is asked for again, and an error keeps its reason."""

import asyncio
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock, Thread
from typing import NamedTuple

import pytest

from longmemeval.errors import TransientModelError
from longmemeval.llm.options import ModelOptions
from longmemeval.llm.protocol import ChatMessage, ChatRequest
from longmemeval.llm.registry import load_chat_model
from longmemeval.pipeline.run.plan import RunOptions
from longmemeval.pipeline.run.run import run
from tests.pipeline.helpers import answers, prepared_colours

SPEC = "openai/gpt-4o"
REQUEST = ChatRequest(
    (ChatMessage("user", "Which?"),), max_tokens=9, temperature=0.0, question_id="q", question="Which?"
)
_REPLY = {
    "id": "c",
    "object": "chat.completion",
    "created": 0,
    "model": "gpt-4o",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "Red."}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
}
_OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
_LOOP = "/loop/chat/completions"


class Garbled(NamedTuple):
    """The bytes of a reply, and what an error says of it."""

    reply: bytes
    reason: str


KINDS = {
    "bad chunk": Garbled(_OK + b"Transfer-Encoding: chunked\r\n\r\nxyz\r\n{}\r\n0\r\n\r\n", "(?i)chunk|transfer"),
    "bad gzip": Garbled(_OK + b"Content-Encoding: gzip\r\nContent-Length: 9\r\n\r\nnot a zip", "(?i)incorrect header"),
    "bad deflate": Garbled(
        _OK + b"Content-Encoding: deflate\r\nContent-Length: 9\r\n\r\nnot a zip", "(?i)invalid|incorrect"
    ),
    "long header": Garbled(_OK + b"X-Long: " + b"a " * 4_600 + b"\r\nContent-Length: 2\r\n\r\n{}", "8190"),
    "bad status line": Garbled(b"HTTP/1.1 two hundred\r\n\r\n", "(?i)status"),
    "no HTTP": Garbled(b"SSH-2.0-server\r\n\r\n", "(?i)http"),
    "two lengths": Garbled(_OK + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}", "(?i)content-length"),
    "endless redirects": Garbled(
        b"HTTP/1.1 307 Go\r\nLocation: " + _LOOP.encode() + b"\r\nContent-Length: 0\r\n\r\n", "(?i)redirect"
    ),
}


@contextmanager
def garbling(garbled: bytes, every: int) -> Iterator[tuple[str, list[int]]]:
    """A server that garbles every so many replies: its address, and a list with an entry for each garbled one."""
    lock, arrived, spoilt = Lock(), [0], list[int]()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            with lock:
                looping = self.path == _LOOP
                arrived[0] += not looping
                is_spoilt = looping or arrived[0] % every == 0
                if is_spoilt and not looping:
                    spoilt.append(arrived[0])
            if is_spoilt:
                self.wfile.write(garbled)
                self.close_connection = b"Location" not in garbled
                return
            body = json.dumps(_REPLY).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1", spoilt
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789abcdef")


@pytest.mark.parametrize("kind", KINDS)
def test_all_questions_are_answered_although_one_reply_in_ten_is_garbled(tmp_path: Path, kind: str) -> None:
    dataset, folders = prepared_colours(tmp_path, 40)
    with garbling(KINDS[kind].reply, every=10) as (address, spoilt):
        options = RunOptions(run_id="r", model_options=ModelOptions(address, max_attempts=5, max_wait_s=0.01))
        report = run(dataset, "last-k", SPEC, options=options, folders=folders)
    assert (report.answered, report.failed) == (40, 0)
    assert len(spoilt) >= 4
    assert {answer["hypothesis"] for answer in answers(folders, "r")} == {"Red."}


@pytest.mark.parametrize("kind", KINDS)
def test_the_error_keeps_the_reason(kind: str) -> None:
    with garbling(KINDS[kind].reply, every=1) as (address, spoilt):
        model = load_chat_model(SPEC, ModelOptions(address, max_attempts=2, max_wait_s=0.01))
        with pytest.raises(TransientModelError) as caught:
            asyncio.run(model.complete(REQUEST))
    assert len(spoilt) == 2
    assert caught.value.may_be_billed
    assert re.search(KINDS[kind].reason, caught.value.what), caught.value.what
    assert "Connection error" not in caught.value.what
