"""The recording proxy, as the clients of memory systems use it: real clients, a real server behind it."""

import asyncio
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import openai
import pytest

from longmemeval.embedding.registry import load_embedder
from longmemeval.errors import FatalModelError
from longmemeval.llm.costs import Account
from longmemeval.llm.model_calls import all_written, read_calls, sums
from longmemeval.llm.options import ModelOptions, SpendingLimit
from longmemeval.llm.registry import ModelAccess
from longmemeval.memory.external.proxy.server import ModelProxy, ProxiedScope
from tests.server import ModelServer, nobody
from tests.support import ROOT, clean_environment

KEY = "sk-harness-secret-0123456789"
ASKED: Any = [{"role": "user", "content": "Which facts are in this session?"}]


@pytest.fixture
def proxy() -> ModelProxy:
    return ModelProxy()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with ModelServer(lambda body: "Pixel is a beagle.") as server:
        yield server


def access(server_url: str, folder: Path | None = None, account: Account | None = None) -> ModelAccess:
    options = ModelOptions(api_base=server_url, max_attempts=2, max_wait_s=0.01)
    return ModelAccess("openai/gpt-4o-mini", "hashing:64", options, folder, account)


def client(scope: ProxiedScope) -> openai.OpenAI:
    return openai.OpenAI(base_url=scope.base_url, api_key="sk-of-the-product-9876543210", max_retries=2)


def test_a_chat_is_passed_on_to_the_configured_model_and_counted(
    proxy: ModelProxy, server: ModelServer, tmp_path: Path
) -> None:
    calls = tmp_path / "calls.jsonl"
    with proxy.offered("h_1", "prepare", access(server.url), calls) as scope:
        reply = client(scope).chat.completions.create(
            model="gpt-5-super", messages=ASKED, temperature=0.3, max_tokens=50, extra_body={"top_k": 7}, user="h_1"
        )
    assert reply.choices[0].message.content == "Pixel is a beagle."
    (sent,) = server.chat_requests
    expected = {"model": "gpt-4o-mini", "messages": ASKED, "temperature": 0.3, "max_tokens": 50, "top_k": 7}
    assert {key: sent.body.get(key) for key in expected} == expected
    assert "user" not in sent.body
    assert sent.headers["authorization"] == f"Bearer {KEY}"
    (call,) = read_calls(calls)
    assert reply.usage is not None
    assert (call.prompt_tokens, call.completion_tokens) == (reply.usage.prompt_tokens, reply.usage.completion_tokens)
    assert (call.stage, call.kind, call.model, call.asked) == ("prepare", "chat", "openai/gpt-4o-mini", "gpt-5-super")
    assert call.cost_usd == pytest.approx(6 * 0.15e-6 + 4 * 0.6e-6)
    assert scope.usage.calls == 1
    assert scope.usage.cost_usd == call.cost_usd
    for secret in (KEY, "sk-of-the-product"):
        assert secret not in calls.read_text()


@pytest.mark.parametrize("usage", [None, {}, {"prompt_tokens": -1, "completion_tokens": "few"}])
@pytest.mark.parametrize("stream", [False, True])
def test_tokens_that_the_server_does_not_count_are_counted_here(
    proxy: ModelProxy,
    server: ModelServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    usage: dict[str, Any] | None,
    stream: bool,
) -> None:
    whole, calls = server.completion, tmp_path / "calls.jsonl"
    monkeypatch.setattr(server, "completion", lambda *given: whole(*given) | {"usage": usage})
    with proxy.offered("h_1", "prepare", access(server.url), calls) as scope:
        asked = client(scope).chat.completions
        if stream:
            *_, last = asked.create(model="m", messages=ASKED, stream=True, stream_options={"include_usage": True})
            told = last.usage
        else:
            told = asked.create(model="m", messages=ASKED).usage
    (call,) = read_calls(calls)
    assert told is not None
    assert (call.prompt_tokens, call.completion_tokens) == (told.prompt_tokens, told.completion_tokens)
    assert call.estimated
    assert 10 < call.prompt_tokens < 30
    assert call.completion_tokens == 6
    assert call.cost_usd == pytest.approx(call.prompt_tokens * 0.15e-6 + 6 * 0.6e-6)
    assert scope.usage.estimated_calls == sums([call]).estimated_calls == 1


