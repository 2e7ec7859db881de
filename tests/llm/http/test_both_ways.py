"""The way without LiteLLM and LiteLLM's own: the same bytes are sent, the same is read, the same is paid."""

import asyncio
import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any, NamedTuple

import pytest

from longmemeval.benchmarks.catalogue import BENCHMARK_SPECS
from longmemeval.benchmarks.registry import load_judge
from longmemeval.errors import HarnessError
from longmemeval.llm.http import direct
from longmemeval.llm.litellm_package import litellm_folder, load_litellm, model_table, provider_names
from longmemeval.llm.options import ModelOptions
from longmemeval.llm.protocol import ChatMessage, ChatReply, ChatRequest, ToolCall
from longmemeval.llm.providers import OPENAI_PROVIDERS, key_in_environment, split_spec
from longmemeval.llm.registry import load_chat_model, load_forwarded, model_warning
from longmemeval.records import Gold, Question
from tests.server import Fault, ModelServer, RecordedRequest, Refusal, nobody

KEY = "sk-proj-4f9AbCdEfGh1234567890KlMnOp"
OFFICIAL = ["openai/gpt-4o-2024-08-06", "gpt-4o-2024-08-06", "openai/gpt-4o-mini", "openai/gpt-4.1-mini"]
REASONING = ["gpt-5-mini", "gpt-5", "gpt-5.1", "gpt-5.5", "gpt-5.9", "gpt-5-chat-latest", "ft:gpt-5-mini:us::1"]
OTHERS = ["openai/o3", "openai/o3-mini", "openai/o1", "openai/my-gpt5", "azure/gpt-4o", "azure/prod", "azure/gpt-5.1"]
COMPATIBLE = [f"{provider}/vendor/some-model" for provider in OPENAI_PROVIDERS if provider != "azure"]
TEXT = 'Größe “x” — \u2028 \x7f\t\n\\ " 😀 </script> 0.1'
TOOL = {"type": "function", "function": {"name": "search", "parameters": {"type": "object", "properties": {}}}}
PLAIN = ChatRequest((ChatMessage("system", "Be short."), ChatMessage("user", TEXT)), max_tokens=17)
WITH_TOOLS = ChatRequest(
    (
        ChatMessage("user", TEXT),
        ChatMessage("assistant", "", (ToolCall("c1", "search", '{"q": "ß"}'),)),
        ChatMessage("tool", "Found.", tool_call_id="c1"),
    ),
    max_tokens=17,
    temperature=0.7,
    tools=(TOOL,),
)


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as running:
        yield running


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for provider in OPENAI_PROVIDERS.values():
        for name in provider.keys:
            monkeypatch.setenv(name, KEY)
    monkeypatch.setenv("AZURE_API_VERSION", "2025-02-01-preview")
    monkeypatch.setenv("AZURE_API_BASE", "http://127.0.0.1:9")


def both(url: str, spec: str, request: ChatRequest = PLAIN, timeout_s: float = 10.0) -> list[ChatReply | HarnessError]:
    """What the direct way gives, and LiteLLM's."""
    outcomes = list[ChatReply | HarnessError]()
    for way in (direct._direct_way, lambda spec, destination: None):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(direct, "_direct_way", way)
            model = load_chat_model(spec, ModelOptions(url, timeout_s=timeout_s, max_attempts=1, max_wait_s=0.01))
            try:
                outcomes.append(asyncio.run(model.complete(request)))
            except HarnessError as error:
                outcomes.append(error)
    return outcomes


def sent(server: ModelServer) -> tuple[RecordedRequest, RecordedRequest]:
    by_us, by_litellm = (request for request in server.requests if request.path.endswith("/chat/completions"))
    assert "litellm" not in by_us.headers["user-agent"].lower()
    assert by_us.headers["user-agent"] != by_litellm.headers["user-agent"]
    return by_us, by_litellm


@pytest.mark.parametrize("request_", [PLAIN, WITH_TOOLS], ids=["plain", "tools"])
@pytest.mark.parametrize("spec", OFFICIAL + [f"openai/{name}" for name in REASONING] + OTHERS)
def test_openai_and_azure_are_sent_the_same_bytes(server: ModelServer, spec: str, request_: ChatRequest) -> None:
    both(server.url, spec, request_)
    by_us, by_litellm = sent(server)
    assert by_us.raw == by_litellm.raw
    assert (by_us.path, by_us.query) == (by_litellm.path, by_litellm.query)
    for name in ("authorization", "api-key", "content-type", "accept"):
        assert by_us.headers.get(name) == by_litellm.headers.get(name), name


@pytest.mark.parametrize("name", ["longmemeval", "convomem", "lenient", "strict"])
def test_an_official_judge_sends_the_same_bytes(server: ModelServer, name: str) -> None:
    question = Question("q", f"When did we meet? {TEXT}", datetime(2023, 5, 30), "2023/05/30", "h")
    gold = Gold("q", "temporal-reasoning", "7 May 2023", (), (), False)
    for way in (direct._direct_way, lambda spec, destination: None):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(direct, "_direct_way", way)
            judge = load_judge(
                f"{name}@{OFFICIAL[0]}",
                lambda spec: load_chat_model(spec, ModelOptions(server.url)),
                benchmark=BENCHMARK_SPECS.get("longmemeval"),
            )
            asyncio.run(judge.judge(question, gold, "In May"))
    by_us, by_litellm = sent(server)
    assert by_us.raw == by_litellm.raw


