"""Models that reason: limits count the visible reply, options reach the provider, and what is refused is left out."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec import structs

from longmemeval.errors import FatalModelError, HarnessError, ModelError
from longmemeval.llm.http import direct
from longmemeval.llm.options import ModelOptions
from longmemeval.llm.protocol import ChatMessage, ChatReply, ChatRequest
from longmemeval.llm.registry import load_chat_model
from tests.server import ModelServer, ReasoningServer, Refusal

REQUEST = ChatRequest((ChatMessage("system", "Be short."), ChatMessage("user", "Yes or no?")), max_tokens=10)


@pytest.fixture(autouse=True, params=["direct", "litellm"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each test holds for both ways to a model."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    if request.param == "litellm":
        monkeypatch.setattr(direct, "_direct_way", lambda spec, destination: None)
    return str(request.param)


@pytest.fixture
def server() -> Iterator[ReasoningServer]:
    with ReasoningServer(lambda body: "yes") as running:
        yield running


def replies(server: ModelServer, spec: str, count: int = 1, **options: Any) -> list[ChatReply]:
    model = load_chat_model(spec, structs.replace(ModelOptions(server.url, max_wait_s=0.01), **options))

    async def ask() -> list[ChatReply]:
        return [await model.complete(REQUEST) for _ in range(count)]

    return asyncio.run(ask())


def limits(server: ModelServer) -> list[Any]:
    sent = [request.body for request in server.chat_requests]
    return [body.get("max_completion_tokens", body.get("max_tokens")) for body in sent]


@pytest.mark.parametrize(
    ("effort", "limit", "reasoned"), [("low", 8202, 300), ("medium", 16394, 900), ("high", 32778, 6000)]
)
def test_an_effort_makes_room(server: ReasoningServer, effort: str, limit: int, reasoned: int) -> None:
    (reply,) = replies(server, "openai/my-gpt5", reasoning_effort=effort)
    assert (reply.text, reply.attempts) == ("yes", 1)
    assert reply.asked
    assert (reply.asked.max_tokens, reply.asked.reasoning_tokens) == (limit, reasoned)
    assert limits(server) == [limit]
    assert server.chat_requests[0].body["reasoning_effort"] == effort


def test_the_table_knows_who_reasons(server: ReasoningServer) -> None:
    assert replies(server, "openai/gpt-5-mini")[0].text == "yes"
    assert limits(server) == [16394]


def test_a_budget_is_the_room(server: ReasoningServer) -> None:
    assert replies(server, "openai/my-gpt5", reasoning_budget=1000)[0].text == "yes"
    assert limits(server) == [1010]


@pytest.mark.parametrize("tells", [True, False])
def test_an_alias_is_asked_once_more_with_room(server: ReasoningServer, tells: bool) -> None:
    server.tells = tells
    first, second = replies(server, "openai/my-alias", 2)
    assert (first.text, first.attempts, first.usage.calls) == ("yes", 2, 2)
    assert first.asked
    assert first.asked.max_tokens == 16394
    assert second.text == "yes"
    # A server that tells of its reasoning is asked with room from then on.
    assert limits(server) == [10, 16394, 16394] if tells else [10, 16394, 10, 16394]


def test_a_starving_model_ends_after_a_few(server: ReasoningServer) -> None:
    server.spends[None] = 10**6
    with pytest.raises(FatalModelError, match="--reasoning-budget") as caught:
        replies(server, "openai/my-alias", 20)
    assert "49,162 tokens" not in str(caught.value)  # Doubled once, never without an end.
    assert len(server.chat_requests) == 6


def test_a_model_that_does_not_reason_is_sent_the_same_bytes() -> None:
    with ModelServer(lambda body: "yes") as server:
        (reply,) = replies(server, "openai/gpt-4o-2024-08-06")
        body = server.chat_requests[0].body
    assert (body["max_tokens"], body["temperature"]) == (10, 0.0)
    assert not reply.asked


def test_options_reach_the_provider() -> None:
    with ModelServer() as server:
        replies(
            server,
            "openai/local",
            temperature=0.5,
            top_p=0.9,
            model_seed=7,
            model_option=('chat_template_kwargs={"enable_thinking": false}', "cache=off"),
        )
        body = server.chat_requests[0].body
    wanted = {"temperature": 0.5, "top_p": 0.9, "seed": 7, "cache": "off"}
    assert {name: body[name] for name in wanted} == wanted
    assert body["chat_template_kwargs"] == {"enable_thinking": False}


@pytest.mark.parametrize("option", ["messages=[]", "seed=1", "cache"])
def test_options_of_the_harness_are_refused(option: str) -> None:
    with pytest.raises(HarnessError):
        ModelOptions(model_option=(option,))


OPENAI_TEMPERATURE = Refusal(
    400,
    "Unsupported value: 'temperature' does not support 0 with this model. Only the default (1) value is supported.",
    "unsupported_value",
    param="temperature",
)
OPENAI_LIMIT = Refusal(
    400,
    "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
    "unsupported_parameter",
    param="max_tokens",
)
AZURE_LIMIT = Refusal(400, "Unrecognized request argument supplied: max_completion_tokens")
VLLM_N = Refusal(
    400,
    "[{'type': 'extra_forbidden', 'loc': ('body', 'n'), 'msg': 'Extra inputs are not permitted', 'input': 1}]",
    flat=True,
)
SYSTEM = Refusal(
    400,
    "Unsupported value: 'messages[0].role' does not support 'system' with this model.",
    "unsupported_value",
    param="messages[0].role",
)
GEMMA_SYSTEM = Refusal(400, "System role not supported", flat=True)


def refusing(body: dict[str, Any], *refusals: tuple[str, Refusal]) -> Refusal | dict[str, str]:
    roles = [message["role"] for message in body["messages"]]
    return next((refusal for name, refusal in refusals if name in body or name in roles), {})


@pytest.mark.parametrize(
    ("spec", "refusals", "notes"),
    [
        (
            "openai/my-gpt5",
            (("temperature", OPENAI_TEMPERATURE), ("max_tokens", OPENAI_LIMIT)),
            ("temperature", "max_tokens"),
        ),
        ("openai/gpt-5-mini", (("max_completion_tokens", AZURE_LIMIT),), ("max_completion_tokens",)),
        ("openai/local", (("n", VLLM_N),), ("n",)),
        ("openai/local", (("system", SYSTEM),), ("the system role",)),
        ("openai/local", (("system", GEMMA_SYSTEM),), ("the system role",)),
    ],
)
def test_what_is_refused_is_left_out_once(
    spec: str, refusals: tuple[tuple[str, Refusal], ...], notes: tuple[str, ...], caplog: pytest.LogCaptureFixture
) -> None:
    with ModelServer(lambda body: "yes") as server:
        server.limits = lambda body: refusing(body, *refusals)
        asked = replies(server, spec, 3)
        last = server.chat_requests[-1].body
    assert [reply.text for reply in asked] == ["yes"] * 3
    # Each is refused once in all, and said once.
    assert len(server.chat_requests) == 3 + len(refusals)
    told = [record.getMessage() for record in caplog.records if record.name.startswith("longmemeval")]
    assert len(told) == len(refusals)
    for reply in asked:
        assert reply.asked
        assert len(reply.asked.deviations) == len(notes)
        assert all(f"refuses {name}:" in note for name, note in zip(notes, reply.asked.deviations, strict=True))
    if notes == ("the system role",):
        assert last["messages"] == [{"role": "user", "content": "Be short.\n\nYes or no?"}]


@pytest.mark.parametrize("field", ["temperature", "reasoning_effort"])
def test_what_the_user_asked_for_is_not_left_out(field: str) -> None:
    with ModelServer() as server:
        server.limits = lambda body: (
            Refusal(400, f"Unsupported parameter: '{field}'", param=field) if field in body else {}
        )
        flag = field.replace("_", "-")
        chosen: dict[str, Any] = {field: 0.5 if field == "temperature" else "high"}
        with pytest.raises(FatalModelError, match=f"Leave out --{flag}"):
            replies(server, "openai/local", **chosen)


def test_another_refusal_stays_one() -> None:
    with ModelServer() as server:
        server.limits = lambda body: Refusal(400, "The text breaks a rule about violence.")
        with pytest.raises(ModelError, match="violence"):
            replies(server, "openai/local")
        assert len(server.chat_requests) == 1
