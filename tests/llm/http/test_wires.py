"""Each wire that providers and local servers speak, against a stub of it: text, reasoning, usage; nothing made up.

`docs/models.md` says of each what was tried here.
"""

import asyncio
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from longmemeval.errors import FatalModelError
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

    refuses: Callable[[dict[str, Any]], str] = staticmethod(lambda body: "")
    """From a body to Anthropic's refusal of it; empty: none."""

    def more_routes(self) -> list[Route]:
        return [Route("/{path:path}", self._other, methods=["GET", "POST"])]

    async def _other(self, request: Request) -> Response:
        body = await self._record(request)
        path = request.url.path
        if path.endswith("/messages"):
            if told := self.refuses(body):
                error = {"type": "invalid_request_error", "message": told}
                return JSONResponse({"type": "error", "error": error}, status_code=400)
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


def ask(base: str, spec: str, **chosen: Any) -> ChatReply:
    options = ModelOptions(base, timeout_s=20.0, max_attempts=1, max_wait_s=0.02, **chosen)
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
    assert (usage.calls, usage.estimated_calls, usage.completion_tokens, usage.dollars) == (1, 1, 3, None)


CLAUDE, GEMINI_25, ROUTED = "anthropic/claude-sonnet-4-5", "gemini/gemini-2.5-flash", "openrouter/anthropic/claude-x"


def sent(server: Wires, spec: str, **options: Any) -> dict[str, Any]:
    """The body of the last request for a reply of 17 tokens."""
    base = server.url if spec.startswith("openrouter/") else server.url.removesuffix("/v1")
    ask(base, spec, **options)
    body: dict[str, Any] = json.loads(server.requests[-1].raw)
    return body


@pytest.mark.parametrize(
    ("spec", "options", "field", "value"),
    [
        (CLAUDE, {"reasoning_budget": 2000}, "thinking", {"type": "enabled", "budget_tokens": 2000}),
        (CLAUDE, {"reasoning_effort": "low"}, "thinking", {"type": "enabled", "budget_tokens": 1024}),
        (CLAUDE, {"reasoning_budget": 0}, "thinking", None),
        ("anthropic/claude-3-haiku-20240307", {"reasoning_budget": 2000}, "thinking", {"budget_tokens": 2000}),
        (GEMINI_25, {"reasoning_budget": 2000}, "thinkingConfig", {"thinkingBudget": 2000, "includeThoughts": True}),
        (GEMINI_25, {"reasoning_effort": "low"}, "thinkingConfig", {"thinkingBudget": 1024, "includeThoughts": True}),
        (GEMINI_25, {"reasoning_budget": 0}, "thinkingConfig", {"thinkingBudget": 0}),
        # Gemini 3 has levels of effort and no budget, which is room alone.
        ("gemini/gemini-3-pro-preview", {"reasoning_budget": 2000}, "thinkingConfig", {"includeThoughts": True}),
        ("gemini/gemini-3-pro-preview", {"reasoning_effort": "low"}, "thinkingConfig", {"thinkingLevel": "low"}),
        (ROUTED, {"reasoning_budget": 2000}, "reasoning", {"max_tokens": 2000}),
        (ROUTED, {"reasoning_budget": 0}, "reasoning", {"enabled": False}),
        (ROUTED, {"reasoning_effort": "low"}, "reasoning_effort", "low"),
        (ROUTED, {"reasoning_effort": "low", "reasoning_budget": 2000}, "reasoning_effort", "low"),
    ],
)
def test_budgets_and_efforts_on_each_wire(
    server: Wires, spec: str, options: dict[str, Any], field: str, value: object
) -> None:
    body = sent(server, spec, **options)
    limits = body.get("generationConfig", body)
    found = limits.get(field)
    assert (found.items() >= value.items()) if isinstance(value, dict) else found == value
    room = options.get("reasoning_budget", 8192)
    assert limits.get("max_tokens", limits.get("max_output_tokens")) == 17 + room
    assert not ({"thinking", "reasoning", "reasoning_effort", "thinkingConfig"} - {field}) & limits.keys()


@pytest.mark.parametrize("spec", [CLAUDE, GEMINI_25, ROUTED])
def test_without_options_nothing_is_added(server: Wires, spec: str) -> None:
    body = sent(server, spec)
    added = {"thinking", "reasoning", "reasoning_effort", "thinkingConfig"}
    assert not added & {*body, *body.get("generationConfig", {})}


def test_claude_refuses_a_temperature_beside_a_budget(server: Wires, monkeypatch: pytest.MonkeyPatch) -> None:
    told = "`temperature` may only be set to 1 when thinking is enabled or in adaptive mode."
    monkeypatch.setattr(server, "refuses", lambda body: told * ({"thinking", "temperature"} <= body.keys()))
    before = len(server.requests)
    reply = ask(server.url.removesuffix("/v1"), CLAUDE, reasoning_budget=2000)
    assert reply.text == "Tea."
    assert reply.asked
    assert reply.asked.deviations == ("the server refuses temperature: it is not sent",)
    first, second = (request.body for request in server.requests[before:])
    assert first == second | {"temperature": 0.0}


@pytest.mark.parametrize(
    "told", ["thinking: this model does not support thinking", "thinking.budget_tokens: Input should be at least 1024"]
)
def test_a_refused_budget_is_not_left_out(server: Wires, told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "refuses", lambda body: told * ("thinking" in body))
    with pytest.raises(FatalModelError, match="Leave out --reasoning-budget"):
        ask(server.url.removesuffix("/v1"), CLAUDE, reasoning_budget=500)


@pytest.mark.parametrize("spec", ["ollama_chat/llama3.1", "gemini/gemini-2.5-flash", "anthropic/claude-sonnet-4-5"])
def test_a_protocol_of_its_own_that_counts_no_prompt(server: Wires, monkeypatch: pytest.MonkeyPatch, spec: str) -> None:
    """LiteLLM's count in place of the server's is not taken for that."""
    monkeypatch.delitem(OLLAMA, "prompt_eval_count")
    monkeypatch.setitem(GEMINI, "usageMetadata", {"candidatesTokenCount": 3})
    monkeypatch.setitem(ANTHROPIC, "usage", {"input_tokens": 0, "output_tokens": 3})
    usage = ask(server.url.removesuffix("/v1"), spec).usage
    # Five tokens, and seven around the message.
    assert (usage.prompt_tokens, usage.completion_tokens, usage.estimated_calls) == (12, 3, 1)
