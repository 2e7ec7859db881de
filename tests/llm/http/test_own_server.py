"""What a server of the user's tells of its model, asked of a stub of each: window, loading, room, silent truncation."""

import asyncio
import logging
import time

import pytest
from msgspec import structs
from starlette.responses import JSONResponse, Response

from longmemeval.llm.http import own_server
from longmemeval.llm.http.client import RemoteChatModel
from longmemeval.llm.options import ModelOptions
from longmemeval.llm.protocol import ChatMessage, ChatReply, ChatRequest
from longmemeval.llm.registry import load_chat_model
from longmemeval.llm.tokens import token_counter
from longmemeval.records import TRUNCATED
from tests.local_servers import Kind, LocalServer
from tests.server import ModelServer, black_hole, nobody

SPECS: dict[Kind, str] = {
    "vllm": "hosted_vllm/tiny",
    "llama.cpp": "openai/tiny",
    "ollama": "ollama_chat/tiny",
    "lm_studio": "lm_studio/tiny",
    "plain": "openai/tiny",
}


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")


def base_of(server: LocalServer, spec: str) -> str:
    return server.root if spec.startswith("ollama") else server.url


def model_of(spec: str, base: str, options: ModelOptions = ModelOptions()) -> RemoteChatModel:
    model = load_chat_model(spec, structs.replace(options, api_base=base, max_attempts=2, max_wait_s=0.01))
    assert isinstance(model, RemoteChatModel)
    return model


def told(spec: str, base: str, options: ModelOptions = ModelOptions()) -> tuple[int | None, str]:
    """The window and where it was told."""
    model = model_of(spec, base, options)
    asyncio.run(model.get_ready())
    assert model.own_server
    return model.own_server.told.window, model.own_server.told.source


def prompt(words: int) -> ChatRequest:
    return ChatRequest((ChatMessage("user", "tea " * words),), max_tokens=10)


def replies(model: RemoteChatModel, *requests: ChatRequest) -> list[ChatReply]:
    async def ask() -> list[ChatReply]:
        return [await model.complete(request) for request in requests]

    return asyncio.run(ask())


@pytest.mark.parametrize(
    ("kind", "source"),
    [("vllm", "/v1/models"), ("llama.cpp", "/props"), ("ollama", "/api/ps"), ("lm_studio", "/api/v0/models")],
)
@pytest.mark.parametrize("compatible", [False, True])
def test_each_server_tells_its_window(kind: Kind, source: str, compatible: bool) -> None:
    spec = "openai/tiny" if compatible else SPECS[kind]
    with LocalServer(kind, 6144) as server:
        assert told(spec, base_of(server, spec)) == (6144, source)
        assert not server.chat_requests


def test_an_ollama_that_does_not_tell_the_loaded_window_tells_that_of_the_modelfile() -> None:
    with LocalServer("ollama", 6144, old=True) as server:
        assert told("ollama_chat/tiny", server.root) == (6144, "/api/show")


def test_a_server_that_tells_nothing_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    with LocalServer("plain") as server:
        assert told("openai/tiny", server.url) == (None, "")
    began = time.monotonic()
    assert told("openai/tiny", nobody()) == (None, "")
    monkeypatch.setattr(own_server, "_PATIENCE_S", 0.1)
    with black_hole() as address:
        model = model_of("openai/tiny", address)
        assert model.own_server
        assert asyncio.run(model.own_server._ask()).window is None
    assert time.monotonic() - began < 5.0


@pytest.mark.parametrize(
    "reply",
    [
        Response('{"data": [{', media_type="application/json"),
        Response(status_code=307, headers={"Location": "http://127.0.0.1:9/v1/models"}),
        JSONResponse([1]),
        JSONResponse({"data": [{"id": "tiny", "max_model_len": "a lot"}]}),
        JSONResponse({"data": None}),
        JSONResponse({"data": [{"id": "tiny", "max_model_len": -1}]}),
    ],
)
def test_nonsense_tells_nothing(reply: Response) -> None:
    with LocalServer("plain") as server:
        server.listed = reply
        assert told("openai/tiny", server.url) == (None, "")


def test_nonsense_at_one_address_does_not_hide_another() -> None:
    with LocalServer("llama.cpp", 6144) as server:
        server.listed = JSONResponse({"data": [{"id": 7}]})
        assert told("openai/tiny", server.url) == (6144, "/props")


def test_of_several_models_only_the_one_that_is_named_counts() -> None:
    with LocalServer("vllm") as server:
        named = [{"id": name, "max_model_len": size} for name, size in (("small", 2048), ("tiny", 4096))]
        server.listed = JSONResponse({"object": "list", "data": named})
        assert told("openai/tiny", server.url) == (4096, "/v1/models")
        assert told("openai/other", server.url) == (None, "")


@pytest.mark.parametrize("spec", ["openai/gpt-4o-mini", "openai/gpt-4o-2024-08-06"])
def test_a_model_whose_window_the_table_has_is_not_asked_about(spec: str) -> None:
    with ModelServer() as server:
        model = model_of(spec, server.url)
        replies(model, prompt(3))
        assert model.own_server is None
        assert [request.path for request in server.requests] == ["/v1/chat/completions"]


