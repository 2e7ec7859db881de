"""Key, address, version and account of an endpoint: where they are read, and what is refused before any call."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from longmemeval.embedding.registry import load_embedder
from longmemeval.errors import FatalModelError, HarnessError
from longmemeval.llm.options import ModelOptions
from longmemeval.llm.protocol import ChatMessage, ChatRequest
from longmemeval.llm.registry import load_batch_endpoint, load_chat_model, load_forwarded
from tests.server import ModelServer
from tests.support import longmemeval

NOWHERE = "http://127.0.0.1:9/v1"
KEY = "sk-test-0123456789abcdef"
NAMES = """
OPENAI_API_KEY OPENAI_BASE_URL OPENAI_API_BASE OPENAI_ORGANIZATION OPENAI_ORG_ID OPENAI_PROJECT_ID OPENAI_API_VERSION
ANTHROPIC_API_KEY AZURE_API_KEY AZURE_API_BASE AZURE_API_VERSION AZURE_OPENAI_API_KEY AZURE_OPENAI_ENDPOINT
AZURE_OPENAI_API_VERSION AZURE_AD_TOKEN
"""


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NAMES.split():
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as running:
        yield running


def ask(spec: str, base: str | None = None) -> str:
    request = ChatRequest((ChatMessage("user", "Which colour?"),), max_tokens=9)
    return asyncio.run(load_chat_model(spec, ModelOptions(base, max_attempts=1)).complete(request)).text


def embed(base: str | None = None) -> None:
    load_embedder("openai:small", ModelOptions(base, give_up_after_s=0.1)).embed(["a"])


# Keys.


@pytest.mark.parametrize("key", [f"{KEY}\n", f" {KEY}\r\n", f"{KEY} "])
@pytest.mark.parametrize("by_litellm", [False, True])
def test_blanks_around_a_key_are_not_sent(
    key: str, by_litellm: bool, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", key)
    if by_litellm:
        monkeypatch.setenv("SSL_VERIFY", "True")
    ask("openai/gpt-4o", server.url)
    embed(server.url)
    asyncio.run(
        load_forwarded("openai/gpt-4o", ModelOptions(server.url)).forward(
            {"messages": [{"role": "user", "content": "?"}]}
        )
    )
    assert [request.headers["authorization"] for request in server.requests] == [f"Bearer {KEY}"] * 3


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        (f"{KEY}\n{KEY}", "has a line break in it"),
        (f"{KEY}ä", "has the character 'ä' in it"),
        (f"“{KEY}”", "has the character '“' in it"),
        (f"{KEY}\x07{KEY}", r"has the character '\x07' in it"),
        (f'"{KEY}"', "has quotation marks around it"),
        (f"'{KEY}'", "has quotation marks around it"),
    ],
)
def test_a_key_that_no_request_can_carry_is_refused_by_its_variable(
    key: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = ModelOptions(NOWHERE)
    for name, load in (
        ("OPENAI_API_KEY", lambda: load_chat_model("openai/gpt-4o", options)),
        ("OPENAI_API_KEY", lambda: load_forwarded("openai/gpt-4o", options)),
        ("OPENAI_API_KEY", lambda: load_batch_endpoint("openai/gpt-4o", options)),
        ("OPENAI_API_KEY", lambda: load_embedder("openai:small", options)),
        ("ANTHROPIC_API_KEY", lambda: load_chat_model("anthropic/claude-3-5-haiku-20241022")),
        ("AZURE_OPENAI_API_KEY", lambda: load_chat_model("azure/prod-chat", options)),
        ("OPENAI_ORG_ID", lambda: load_chat_model("openai/gpt-4o", options)),
        ("OPENAI_PROJECT_ID", lambda: load_embedder("openai:small", options)),
    ):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(name, key)
            with pytest.raises(FatalModelError) as raised:
                load()
        assert raised.value.what.startswith(f"{name} {reason}")
        assert KEY not in str(raised.value)


@pytest.mark.parametrize("key", ["", "  ", "\n"])
def test_an_empty_key_is_none(key: str, server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", key)
    with pytest.raises(FatalModelError, match="OPENAI_API_KEY is empty"):
        load_chat_model("openai/gpt-4o")
    with pytest.raises(FatalModelError, match="OPENAI_API_KEY is not set"):
        load_embedder("openai:small")
    ask("openai/gpt-4o", server.url)


def test_nothing_is_written_before_a_key_is_refused(tmp_path: Path) -> None:
    longmemeval("prepare", "-d", "sample", "-m", "last-k", "--limit", "1", cwd=tmp_path)
    before = sorted(tmp_path.rglob("*"))
    run = ("run", "-d", "sample", "-m", "last-k", "--limit", "1", "--api-base", NOWHERE)
    refused = longmemeval(*run, "--model", "openai/gpt-4o", cwd=tmp_path, code=2, OPENAI_API_KEY=f"{KEY}ä").stderr
    assert "Error: OPENAI_API_KEY has the character 'ä' in it" in " ".join(refused.split())
    assert sorted(tmp_path.rglob("*")) == before


# Addresses.


@pytest.mark.parametrize("end", ["", "/", "/chat/completions", "/chat/completions/", "/embeddings", " "])
def test_an_address_may_be_that_of_one_call(end: str, server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_BASE_URL", server.url + end)
    for base in (server.url + end, None):
        embed(base)
        if end != "/embeddings":
            ask("openai/gpt-4o", base)
    assert {request.path for request in server.requests} <= {"/v1/chat/completions", "/v1/embeddings"}


def test_the_option_counts_before_the_variables_and_the_first_variable_before_the_second(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    dead = NOWHERE
    for option, first, second in ((server.url, dead, dead), (None, server.url, dead), (None, " ", server.url)):
        monkeypatch.setenv("OPENAI_BASE_URL", first)
        monkeypatch.setenv("OPENAI_API_BASE", second)
        ask("openai/gpt-4o", option)
        embed(option)
    assert len(server.requests) == 6


@pytest.mark.parametrize(
    ("base", "fix"),
    [
        ("127.0.0.1:8000/v1", "Write http://127.0.0.1:8000/v1."),
        ("localhost:8000/v1", "Write http://localhost:8000/v1."),
        ("models.example/v1", "Write https://models.example/v1."),
        ("me:word-of-mine@models.example/v1", "Begin it with https://."),
    ],
)
@pytest.mark.parametrize("place", ["--api-base", "OPENAI_BASE_URL", "OPENAI_API_BASE"])
def test_an_address_without_a_scheme_is_refused_with_the_whole_one(
    base: str, fix: str, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    if place != "--api-base":
        monkeypatch.setenv(place, base)
    options = ModelOptions(base if place == "--api-base" else None)
    for load in (lambda: load_chat_model("openai/gpt-4o", options), lambda: load_embedder("openai:small", options)):
        with pytest.raises(HarnessError) as raised:
            load()
        assert f"is not a web address ({place}). {fix}" in str(raised.value)
        assert "word-of-mine" not in str(raised.value)


# Azure.


@pytest.mark.parametrize(
    "variables",
    [
        {"AZURE_API_KEY": KEY, "AZURE_API_VERSION": "2024-10-21"},
        {"AZURE_OPENAI_API_KEY": KEY, "OPENAI_API_VERSION": "2024-10-21"},
        {"AZURE_API_KEY": KEY, "AZURE_OPENAI_API_VERSION": "2024-10-21\n"},
        {"AZURE_AD_TOKEN": KEY, "AZURE_API_VERSION": "2024-10-21"},
    ],
)
@pytest.mark.parametrize("place", ["--api-base", "AZURE_API_BASE", "AZURE_OPENAI_ENDPOINT"])
@pytest.mark.parametrize("model", ["prod-chat", "o3-mini"])
def test_a_deployment_is_called_wherever_its_settings_are(
    variables: dict[str, str], place: str, model: str, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    if place != "--api-base":
        monkeypatch.setenv(place, server.url)
    assert ask(f"azure/{model}", server.url if place == "--api-base" else None) == "A fixed reply."
    (request,) = server.requests
    assert (request.path, request.query) == (
        f"/v1/openai/deployments/{model}/chat/completions",
        "api-version=2024-10-21",
    )
    assert KEY in (request.headers.get("api-key"), request.headers.get("authorization", "").removeprefix("Bearer "))


@pytest.mark.parametrize(
    ("given", "missing", "fix"),
    [
        (("KEY", "VERSION"), "AZURE_API_BASE", "Set AZURE_API_BASE (or --api-base https://"),
        (("KEY", "BASE"), "AZURE_API_VERSION", "Set AZURE_API_VERSION=2024-10-21"),
        (("BASE", "VERSION"), "AZURE_API_KEY", "Set AZURE_API_KEY"),
        (("BASE",), "AZURE_API_KEY, AZURE_API_VERSION", "Set AZURE_API_KEY and AZURE_API_VERSION=2024-10-21"),
        (("option", "KEY"), "AZURE_API_VERSION", "Set AZURE_API_VERSION=2024-10-21"),
        (("option", "VERSION"), "AZURE_API_KEY", "Set AZURE_API_KEY"),
    ],
)
def test_what_is_missing_is_named_and_nothing_else(
    given: tuple[str, ...], missing: str, fix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = {"KEY": KEY, "VERSION": "2024-10-21", "BASE": NOWHERE}
    for name in given:
        if name != "option":
            monkeypatch.setenv(f"AZURE_API_{name}", values[name])
    for load in (load_chat_model, load_forwarded, load_batch_endpoint):
        with pytest.raises(FatalModelError) as raised:
            load("azure/prod-chat", ModelOptions(NOWHERE if "option" in given else None))
        assert raised.value.where == f"environment: {missing}"
        assert raised.value.fix.startswith(fix)
        assert "give --api-base" not in raised.value.fix or "name openai/MODEL and give" in raised.value.fix
