"""Half replies and replies in other shapes: what is an error, what is kept and marked, what the server said."""

import asyncio
import gzip
import json
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from longmemeval.errors import FatalModelError, HarnessError, ModelError, TransientModelError
from longmemeval.llm.finish_reasons import finish_reason_of, is_failure, is_whole
from longmemeval.llm.http import direct
from longmemeval.llm.options import ModelOptions
from longmemeval.llm.protocol import ChatMessage, ChatReply, ChatRequest
from longmemeval.llm.registry import load_chat_model
from tests.server import Fault, ModelServer

REQUEST = ChatRequest((ChatMessage("user", "What colour is my bike?"),), max_tokens=17)
TEXT = {"type": "text", "text": "Green"}


class Servers(ModelServer):
    """Also Anthropic's and Gemini's protocols."""

    other: dict[str, Any]

    def more_routes(self) -> list[Route]:
        return [Route("/{path:path}", self._other, methods=["POST"])]

    async def _other(self, request: Request) -> Response:
        await self._record(request)
        if "zipped" in request.url.path:
            packed = gzip.compress(json.dumps(self.other).encode())
            return Response(packed, headers={"Content-Encoding": "gzip"}, media_type="application/json")
        return JSONResponse(self.other)


@pytest.fixture
def server() -> Iterator[Servers]:
    with Servers(lambda body: "The bike is green.") as running:
        yield running


