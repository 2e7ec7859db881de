"""Redirects to another server are refused wherever prompts and histories are sent; on one server they are followed."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from longmemeval.embedding.protocol import EmbedderSettings
from longmemeval.embedding.remote import RemoteEmbedder
from longmemeval.errors import FatalModelError, HarnessError
from longmemeval.llm.options import ModelOptions
from longmemeval.llm.protocol import ChatMessage, ChatRequest
from longmemeval.llm.registry import load_batch_endpoint, load_chat_model, load_forwarded
from longmemeval.memory.external.transports.service import HttpService
from longmemeval.pipeline.run.plan import RunOptions
from longmemeval.pipeline.run.run import run
from tests.pipeline.helpers import prepared_colours
from tests.server import ModelServer

REQUEST = ChatRequest(
    (ChatMessage("user", "Which?"),), max_tokens=9, temperature=0.0, question_id="q", question="Which?"
)
KEY = "sk-test-0123456789abcdef"


@contextmanager
def redirecting(target: str = "") -> Iterator[tuple[str, list[str]]]:
    """A server that redirects to `target`, "" for itself by another name: its origin, and what it was sent."""
    sent: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            sent.append(self.rfile.read(int(self.headers["content-length"])).decode())
            self.send_response(307)
            self.send_header("Location", (target or f"http://localhost:{server.server_port}") + self.path)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", sent
    finally:
        server.shutdown()
        server.server_close()


def chat(spec: str) -> Callable[[str, Path], object]:
    def call(origin: str, folder: Path) -> object:
        options = ModelOptions(f"{origin}/v1", max_wait_s=0.01)
        return asyncio.run(load_chat_model(spec, options).complete(REQUEST))

    return call


def forwarded(origin: str, folder: Path) -> object:
    model = load_forwarded("openai/gpt-4o", ModelOptions(f"{origin}/v1", max_wait_s=0.01))
    return asyncio.run(model.forward({"messages": [{"role": "user", "content": "Which?"}]}))


def embedded(origin: str, folder: Path) -> object:
    return RemoteEmbedder("text-embedding-3-small", EmbedderSettings(f"{origin}/v1")).embed(["Which?"])


def uploaded(origin: str, folder: Path) -> object:
    options = ModelOptions(f"{origin}/v1", max_wait_s=0.01)
    file = folder / "requests.jsonl"
    file.write_text('{"custom_id": "Which?"}\n')
    endpoint, _ = load_batch_endpoint("openai/gpt-4o", options)
    return asyncio.run(endpoint.upload("one", file, fresh=True))


def remembered(origin: str, folder: Path) -> object:
    async def call() -> object:
        service = HttpService(origin)
        try:
            return await service.call("recall", b'{"question": "Which?"}')
        finally:
            await service.end()

    return asyncio.run(call())


DOORS: dict[str, Callable[[str, Path], object]] = {
    "chat": chat("openai/gpt-4o"),
    "chat of another provider": chat("anthropic/claude-3-5-haiku-20241022"),
    "calls of memories": forwarded,
    "embeddings": embedded,
    "batches": uploaded,
    "memory service": remembered,
}


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)


@pytest.mark.parametrize("door", DOORS)
def test_a_redirect_to_another_server_is_refused_once_with_both_names(tmp_path: Path, door: str) -> None:
    with (
        redirecting() as (second, arrived),
        redirecting(second) as (first, sent),
        pytest.raises(HarnessError) as caught,
    ):
        DOORS[door](first, tmp_path)
    assert f"{first} to {second}" in caught.value.what
    assert second in caught.value.fix
    assert len(sent) == 1
    assert "Which?" in sent[0]
    assert arrived == []


@pytest.mark.parametrize("door", DOORS)
def test_another_name_is_another_server(tmp_path: Path, door: str) -> None:
    with redirecting() as (origin, sent), pytest.raises(HarnessError) as caught:
        DOORS[door](origin, tmp_path)
    assert f"{origin} to {origin.replace('127.0.0.1', 'localhost')}" in caught.value.what
    assert len(sent) == 1


@pytest.mark.slow
def test_a_run_ends_at_a_redirect_to_another_server(tmp_path: Path) -> None:
    dataset, folders = prepared_colours(tmp_path, 4)
    with ModelServer() as second, redirecting(second.url.removesuffix("/v1")) as (first, sent):
        options = RunOptions(run_id="r", concurrency=1, model_options=ModelOptions(f"{first}/v1", max_wait_s=0.01))
        with pytest.raises(FatalModelError, match="redirects calls to another server"):
            run(dataset, "last-k", "openai/gpt-4o", options=options, folders=folders)
        assert (len(sent), second.requests) == (1, [])


def test_a_redirect_on_one_server_is_followed() -> None:
    with ModelServer() as server:
        server.faults.append(f"redirect:{server.url}/chat/completions")
        options = ModelOptions(server.url, max_attempts=1)
        reply = asyncio.run(load_chat_model("openai/gpt-4o", options).complete(REQUEST))
        assert (reply.text, reply.attempts, len(server.chat_requests)) == ("A fixed reply.", 1, 2)