@pytest.mark.parametrize(
    "spec", ["openai/unheard-of", "deepseek/unheard-of", "openrouter/some/model", "azure/prod-chat"]
)
def test_a_provider_is_never_asked(spec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_API_BASE", "https://ours.openai.azure.com")
    for provider in ("DEEPSEEK", "OPENROUTER"):
        monkeypatch.setenv(f"{provider}_API_KEY", "sk-test")
    assert not own_server.is_own_server(spec, ModelOptions())


def test_the_servers_key_is_sent_with_the_questions() -> None:
    with LocalServer("vllm") as server:
        told("openai/tiny", server.url)
        assert {request.headers.get("authorization") for request in server.requests} == {"Bearer sk-test"}


@pytest.mark.parametrize("kind", ["ollama", "lm_studio"])
def test_a_model_is_loaded_before_the_first_question(kind: Kind) -> None:
    spec = SPECS[kind]
    with LocalServer(kind, loaded=False, loading_s=0.5) as server:
        model = model_of(spec, base_of(server, spec), ModelOptions(model_option=("keep_alive=30m",)))
        first, second = replies(model, prompt(3), prompt(3))
        calls = [request.body for request in server.requests if "chat" in request.path]
        again = model_of(spec, base_of(server, spec))
        replies(again, prompt(3))
    assert model.own_server
    assert model.own_server.loading_s >= 0.5
    assert max(first.latency_ms or 0, second.latency_ms or 0) < 400
    assert (first.usage.calls, first.attempts) == (1, 1)
    limits = [call.get("max_tokens", call.get("options", {}).get("num_predict")) for call in calls]
    assert limits == [1, 10, 10]
    assert {call["keep_alive"] for call in calls} == {"30m"}
    assert again.own_server
    assert again.own_server.loading_s == 0.0


def test_a_model_that_cannot_be_loaded_fails_at_the_first_question() -> None:
    with LocalServer("ollama", loaded=False) as server:
        server.plan = lambda: 404
        model = model_of("openai/tiny", server.url)
        asyncio.run(model.get_ready())
        with pytest.raises(Exception, match="404"):
            replies(model, prompt(3))


def test_ollama_loads_the_model_with_the_window_that_is_asked_for() -> None:
    with LocalServer("ollama", 4096) as server:
        assert told("ollama_chat/tiny", server.root, ModelOptions(model_option=("num_ctx=16384",))) == (
            16384,
            "/api/ps",
        )
        assert told("ollama_chat/tiny", server.root, ModelOptions(model_option=("num_ctx=16384",)))[0] == 16384
        sent = [request.body for request in server.requests if request.path == "/api/chat"]
    assert len(sent) == 1
    assert sent[0]["options"]["num_ctx"] == 16384


@pytest.mark.parametrize("told_by", ["server", "user"])
def test_room_for_reasoning_stays_within_the_window(told_by: str) -> None:
    request = prompt(4000)
    ours = token_counter("hosted_vllm/tiny").count(request.messages[0].content)
    with LocalServer("vllm" if told_by == "server" else "plain") as server:
        model = model_of("hosted_vllm/tiny", server.url, ModelOptions(reasoning_effort="medium"))
        model.limits.window = None if told_by == "server" else 8192
        (reply,) = replies(model, request)
        assert reply.text == "A fixed reply."
        (sent,) = [request.body["max_tokens"] for request in server.chat_requests]
    assert sent == 8192 - ours - 1000
    assert reply.asked
    assert reply.asked.max_tokens == sent


def test_the_visible_reply_keeps_its_limit_in_a_window_without_room() -> None:
    with LocalServer("plain") as server:
        model = model_of("openai/tiny", server.url, ModelOptions(reasoning_effort="high"))
        model.limits.window = 2048
        replies(model, prompt(2000))
        assert [request.body["max_tokens"] for request in server.chat_requests] == [10]


@pytest.mark.parametrize("spec", ["openai/tiny", "ollama_chat/tiny"])
def test_a_prompt_that_is_truncated_silently_is_noted_and_said_once(
    spec: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "longmemeval")
    with LocalServer("ollama", 4000, old=True) as server:
        model = model_of(spec, base_of(server, spec))
        short, long, longer = replies(model, prompt(3000), prompt(5000), prompt(6000))
    assert not short.asked
    for reply in (long, longer):
        assert reply.asked
        assert [note.startswith(TRUNCATED) for note in reply.asked.deviations] == [True]
        assert "2,002" in reply.asked.deviations[0]
    assert len([record for record in caplog.records if TRUNCATED in record.getMessage()]) == 1


@pytest.mark.parametrize("reported", [0, 700, 5000])
def test_another_tokenizer_or_no_count_is_no_truncation(reported: int) -> None:
    with LocalServer("plain", None) as server:
        server.counted = reported
        (reply,) = replies(model_of("openai/tiny", server.url), prompt(1100))
    assert not reply.asked
