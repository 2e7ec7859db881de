"""The response cache: what it remembers, and what it must not mix up."""

import asyncio
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from longmemeval.core.caches import SqliteCache, cache_key
from longmemeval.errors import TransientModelError
from longmemeval.llm.cache import CachedChatModel
from longmemeval.llm.options import ModelOptions
from longmemeval.llm.protocol import ChatMessage, ChatReply, ChatRequest
from longmemeval.llm.registry import load_chat_model
from longmemeval.records import Usage
from tests.server import ModelServer

REQUEST = ChatRequest((ChatMessage("user", "Note what matters."),), max_tokens=9)


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as running:
        running.responder = lambda body: f"reply {len(running.chat_requests)}"
        yield running


def cached(server: ModelServer, path: Path, spec: str = "openai/gpt-4o", endpoint: str = "") -> CachedChatModel:
    options = ModelOptions(server.url, max_attempts=1)
    keyed_by = ModelOptions(endpoint or None)
    return CachedChatModel(load_chat_model(spec, options), path / "replies.sqlite", options=keyed_by)


def test_second_call_is_free_and_marked(server: ModelServer, tmp_path: Path) -> None:
    model = cached(server, tmp_path)
    first = asyncio.run(model.complete(REQUEST))
    second = asyncio.run(model.complete(REQUEST))
    assert first.text == second.text == "reply 1"
    assert first.usage.cost_usd > 0
    assert first.usage.cached_calls == 0
    assert second.usage == Usage(calls=1, cached_calls=1, prompt_tokens=3, completion_tokens=2)
    assert (second.attempts, second.latency_ms) == (0, 0.0)
    assert (second.finish_reason, second.served_model) == ("stop", "gpt-4o")
    assert len(server.chat_requests) == 1


def test_replies_outlive_the_process(server: ModelServer, tmp_path: Path) -> None:
    asyncio.run(cached(server, tmp_path).complete(REQUEST))
    reply = asyncio.run(cached(server, tmp_path).complete(REQUEST))
    assert reply.usage.cached_calls == 1


@pytest.mark.parametrize(
    "changed",
    [
        {"messages": (ChatMessage("user", "Note what matters!"),)},
        {"messages": (ChatMessage("system", "Note what matters."),)},
        {"messages": (ChatMessage("user", "Note what"), ChatMessage("user", " matters."))},
        {"max_tokens": 10},
        {"temperature": 0.5},
    ],
)
def test_another_request_is_another_call(server: ModelServer, tmp_path: Path, changed: dict[str, object]) -> None:
    model = cached(server, tmp_path)
    asyncio.run(model.complete(REQUEST))
    other = asyncio.run(model.complete(msgspec.structs.replace(REQUEST, **changed)))
    assert (other.text, other.usage.cached_calls) == ("reply 2", 0)


def test_another_password_is_the_same_call(server: ModelServer, tmp_path: Path) -> None:
    for information in ("user:old@", "user:new@", ""):
        model = cached(server, tmp_path, endpoint=f"http://{information}gateway.example/v1")
        assert asyncio.run(model.complete(REQUEST)).text == "reply 1"


def test_another_model_or_endpoint_is_another_call(server: ModelServer, tmp_path: Path) -> None:
    texts = [
        asyncio.run(model.complete(REQUEST)).text
        for model in (
            cached(server, tmp_path),
            cached(server, tmp_path, spec="openai/gpt-4o-mini"),
            cached(server, tmp_path, endpoint="http://elsewhere/v1"),
        )
    ]
    assert texts == ["reply 1", "reply 2", "reply 3"]


def here(path: Path, options: ModelOptions = ModelOptions(max_attempts=1)) -> CachedChatModel:
    """A model whose calls go where the options or the environment send them."""
    return CachedChatModel(load_chat_model("openai/gpt-4o", options), path / "replies.sqlite", options=options)