@pytest.fixture(params=["direct", "litellm", "xai"])
def spec(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """A model behind our own client, LiteLLM by OpenAI's client, and LiteLLM by its own."""
    for provider in ("OPENAI", "XAI", "ANTHROPIC", "GEMINI"):
        monkeypatch.setenv(f"{provider}_API_KEY", "sk-test-4f9AbCdEfGh1234567890KlMnOp")
    if request.param != "direct":
        monkeypatch.setattr(direct, "_direct_way", lambda spec, destination: None)
    return "xai/grok-test" if request.param == "xai" else "openai/gpt-4o"


def ask(address: str, spec: str, max_attempts: int = 3) -> ChatReply:
    options = ModelOptions(address, timeout_s=10.0, max_attempts=max_attempts, max_wait_s=0.02)
    return asyncio.run(load_chat_model(spec, options).complete(REQUEST))


def failure(server: ModelServer, spec: str, max_attempts: int = 3) -> HarnessError:
    with pytest.raises(HarnessError) as caught:
        ask(server.url, spec, max_attempts)
    return caught.value


BROKEN = [
    ({"finish_reason": "error", "error": {"code": 502, "message": "Upstream idle"}}, "Upstream idle"),
    ({"finish_reason": None, "error": {"message": "Upstream idle"}}, "Upstream idle"),
    ({"finish_reason": "error", "error": "out of memory"}, "out of memory"),
    ({"finish_reason": "abort"}, "finish reason: abort"),
    ({"finish_reason": "ERROR"}, "finish reason: ERROR"),
    ({"finish_reason": "insufficient_system_resource"}, "insufficient_system_resource"),
]


@pytest.mark.parametrize(("choice", "words"), BROKEN)
def test_a_reply_that_the_server_broke_off_is_a_failed_call(
    server: Servers, spec: str, choice: dict[str, Any], words: str
) -> None:
    server.choice = lambda body: choice if len(server.chat_requests) < 2 else {}
    assert (ask(server.url, spec).text, len(server.chat_requests)) == ("The bike is green.", 2)
    server.choice = lambda body: choice
    error = failure(server, spec, max_attempts=1)
    assert (type(error), getattr(error, "may_be_billed", None)) == (TransientModelError, True)
    assert words in str(error)


def test_what_the_server_refuses_in_a_choice_is_not_asked_again(server: Servers, spec: str) -> None:
    server.choice = lambda body: {
        "finish_reason": "error",
        "error": {"code": 403, "message": "flagged", "metadata": {}},
    }
    error = failure(server, spec)
    assert (type(error), len(server.chat_requests)) == (ModelError, 1)
    assert "flagged" in str(error)


@pytest.mark.parametrize(
    ("said", "known"),
    [
        *(("weird", "weird"), ("pause_turn", "pause_turn"), ("eos_token", "stop"), (None, "stop")),
        *(("model_length", "length"), ("SAFETY", "content_filter"), ("refusal", "content_filter")),
    ],
)
def test_any_other_reason_is_kept(server: Servers, spec: str, said: str | None, known: str) -> None:
    server.choice = lambda body: {"finish_reason": said}
    reply = ask(server.url, spec)
    assert (reply.text, reply.finish_reason, reply.attempts) == ("The bike is green.", known, 1)


def test_reasons_have_one_meaning_each() -> None:
    assert [is_whole(finish_reason_of(name)) for name in ("", "end_turn", "tool_use", "COMPLETE", "made_up")] == [
        *(True, True, True, True, False)
    ]
    assert not any(is_failure(finish_reason_of(name)) for name in ("stop", "length", "made_up", "content_filter"))


@pytest.mark.parametrize(
    ("content", "text", "reasoning"),
    [
        ([TEXT], "Green", ""),
        ([TEXT, {"type": "text", "text": "."}], "Green.", ""),
        ([{"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}, TEXT], "Green", "Hm."),
        (["Gre", "en"], "Green", ""),
    ],
)
def test_content_in_parts_is_read(server: Servers, spec: str, content: object, text: str, reasoning: str) -> None:
    server.message = lambda body: {"content": content}
    reply = ask(server.url, spec)
    assert (reply.text, reply.reasoning, reply.attempts) == (text, reasoning, 1)


@pytest.mark.parametrize(
    ("message", "finish", "words"),
    [
        ({"content": None, "refusal": "I cannot help with that."}, "stop", "I cannot help with that."),
        ({"content": [{"type": "refusal", "refusal": "I cannot help."}]}, "stop", "I cannot help."),
        ({"content": "", "reasoning_content": "Green, so"}, "stop", "reasoning alone"),
        ({"content": ""}, "content_filter", "content_filter"),
        ({"content": ""}, "weird", "weird"),
    ],
)
def test_what_the_server_says_in_place_of_a_text_is_told_and_asked_for_twice(
    server: Servers, spec: str, message: dict[str, Any], finish: str, words: str
) -> None:
    server.message, server.choice = lambda body: message, lambda body: {"finish_reason": finish}
    reply = ask(server.url, spec, max_attempts=6)
    assert (reply.text, reply.finish_reason, len(server.chat_requests)) == ("", finish, 2)
    assert words in reply.ending


PAGE = b"<!DOCTYPE html><html><head>\n<title>Log &amp; in</title></head><body>...</body></html>"


def test_a_web_page_is_named_by_its_title_and_ends_the_command(server: Servers, spec: str) -> None:
    server.plan = lambda: PAGE
    error = failure(server, spec)
    assert (type(error), len(server.chat_requests)) == (FatalModelError, 1)
    assert "Log & in" in str(error)
    assert "--api-base" in error.fix


@pytest.mark.parametrize(
    ("status", "kind", "sent"), [(502, TransientModelError, 3), (403, FatalModelError, 1), (400, ModelError, 1)]
)
def test_a_web_page_with_a_status_is_named_by_its_title(
    server: Servers, spec: str, status: int, kind: type[HarnessError], sent: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def page(fault: Fault | None) -> Response:
        return Response(PAGE, status_code=status, media_type="text/html")

    monkeypatch.setattr(server, "_spoil", page)
    error = failure(server, spec)
    assert (type(error), len(server.chat_requests)) == (kind, sent)
    assert "Log & in" in str(error)
    assert "<html>" not in str(error)
    assert ("web page" in error.fix) is (status == 403)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (
            {"error": {"message": "Provider returned error", "code": 502, "metadata": {"raw": "overloaded"}}},
            "overloaded",
        ),
        ({"error": {"code": 503}, "choices": []}, "503"),
        ({"message": "The model is loading", "choices": None}, "loading"),
    ],
)
def test_an_error_in_place_of_a_reply_is_told(server: Servers, body: dict[str, Any], words: str) -> None:
    server.plan = lambda: json.dumps(body).encode()
    assert words in str(failure(server, "openai/gpt-4o", max_attempts=1))


def test_a_stream_that_was_not_asked_for_is_not_asked_for_again(server: Servers) -> None:
    server.plan = lambda: b'data: {"choices": []}\n\ndata: [DONE]\n\n'
    assert "stream" in str(failure(server, "openai/gpt-4o"))
    assert len(server.chat_requests) == 1


def anthropic(reason: str, text: str = "Gre", **more: object) -> dict[str, Any]:
    content = [{"type": "text", "text": text}] if text else []
    usage = {"input_tokens": 10, "output_tokens": 2}
    message = {"id": "m", "type": "message", "role": "assistant", "model": "claude", "content": content}
    return message | {"stop_reason": reason, "stop_sequence": None, "usage": usage} | more


def gemini(reason: str, text: str = "Gre", **more: object) -> dict[str, Any]:
    said = {"content": {"role": "model", "parts": [{"text": text}]}} if text else {}
    tokens = {"promptTokenCount": 10, "candidatesTokenCount": 2, "totalTokenCount": 12}
    return {"candidates": [said | {"finishReason": reason, "index": 0}], "usageMetadata": tokens} | more


OF_OTHERS = [
    (anthropic("end_turn"), "Gre", "stop", ""),
    (anthropic("max_tokens"), "Gre", "length", ""),
    (anthropic("refusal"), "Gre", "content_filter", ""),
    (anthropic("refusal", "", stop_details={"explanation": "Not this."}), "", "content_filter", "Not this."),
    (anthropic("pause_turn"), "Gre", "pause_turn", ""),
    (anthropic("model_context_window_exceeded"), "Gre", "model_context_window_exceeded", ""),
    (gemini("STOP"), "Gre", "stop", ""),
    (gemini("SAFETY", ""), "", "content_filter", "SAFETY"),
    (gemini("OTHER"), "Gre", "OTHER", ""),
    (gemini("MAX_TOKENS"), "Gre", "length", ""),
    (gemini("MALFORMED_FUNCTION_CALL"), "Gre", "MALFORMED_FUNCTION_CALL", ""),
    (
        gemini("", candidates=[], promptFeedback={"blockReason": "PROHIBITED_CONTENT"}),
        "",
        "content_filter",
        "PROHIBITED_CONTENT",
    ),
]


@pytest.mark.parametrize("spec", ["direct"], indirect=True)
@pytest.mark.parametrize("path", ["plain", "zipped"])
@pytest.mark.parametrize(("body", "text", "reason", "words"), OF_OTHERS)
def test_what_litellm_leaves_out_is_read_from_the_reply(
    server: Servers, spec: str, path: str, body: dict[str, Any], text: str, reason: str, words: str
) -> None:
    server.other = body
    model = "anthropic/claude-sonnet-4-5" if "stop_reason" in body else "gemini/gemini-2.0-flash"
    reply = ask(f"{server.url.removesuffix('/v1')}/{path}", model)
    assert (reply.text, reply.finish_reason) == (text, reason)
    assert words in reply.ending
    assert len(server.requests) == (1 if text else 2)