@pytest.mark.parametrize("request_", [PLAIN, WITH_TOOLS], ids=["plain", "tools"])
@pytest.mark.parametrize("spec", COMPATIBLE)
def test_others_are_sent_the_same_request(server: ModelServer, spec: str, request_: ChatRequest) -> None:
    both(server.url, spec, request_)
    by_us, by_litellm = sent(server)
    assert by_us.body == by_litellm.body
    assert by_us.path == by_litellm.path
    assert by_us.headers["authorization"] == by_litellm.headers["authorization"]


@pytest.mark.parametrize(
    "spec", ["openai/gpt-5-mini", "openai/gpt-5.1", "openai/o3", "azure/gpt-5-mini", "openai/gpt-4o"]
)
def test_requests_of_other_programs_are_forwarded_the_same(server: ModelServer, spec: str) -> None:
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object"}}}
    body = {"messages": [{"role": "user", "content": TEXT}], "max_tokens": 9, "response_format": form, "seed": 3}
    body |= {"temperature": 0.3, "top_p": 0.5, "stop": ["x"], "tools": [TOOL], "presence_penalty": 0.1}
    for way in (direct._direct_way, lambda spec, destination: None):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(direct, "_direct_way", way)
            asyncio.run(load_forwarded(spec, ModelOptions(server.url)).forward(body))
    by_us, by_litellm = sent(server)
    assert by_us.body == by_litellm.body


def reply(message: object = None, *, finish: object = "stop", usage: object = None, **fields: object) -> bytes:
    choice = {"index": 0, "message": message or {"role": "assistant", "content": "Red."}, "finish_reason": finish}
    tokens = {"prompt_tokens": 3000, "completion_tokens": 200, "total_tokens": 3200}
    tokens |= usage if isinstance(usage, dict) else {}
    document = {"id": "c", "object": "chat.completion", "created": 0, "model": "gpt-4o", "choices": [choice]}
    return json.dumps(document | {"usage": tokens} | fields).encode()


def said(**message: object) -> dict[str, object]:
    return {"role": "assistant", "content": None} | message


CALL = {"id": "c1", "type": "function", "function": {"name": "search", "arguments": '{"q": 1}'}}
REPLIES: dict[str, Fault] = {
    "usual": reply(),
    "another model": reply(model="gpt-4o-2024-05-13"),
    "unknown model": reply(model="my-gateway-model"),
    "cached": reply(usage={"prompt_tokens_details": {"cached_tokens": 1000}}),
    "reasoning": reply(usage={"completion_tokens_details": {"reasoning_tokens": 150}}),
    "audio": reply(usage={"prompt_tokens_details": {"audio_tokens": 10}}),
    "cache of DeepSeek": reply(usage={"prompt_cache_hit_tokens": 500}),
    "cache of Anthropic": reply(usage={"cache_read_input_tokens": 500}),
    "flex": reply(service_tier="flex"),
    "priority": reply(service_tier="priority"),
    "default tier": reply(service_tier="default"),
    "no usage": reply(usage={}).replace(b'"usage"', b'"used"'),
    "usage without numbers": reply(usage={"prompt_tokens": None, "completion_tokens": None}),
    "no finish reason": reply(finish=None),
    "eos": reply(finish="eos"),
    "max_tokens": reply(finish="max_tokens"),
    "unknown finish reason": reply(finish="weird"),
    "stop with calls": reply(said(tool_calls=[CALL])),
    "arguments as an object": reply(said(tool_calls=[CALL | {"function": {"name": "search", "arguments": {"q": 1}}}])),
    "thought": reply(said(content="<think>Hm.\nHm.</think>\nRed.")),
    "thought later": reply(said(content="Red. <think>Hm.</think>")),
    "thought beside": reply(said(content="<think>x</think>Red.", reasoning_content="Hm.")),
    "half a sign": reply().replace(b"Red.", b"a\\ud800b"),
    "empty error": reply(error={}),
    "error of a gateway": reply(error={"message": "upstream died", "code": 502}),
    "error 429": reply(error={"message": "slow down", "code": 429}),
    "error 401": reply(error={"message": "bad key", "code": 401}),
    "error without status": reply(error={"message": "bad key", "code": "x"}),
    "HTML": b"<html><body>Log in</body></html>",
    "truncated": reply()[:50],
    "nothing": b"",
    "no choices": reply(choices=None),
    "a list": b"[]",
    "parts": reply(said(content=[{"type": "text", "text": "Red."}])),
    "choice without a message": reply(choices=[{"index": 0}]),
    "drop": "drop",
    "redirect": "redirect:http://127.0.0.1:9/v1",
    "no place": 301,
    **{str(status): status for status in (400, 401, 402, 403, 404, 408, 409, 413, 418, 422, 429, 500, 503)},
    "retry after": Refusal(429, retry_after="7"),
    "empty account": Refusal(429, "You exceeded your quota", code="insufficient_quota"),
    "too long": Refusal(400, "This model's maximum context length is 8192 tokens. However, you requested 9000"),
    "key echoed": Refusal(401, f"Incorrect API key provided: {KEY}"),
}
IN_OTHER_WORDS = {"no choices", "a list", "parts", "choice without a message"}