def test_an_address_in_the_environment_is_part_of_the_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One model name at two addresses is two models; one address in several spellings is one."""
    monkeypatch.setenv("OPENAI_API_KEY", "test")
    with ModelServer(lambda body: "of the first") as first, ModelServer(lambda body: "of the second") as second:
        for _ in range(2):
            for server, text in ((first, "of the first"), (second, "of the second")):
                monkeypatch.setenv("OPENAI_BASE_URL", server.url)
                assert asyncio.run(here(tmp_path).complete(REQUEST)).text == text
        for address in (f"{first.url}/", first.url.replace("http:", "HTTP:"), first.url.replace("//", "//u:pw@")):
            monkeypatch.setenv("OPENAI_BASE_URL", address)
            assert asyncio.run(here(tmp_path).complete(REQUEST)).usage.cached_calls == 1
        monkeypatch.delenv("OPENAI_BASE_URL")
        options = ModelOptions(first.url, max_attempts=1)
        assert asyncio.run(here(tmp_path, options).complete(REQUEST)).usage.cached_calls == 1
        assert [len(server.chat_requests) for server in (first, second)] == [1, 1]
    assert b"127.0.0.1" not in b"".join(key for (key,) in keys_in(tmp_path))


def keys_in(path: Path) -> list[tuple[bytes]]:
    with sqlite3.connect(path / "replies.sqlite") as raw:
        return list(raw.execute("SELECT key FROM entries"))


@pytest.mark.parametrize(
    ("kept_under", "address", "found"),
    [
        ("", "", True),
        ("", "https://api.openai.com/v1/", True),
        ("https://api.openai.com/v1/", "https://api.openai.com/v1/", True),
        ("", "SERVER", False),
        ("SERVER/", "SERVER/", True),
    ],
)
def test_what_an_earlier_version_kept_is_found_at_the_same_address(
    server: ModelServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept_under: str, address: str, found: bool
) -> None:
    """It kept replies under `--api-base` as that was written, and under nothing where there was none."""
    monkeypatch.setenv("OPENAI_API_KEY", "test")
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    kept_under, address = (text.replace("SERVER", server.url) for text in (kept_under, address))
    asked = {"messages": REQUEST.messages, "temperature": REQUEST.temperature, "max_tokens": REQUEST.max_tokens}
    whole = {"schema": 1, "spec": "openai/gpt-4o", "endpoint": kept_under, **asked}
    key = cache_key("chat", msgspec.json.encode(whole, order="sorted").decode())
    entry = {"request_sha256": "", "reply": ChatReply("kept", "stop", Usage(calls=1))}
    SqliteCache(tmp_path / "replies.sqlite").put_many({key: msgspec.json.encode(entry)})
    options = ModelOptions(address or None, max_attempts=1)
    model = here(tmp_path, options)
    if found:
        assert asyncio.run(model.complete(REQUEST)).text == "kept"
    else:
        assert asyncio.run(model.complete(REQUEST)).text == "reply 1"


def test_fields_that_are_not_sent_do_not_matter(server: ModelServer, tmp_path: Path) -> None:
    model = cached(server, tmp_path)
    asyncio.run(model.complete(REQUEST))
    same = asyncio.run(model.complete(msgspec.structs.replace(REQUEST, question_id="q9", passages=("text",))))
    assert same.usage.cached_calls == 1


def test_failures_are_not_remembered(server: ModelServer, tmp_path: Path) -> None:
    model = cached(server, tmp_path)
    server.faults.append(500)
    with pytest.raises(TransientModelError):
        asyncio.run(model.complete(REQUEST))
    reply = asyncio.run(model.complete(REQUEST))
    assert (reply.text, reply.usage.cached_calls) == ("reply 2", 0)


def test_empty_replies_are_not_remembered(server: ModelServer, tmp_path: Path) -> None:
    model = cached(server, tmp_path)
    server.faults.append("null-content")
    assert asyncio.run(model.complete(REQUEST)).text == ""
    assert asyncio.run(model.complete(REQUEST)).text == "reply 2"


def test_identical_calls_under_way_are_made_once(server: ModelServer, tmp_path: Path) -> None:
    model = cached(server, tmp_path)
    other = msgspec.structs.replace(REQUEST, max_tokens=10)

    async def run() -> list[ChatReply]:
        return await asyncio.gather(*[model.complete(request) for request in [REQUEST, other] * 5])

    server.responder = lambda body: f"up to {body['max_tokens']} tokens"
    server.faults.extend(["slow:0.2", "slow:0.2"])
    replies = asyncio.run(run())
    assert len(server.chat_requests) == 2
    assert sum(reply.usage.cached_calls for reply in replies) == 8
    assert [reply.text for reply in replies] == ["up to 9 tokens", "up to 10 tokens"] * 5


def test_offline_models_are_asked_every_time(tmp_path: Path) -> None:
    """Their answers depend on fields that the key does not hold."""
    model = CachedChatModel(load_chat_model("offline/extractive"), tmp_path / "replies.sqlite")

    def ask(passage: str) -> str:
        request = ChatRequest((), 5, question="Which city?", passages=(passage,))
        return asyncio.run(model.complete(request)).text

    assert ask("The city is Rome.") == "The city is Rome."
    assert ask("The city is Oslo.") == "The city is Oslo."


@pytest.mark.parametrize("damage", ["x'7b7d'", "substr(value, 1, 40)"])
def test_damaged_entry_is_asked_for_again(server: ModelServer, tmp_path: Path, damage: str) -> None:
    model = cached(server, tmp_path)
    asyncio.run(model.complete(REQUEST))
    with sqlite3.connect(tmp_path / "replies.sqlite") as raw:
        raw.execute(f"UPDATE entries SET value = {damage}")
    assert asyncio.run(model.complete(REQUEST)).text == "reply 2"
    assert asyncio.run(model.complete(REQUEST)).text == "reply 2"
    assert len(server.chat_requests) == 2


def test_entry_of_another_shape_is_asked_for_again(server: ModelServer, tmp_path: Path) -> None:
    model = cached(server, tmp_path)
    asyncio.run(model.complete(REQUEST))
    with sqlite3.connect(tmp_path / "replies.sqlite") as raw:
        (key,) = raw.execute("DELETE FROM entries RETURNING key").fetchone()
    SqliteCache(tmp_path / "replies.sqlite").put_many({key: b"{}"})
    assert asyncio.run(model.complete(REQUEST)).text == "reply 2"
    assert asyncio.run(model.complete(REQUEST)).usage.cached_calls == 1
