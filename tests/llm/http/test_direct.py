"""Calls without LiteLLM: what is loaded, the way through proxies, connections that are kept."""

import asyncio
import os
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import ClassVar

import pytest

from longmemeval.errors import FatalModelError
from longmemeval.llm import litellm_package
from longmemeval.llm.http.endpoints import endpoint
from longmemeval.llm.options import ModelOptions
from longmemeval.llm.protocol import ChatMessage, ChatReply, ChatRequest
from longmemeval.llm.registry import load_chat_model
from tests.server import ModelServer

REQUEST = ChatRequest((ChatMessage("user", "Which colour?"),), max_tokens=9)


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENROUTER_API_KEY"):
        monkeypatch.setenv(name, "sk-test-0123456789abcdef")
    for name in ("HTTP_PROXY", "http_proxy", "NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)


def ask(address: str) -> ChatReply:
    return asyncio.run(load_chat_model("openai/gpt-4o", ModelOptions(address, max_attempts=1)).complete(REQUEST))


@pytest.mark.parametrize("spec", ["openai/gpt-4o", "openai/my-own-llama", "hosted_vllm/x", "openrouter/openai/gpt-4o"])
def test_calls_load_neither_litellm_nor_openais_client(spec: str) -> None:
    script = """
import asyncio, sys
from longmemeval.embedding.registry import load_embedder
from longmemeval.llm.costs import Account, price
from longmemeval.llm.http.endpoints import served_at
from longmemeval.llm.options import ModelOptions
from longmemeval.llm.protocol import ChatMessage, ChatRequest
from longmemeval.llm.providers import without_keys
from longmemeval.llm.registry import load_chat_model, load_forwarded, model_warning
from longmemeval.llm.tokens import context_window, token_counter
spec, options = sys.argv[1], ModelOptions(sys.argv[2])
price(spec, 9), model_warning(spec, options), context_window(spec), served_at(spec), without_keys({})
token_counter(spec).count("text")
request = ChatRequest((ChatMessage("user", "Which?"),), 5)
assert asyncio.run(load_chat_model(spec, options, account=Account(None)).complete(request)).text
body = {"messages": [{"role": "user", "content": "Which?"}]}
assert asyncio.run(load_forwarded(spec, options).forward(body)).document
embedder = load_embedder("openai:text-embedding-3-small", options)
assert embedder.embed(["a"]).shape == (1, 8)
print([name for name in ("litellm", "openai") if name in sys.modules])
"""
    with ModelServer() as server:
        command = [sys.executable, "-c", script, spec, server.url]
        done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert (done.stdout, done.stderr) == ("[]\n", "")


class Proxy(BaseHTTPRequestHandler):
    """Says no, and notes what it was asked for."""

    asked: ClassVar[list[str]] = []

    def do_POST(self) -> None:
        self.asked.append(self.path)
        self.send_error(403)

    def log_message(self, format: str, *args: object) -> None:
        pass


def test_a_proxy_of_the_environment_is_asked_for_all_but_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Proxy) as proxy, ModelServer() as server:
        Thread(target=proxy.serve_forever, args=(0.01,), daemon=True).start()
        monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{proxy.server_port}")
        with pytest.raises(FatalModelError, match="403"):
            ask("http://models.example/v1")
        assert ask(server.url).text == "A fixed reply."
        assert ask(server.url.replace("127.0.0.1", "localhost")).text == "A fixed reply."
        proxy.shutdown()
    assert Proxy.asked == ["http://models.example/v1/chat/completions"]


def test_a_connection_is_kept() -> None:
    async def several(address: str) -> None:
        model = load_chat_model("openai/gpt-4o", ModelOptions(address))
        for _ in range(3):
            await model.complete(REQUEST)

    with ModelServer() as server:
        asyncio.run(several(server.url))
        assert len({request.client for request in server.requests}) == 1


def test_an_environment_file_is_read_where_litellm_reads_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "project" / "site-packages" / "litellm"
    package.mkdir(parents=True)
    (tmp_path / "project" / ".env").write_text("OPENAI_BASE_URL=http://from.file/v1\nOPENAI_API_KEY=other\n")
    monkeypatch.setenv("OPENAI_BASE_URL", "")
    monkeypatch.delenv("OPENAI_BASE_URL")
    monkeypatch.chdir(package)  # Where a notebook looks; a program looks from the package on.
    monkeypatch.delitem(sys.modules, "litellm", raising=False)
    monkeypatch.setattr(litellm_package, "litellm_folder", lambda: package)
    litellm_package.load_environment_file.__wrapped__()
    assert endpoint("openai/gpt-4o") == "http://from.file/v1"
    assert os.environ["OPENAI_API_KEY"] == "sk-test-0123456789abcdef"