class Meaning(NamedTuple):
    """What follows from an error, and what is said."""

    kind: type
    may_be_billed: object
    retry_after: object
    too_many: object
    what: str


def meaning(outcome: ChatReply | HarnessError, name: str = "") -> object:
    if isinstance(outcome, ChatReply):
        return {field: getattr(outcome, field) for field in outcome.__struct_fields__ if field != "latency_ms"}
    billed, after, many = (getattr(outcome, field, None) for field in ("may_be_billed", "retry_after", "too_many"))
    return Meaning(type(outcome), billed, after, many, "" if name in IN_OTHER_WORDS else outcome.what)


@pytest.mark.parametrize("name", REPLIES)
def test_replies_mean_the_same(server: ModelServer, name: str) -> None:
    server.plan = lambda: REPLIES[name]
    by_us, by_litellm = both(server.url, "openai/gpt-4o")
    assert meaning(by_us, name) == meaning(by_litellm, name)
    assert KEY not in str(by_us)


@pytest.mark.parametrize("spec", ["openai/gpt-5-mini", "azure/gpt-4o", "groq/openai/gpt-oss-20b", "openai/unknown"])
def test_costs_are_the_same(server: ModelServer, spec: str) -> None:
    name = spec.partition("/")[2]
    usage = {"prompt_tokens_details": {"cached_tokens": 1000}, "completion_tokens_details": {"reasoning_tokens": 99}}
    server.plan = lambda: reply(usage=usage, model=name, service_tier="default")
    by_us, by_litellm = both(server.url, spec)
    assert meaning(by_us) == meaning(by_litellm)
    assert isinstance(by_us, ChatReply)
    assert bool(by_us.usage.cost_usd) == (spec != "openai/unknown")


def test_a_prompt_with_another_price_costs_the_same(server: ModelServer) -> None:
    server.plan = lambda: reply(usage={"prompt_tokens": 300_000}, model="gpt-5.4")
    by_us, by_litellm = both(server.url, "openai/gpt-5.4")
    assert meaning(by_us) == meaning(by_litellm)


def test_nobody_there_and_no_reply_in_time_mean_the_same(server: ModelServer) -> None:
    for url, timeout_s in ((nobody(), 10.0), (server.url, 0.3)):
        server.plan = lambda: "slow:2"
        by_us, by_litellm = both(url, "openai/gpt-4o", timeout_s=timeout_s)
        assert meaning(by_us) == meaning(by_litellm)


def test_what_is_known_without_litellm_is_what_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    litellm = load_litellm()
    bare = [name for name, entry in model_table().items() if entry.get("litellm_provider") == "openai"]
    bare = [name for name in bare if not name.startswith("ft:")][::7]
    for spec in [*OFFICIAL, *OTHERS, *COMPATIBLE, *bare, "azure/mistral-large-latest", "azure/command-r-plus"]:
        name, provider, _, _ = litellm.get_llm_provider(model=spec)
        assert split_spec(spec) == (provider, name), spec
    for provider, known in OPENAI_PROVIDERS.items():
        for name in known.keys:
            monkeypatch.delenv(name, raising=False)
        _, _, key, address = litellm.get_llm_provider(model=f"{provider}/x")
        assert (key or "") == key_in_environment(f"{provider}/x")
        # OpenAI's and OpenRouter's are known to the code that calls them.
        assert address in (known.address, None)
        for name in known.keys:
            monkeypatch.setenv(name, name)
            _, _, key, _ = litellm.get_llm_provider(model=f"{provider}/x")
            assert key in (key_in_environment(f"{provider}/x"), None)
            monkeypatch.delenv(name)


@pytest.mark.parametrize("name", [*REASONING, "o3", "o1", "gpt-4o", "gpt-4o-search-preview", "gpt-5-search-api"])
def test_temperature_is_taken_by_the_same_models(name: str) -> None:
    litellm: Any = load_litellm()
    try:
        litellm.get_optional_params(model=name, custom_llm_provider="openai", temperature=0.0)
    except litellm.UnsupportedParamsError:
        takes = False
    else:
        takes = True
    assert ("takes no temperature" in (model_warning(f"openai/{name}") or "")) is not takes


def test_the_files_are_litellms_own() -> None:
    assert provider_names() == {str(known.value) for known in load_litellm().provider_list}
    assert model_table() is load_litellm().model_cost
    assert (litellm_folder() / "__init__.py").samefile(str(load_litellm().__file__))