def test_a_reply_is_kept_for_the_address_it_came_from(
    proxy: ModelProxy, server: ModelServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The environment sends the calls of one process first here, then there, and back."""
    models = ModelAccess("openai/gpt-4o-mini", "hashing:64", ModelOptions(max_attempts=1), tmp_path)
    with ModelServer(lambda body: "Pixel is a cat.") as other:
        said = []
        for one in (server, other, server):
            monkeypatch.setenv("OPENAI_BASE_URL", one.url)
            with proxy.offered("h_1", "prepare", models, None) as scope:
                reply = client(scope).chat.completions.create(model="m", messages=ASKED)
                said.append(reply.choices[0].message.content)
        assert said == ["Pixel is a beagle.", "Pixel is a cat.", "Pixel is a beagle."]
        assert (len(server.chat_requests), len(other.chat_requests)) == (1, 1)


def test_a_call_after_a_half_written_line_is_kept(proxy: ModelProxy, server: ModelServer, tmp_path: Path) -> None:
    """A process was killed in the middle of a line: what comes next is not lost with it."""
    calls = tmp_path / "calls.jsonl"
    with proxy.offered("h_1", "prepare", access(server.url), calls) as scope:
        for number in range(2):
            client(scope).chat.completions.create(model=f"m{number}", messages=ASKED)
        calls.write_bytes(calls.read_bytes()[:-30])
        for number in range(2, 4):
            client(scope).chat.completions.create(model=f"m{number}", messages=ASKED)
    assert [call.asked for call in read_calls(calls)] == ["m0", "m2", "m3"]


TOOL: Any = {"type": "function", "function": {"name": "keep", "parameters": {"type": "object", "properties": {}}}}
CALLED = {"id": "call_1", "type": "function", "function": {"name": "keep", "arguments": '{"fact": "green bicycle"}'}}
SCHEMA: Any = {"type": "json_schema", "json_schema": {"name": "facts", "strict": True, "schema": {"type": "object"}}}


@pytest.mark.parametrize("stream", [False, True])
def test_tools_and_forms_of_the_reply_are_passed_on(proxy: ModelProxy, server: ModelServer, stream: bool) -> None:
    server.message = lambda body: {"content": None, "tool_calls": [CALLED]}
    with proxy.offered("h_1", "prepare", access(server.url), None) as scope:
        asked: Any = {
            "model": "m",
            "messages": ASKED,
            "tools": [TOOL],
            "tool_choice": "auto",
            "response_format": SCHEMA,
        }
        create = client(scope).chat.completions.create
        if stream:
            chunks = list(create(**asked, stream=True, stream_options={"include_usage": True}))
            told = [one for chunk in chunks for choice in chunk.choices for one in choice.delta.tool_calls or ()]
            assert chunks[-1].usage.total_tokens > 0
            assert [choice.finish_reason for chunk in chunks for choice in chunk.choices][-1] == "tool_calls"
        else:
            told = create(**asked).choices[0].message.tool_calls
    (call,) = told
    assert call.function.name == "keep"
    assert json.loads(call.function.arguments) == {"fact": "green bicycle"}
    body = server.chat_requests[0].body
    assert body["tools"] == [TOOL]
    assert body["tool_choice"] == "auto"
    assert body["response_format"] == SCHEMA
    assert not body.get("stream")


def test_a_stream_says_the_same(proxy: ModelProxy, server: ModelServer) -> None:
    with proxy.offered("h_1", "search", access(server.url), None) as scope:
        stream = client(scope).chat.completions.create(model="m", messages=ASKED, stream=True)
        said = "".join(choice.delta.content or "" for chunk in stream for choice in chunk.choices)
    assert said == "Pixel is a beagle."


def test_responses_are_answered_too_and_streamed(proxy: ModelProxy, server: ModelServer, tmp_path: Path) -> None:
    calls = tmp_path / "calls.jsonl"
    with proxy.offered("h_1", "prepare", access(server.url, tmp_path), calls) as scope:
        reply = client(scope).responses.create(model="m", input="Which facts?", instructions="Be brief.")
        assert reply.output_text == "Pixel is a beagle."
        events = list(
            client(scope).responses.create(model="m", input="Which facts?", instructions="Be brief.", stream=True)
        )
        with pytest.raises(openai.BadRequestError, match="previous_response_id"):
            client(scope).responses.create(model="m", input="And then?", previous_response_id=reply.id)
    assert "".join(event.delta for event in events if event.type == "response.output_text.delta") == reply.output_text
    assert events[-1].type == "response.completed"
    assert len(server.chat_requests) == 1
    first, second, failed = read_calls(calls)
    assert (first.kind, first.cached, second.cached, failed.cached) == ("responses", False, True, False)
    assert reply.usage is not None
    assert (first.prompt_tokens, first.completion_tokens) == (reply.usage.input_tokens, reply.usage.output_tokens)


def test_half_replies_reach_the_memory_as_they_are_and_are_counted(
    proxy: ModelProxy, server: ModelServer, tmp_path: Path
) -> None:
    calls, ends = tmp_path / "calls.jsonl", iter(["length", "error", "pause_turn", "content_filter", "stop"])
    server.choice = lambda body: {"finish_reason": next(ends)}
    with proxy.offered("h_1", "search", access(server.url), calls) as scope:
        asked = client(scope)
        chat = [asked.chat.completions.create(model="m", messages=ASKED, seed=n).choices[0] for n in range(2)]
        response = asked.responses.create(model="m", input="Which facts?")
        events = list(asked.responses.create(model="m", input="Which facts?", stream=True))
    assert [choice.finish_reason for choice in chat] == ["length", "pause_turn"]
    assert (response.status, response.incomplete_details and response.incomplete_details.reason) == (
        "incomplete",
        "content_filter",
    )
    assert events[-1].type == "response.completed"
    found = read_calls(calls)
    assert [call.cut for call in found] == ["length", "pause_turn", "content_filter", ""]
    assert (sums(found).calls, sums(found).cut_calls, len(server.chat_requests)) == (4, 3, 5)


@pytest.mark.parametrize("form", [{"encoding_format": "float"}, {}])
def test_embeddings_come_from_the_own_embedder(proxy: ModelProxy, form: dict[str, Any], tmp_path: Path) -> None:
    texts, calls = ["A green bicycle.", "A beagle."], tmp_path / "calls.jsonl"
    with proxy.offered("h_1", "prepare", access(nobody(), tmp_path), calls) as scope:
        assert scope.fields["embedding_dimension"] == 64
        create = client(scope).embeddings.create
        reply = create(model="text-embedding-3-small", input=texts, **form)
        again = create(model="text-embedding-3-small", input=texts[1])
        with pytest.raises(openai.BadRequestError, match="wants vectors of 1536 numbers, hashing:64 gives 64"):
            create(model="text-embedding-3-small", input=texts, dimensions=1536)
    rows = np.array([one.embedding for one in reply.data], np.float32)
    assert np.array_equal(rows, load_embedder("hashing:64").embed(texts))
    assert np.array_equal(np.array(again.data[0].embedding, np.float32), rows[1])
    first, second, _ = read_calls(calls)
    assert (first.texts, first.cached, first.prompt_tokens, first.asked) == (2, False, 7, "text-embedding-3-small")
    assert (second.texts, second.cached, second.cost_usd) == (1, False, 0.0)  # Hashing costs less than a cache.


def test_embeddings_of_tokens_are_those_of_their_text(proxy: ModelProxy) -> None:
    from longmemeval.llm.tokens import encoding_of

    tokens = encoding_of("cl100k_base").encode("A green bicycle.")
    with proxy.offered("h_1", "prepare", access(nobody()), None) as scope:
        reply = client(scope).embeddings.create(model="m", input=[tokens])
    expected = load_embedder("hashing:64").embed(["A green bicycle."])
    assert np.array_equal(np.array([reply.data[0].embedding], np.float32), expected)


def test_the_same_request_is_paid_once_whoever_asks(proxy: ModelProxy, server: ModelServer, tmp_path: Path) -> None:
    """Also by two histories at the same moment; another temperature is another request."""
    lent = access(server.url, tmp_path)
    with (
        proxy.offered("h_1", "prepare", lent, tmp_path / "1.jsonl") as first,
        proxy.offered("h_2", "prepare", lent, tmp_path / "2.jsonl") as second,
    ):

        async def ask() -> None:
            def one(scope: ProxiedScope, temperature: float) -> object:
                return client(scope).chat.completions.create(model="m", messages=ASKED, temperature=temperature)

            asked = [(first, 0.0), (second, 0.0), (first, 0.0), (second, 0.5)]
            await asyncio.gather(*(asyncio.to_thread(one, *arguments) for arguments in asked))

        asyncio.run(ask())
    assert len(server.chat_requests) == 2
    counted = [call for name in ("1.jsonl", "2.jsonl") for call in read_calls(tmp_path / name)]
    assert sorted(call.cached for call in counted) == [False, False, True, True]
    assert first.usage.calls == second.usage.calls == 2
    assert (first.usage + second.usage).cached_calls == 2


def test_a_call_repeated_by_a_resumed_attempt_counts_once(
    proxy: ModelProxy, server: ModelServer, tmp_path: Path
) -> None:
    calls = tmp_path / "calls.jsonl"
    for _ in range(2):
        with proxy.offered("h_1", "prepare", access(server.url, tmp_path), calls) as scope:
            client(scope).chat.completions.create(model="m", messages=ASKED)
    assert len(read_calls(calls)) == 2
    assert (sums(read_calls(calls)).calls, sums(read_calls(calls)).prompt_tokens) == (1, 6)


def raised(act: Callable[[], object]) -> tuple[int, dict[str, Any]]:
    with pytest.raises(openai.APIStatusError) as told:
        act()
    body: Any = told.value.body
    return told.value.status_code, body


def test_without_a_model_the_error_names_the_option(proxy: ModelProxy, tmp_path: Path) -> None:
    with proxy.offered("h_1", "prepare", ModelAccess(), tmp_path / "calls.jsonl") as scope:
        status, body = raised(lambda: client(scope).chat.completions.create(model="m", messages=ASKED))
        with pytest.raises(FatalModelError, match="--memory-model"):
            scope.check()
    assert status == 400
    assert "--memory-model openai/gpt-4o-mini" in body["message"]
    assert sums(read_calls(tmp_path / "calls.jsonl")).failed_calls == 1


@pytest.mark.slow
def test_an_endpoint_that_cannot_be_reached_is_tried_by_us_alone(
    proxy: ModelProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with proxy.offered("h_1", "prepare", access(nobody()), None) as scope:
        status, body = raised(lambda: client(scope).chat.completions.create(model="m", messages=ASKED))
    assert status == 503
    assert "No connection could be made" in body["message"]
    assert KEY not in str(body)
    assert len(scope.failures) == 1


def test_a_refused_request_is_the_memory_systems_own_fault(proxy: ModelProxy, server: ModelServer) -> None:
    server.faults.append(400)
    with proxy.offered("h_1", "prepare", access(server.url), None) as scope:
        assert raised(lambda: client(scope).chat.completions.create(model="m", messages=ASKED))[0] == 400
        assert client(scope).chat.completions.create(model="m", messages=ASKED).choices
        assert scope.stopped is None


def test_busy_servers_and_repeated_secrets_are_dealt_with_here(
    proxy: ModelProxy, server: ModelServer, tmp_path: Path
) -> None:
    server.faults.append(429)
    server.responder = lambda body: f"Your key is {KEY}."
    with proxy.offered("h_1", "prepare", access(server.url, tmp_path), tmp_path / "calls.jsonl") as scope:
        reply = client(scope).chat.completions.create(model="m", messages=ASKED)
    assert reply.choices[0].message.content == "Your key is [redacted]."
    assert scope.failures == []
    assert all(KEY.encode() not in file.read_bytes() for file in tmp_path.iterdir())


def test_a_spending_limit_stops_it(proxy: ModelProxy, server: ModelServer, tmp_path: Path) -> None:
    account = Account(tmp_path / "spending.jsonl", SpendingLimit(1e-9))
    with proxy.offered("h_1", "prepare", access(server.url, tmp_path, account=account), None) as scope:
        for _ in range(2):
            status, body = raised(lambda: client(scope).chat.completions.create(model="m", messages=ASKED))
            assert (status, body["code"]) == (402, "spending_limit")
    assert "--max-cost" in str(scope.stopped)
    assert server.requests == []


def test_an_address_is_closed_with_its_history(proxy: ModelProxy, server: ModelServer) -> None:
    with proxy.offered("h_1", "prepare", access(server.url), None) as scope:
        named = {model.id for model in client(scope).models.list()}
        assert named == {"openai/gpt-4o-mini", "hashing:64"}
        assert raised(lambda: client(scope).images.generate(prompt="a dog"))[0] == 400
        assert httpx.post(f"{scope.base_url}/chat/completions", content=b"[").status_code == 400
    assert raised(lambda: client(scope).chat.completions.create(model="m", messages=ASKED))[0] == 400


_ASKER = """
import sys, time
from pathlib import Path
import openai
from longmemeval.memory.external.proxy.server import ModelProxy
from tests.memory.external.test_proxy import ASKED, access
folder, name, url, kind = Path(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4]
lent = access(url, folder)
if kind == "embeddings":
    import msgspec
    lent = msgspec.structs.replace(lent, embedder="openai:text-embedding-3-small")
with ModelProxy().offered(name, "prepare", lent, folder / f"{name}.jsonl") as scope:
    asking = openai.OpenAI(base_url=scope.base_url, api_key="none", max_retries=0)
    asking.models.list()
    (folder / f"{name}.ready").touch()
    while not (folder / "go").exists():
        time.sleep(0.001)
    for number in range(8):
        if kind == "chat":
            said = [{"role": "user", "content": f"Which facts are in session {number}?"}]
            asking.chat.completions.create(model="m", messages=said)
        else:
            asking.embeddings.create(model="m", input=[f"session {number}", f"a fact of {number}"])
"""


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["chat", "embeddings"])
def test_of_two_processes_that_ask_the_same_one_pays(server: ModelServer, tmp_path: Path, kind: str) -> None:
    server.plan = lambda: "slow:0.05"
    environment = clean_environment(OPENAI_API_KEY=KEY)
    workers = [
        subprocess.Popen([sys.executable, "-c", _ASKER, tmp_path, name, server.url, kind], env=environment, cwd=ROOT)
        for name in "ab"
    ]
    while not all((tmp_path / f"{name}.ready").exists() for name in "ab"):
        assert all(worker.poll() is None for worker in workers)
        time.sleep(0.005)
    (tmp_path / "go").touch()
    assert [worker.wait(timeout=200) for worker in workers] == [0, 0]
    sent = [json.dumps(request.body, sort_keys=True) for request in server.requests]
    assert sorted(sent.count(one) for one in set(sent)) == [1] * 8
    counted = [call for name in "ab" for call in read_calls(tmp_path / f"{name}.jsonl")]
    assert (len(counted), sum(not call.cached for call in counted)) == (16, 8)
    assert not list(tmp_path.glob("*.lock"))


def test_a_reply_whose_caller_has_hung_up_is_kept_and_counted(
    proxy: ModelProxy, server: ModelServer, tmp_path: Path
) -> None:
    calls = tmp_path / "calls.jsonl"
    hung_up = threading.Event()

    def late(body: dict[str, Any]) -> str:
        hung_up.wait(60)
        return "A fixed reply."

    server.responder = late
    with proxy.offered("h_1", "prepare", access(server.url, tmp_path), calls) as scope:
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(f"{scope.base_url}/chat/completions", json={"model": "m", "messages": ASKED}, timeout=0.3)
        assert read_calls(calls) == []
    hung_up.set()
    asyncio.run(all_written(calls))
    assert [(call.kind, call.cached, call.prompt_tokens) for call in read_calls(calls)] == [("chat", False, 6)]
    with proxy.offered("h_1", "prepare", access(server.url, tmp_path), calls) as scope:
        assert client(scope).chat.completions.create(model="m", messages=ASKED).choices[0].message.content
    assert len(server.chat_requests) == 1
