"""Each wire that providers and local servers speak, against a stub of it: text, reasoning, usage; nothing made up.

`docs/models.md` says of each what was tried here.
"""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from longmemeval.llm.options import ModelOptions
from longmemeval.llm.protocol import ChatMessage, ChatReply, ChatRequest
from longmemeval.llm.registry import load_chat_model
from tests.server import ModelServer

ANTHROPIC = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude",
    "stop_reason": "end_turn",
    "content": [{"type": "thinking", "thinking": "Hm.", "signature": "s"}, {"type": "text", "text": "Tea."}],
    "usage": {"input_tokens": 7, "output_tokens": 3},
}
GEMINI = {
    "candidates": [
        {
            "content": {"role": "model", "parts": [{"text": "Hm.", "thought": True}, {"text": "Tea."}]},
            "finishReason": "STOP",
        }
    ],
    "usageMetadata": {"promptTokenCount": 7, "candidatesTokenCount": 3, "totalTokenCount": 10},
}
OLLAMA = {
    "model": "llama",
    "created_at": "2026-01-01T00:00:00Z",
    "message": {"role": "assistant", "content": "<think>Hm.</think>\n\nTea."},
    "done": True,
    "done_reason": "stop",
    "prompt_eval_count": 7,
    "eval_count": 3,
}


class Wires(ModelServer):
    """Also Anthropic's, Gemini's and Ollama's own protocols."""

    def more_routes(self) -> list[Route]:
        return [Route("/{path:path}", self._other, methods=["GET", "POST"])]

    async def _other(self, request: Request) -> Response:
        body = await self._record(request)
        path = request.url.path
        if path.endswith("/messages"):
            return JSONResponse(ANTHROPIC)
        if "generateContent" in path:
            return JSONResponse(GEMINI)
        if path.endswith("/api/chat"):
            apart = {"role": "assistant", "content": "Tea.", "thinking": "Hm."}
            return JSONResponse(OLLAMA | ({"message": apart} if "thinks" in str(body["model"]) else {}))
        return JSONResponse({}, status_code=404)


@pytest.fixture(scope="module")
def server() -> Iterator[Wires]:
    with Wires() as running:
        yield running


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for provider in ("ANTHROPIC", "GEMINI", "OPENROUTER", "DEEPSEEK", "GROQ", "TOGETHER_AI", "OPENAI"):
        monkeypatch.setenv(f"{provider}_API_KEY", "sk-test-4f9AbCdEfGh1234567890KlMnOp")


def ask(base: str, spec: str) -> ChatReply:
    options = ModelOptions(base, timeout_s=20.0, max_attempts=1, max_wait_s=0.02)
    request = ChatRequest((ChatMessage("user", "What do I drink?"),), max_tokens=17)
    return asyncio.run(load_chat_model(spec, options).complete(request))


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ("anthropic/claude-sonnet-4-5", "/v1/messages"),
        ("gemini/gemini-2.5-flash", "/models/gemini-2.5-flash:generateContent"),
        ("ollama_chat/llama3.1", "/api/chat"),
        ("ollama_chat/thinks", "/api/chat"),
    ],
)
def test_protocols_of_their_own(server: Wires, spec: str, path: str) -> None:
    root = server.url.removesuffix("/v1")
    reply = ask(root, spec)
    assert any(request.path.endswith(path) for request in server.requests)
    assert (reply.text, reply.reasoning, reply.finish_reason) == ("Tea.", "Hm.", "stop")
    assert (reply.usage.prompt_tokens, reply.usage.completion_tokens) == (7, 3)


OPENAI = ("openai", "hosted_vllm", "lm_studio", "llamafile", "openrouter", "deepseek", "groq", "together_ai")


@pytest.mark.parametrize("provider", OPENAI)
@pytest.mark.parametrize("field", ["reasoning_content", "reasoning", "content"])
def test_openais_protocol(server: Wires, provider: str, field: str) -> None:
    apart: dict[str, Any] = {"content": "Tea.", field: "Hm."} if field != "content" else {}
    server.message = lambda body: apart or {"content": "<think>Hm.</think>Tea."}
    reply = ask(server.url, f"{provider}/some-model")
    assert (reply.text, reply.reasoning) == ("Tea.", "Hm.")
    assert json.loads(server.requests[-1].raw)["model"] == "some-model"


def test_a_server_that_reports_no_usage(server: Wires, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = server.completion
    monkeypatch.setattr(server, "completion", lambda *given: whole(*given) | {"usage": None})
    server.message = lambda body: {"content": "Tea."}
    usage = ask(server.url, "hosted_vllm/some-model").usage
    assert (usage.calls, usage.has_tokens, usage.dollars) == (1, False, None)
