"""Names of models: what is refused before any call, and what is only warned of."""

import subprocess
import sys
from pathlib import Path

import pytest

from longmemeval.errors import FatalModelError, HarnessError
from longmemeval.llm.options import ModelOptions
from longmemeval.llm.registry import load_chat_model, model_warning
from tests.server import ModelServer

LOCAL = ModelOptions("http://127.0.0.1:9/v1")


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GROQ_API_KEY"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("spec", "hint"),
    [
        ("opnai/gpt-4o", "'openai'"),
        ("antropic/claude-3-opus", "'anthropic'"),
        ("gpt-4oo", "'gpt-4o'"),
        ("zzzzqqqq", "PROVIDER/NAME"),
        ("", "PROVIDER/NAME"),
        ("offline/extractve", "'offline/extractive'"),
        ("offline/scriptd:answers.jsonl", "offline/scripted:FILE"),
        ("offline", "offline/extractive"),
    ],
)
def test_misspelt_model_is_refused_with_the_nearest(spec: str, hint: str) -> None:
    with pytest.raises(FatalModelError) as caught:
        load_chat_model(spec)
    assert hint in str(caught.value)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("spec", "variable"),
    [
        ("openai/gpt-4o", "OPENAI_API_KEY"),
        ("gpt-4o", "OPENAI_API_KEY"),
        ("anthropic/claude-x", "ANTHROPIC_API_KEY"),
        ("groq/some-model", "GROQ_API_KEY"),
    ],
)
def test_missing_key_is_named_with_the_ways_out(spec: str, variable: str) -> None:
    with pytest.raises(FatalModelError) as caught:
        load_chat_model(spec)
    message = str(caught.value)
    assert f"Set {variable}" in message
    assert "--api-base" in message
    assert "offline/extractive" in message


def test_own_endpoint_does_not_replace_the_key_of_another_protocol() -> None:
    with pytest.raises(FatalModelError, match="ANTHROPIC_API_KEY"):
        load_chat_model("anthropic/claude-x", LOCAL)


@pytest.mark.parametrize("spec", ["openai/anything", "custom_openai/anything", "litellm_proxy/anything"])
def test_own_endpoint_needs_no_key(spec: str) -> None:
    assert load_chat_model(spec, LOCAL).spec == spec


def test_model_at_home_needs_no_key() -> None:
    assert load_chat_model("ollama/llama3.1").spec == "ollama/llama3.1"


def test_key_in_the_environment_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-anything")
    assert load_chat_model("openai/a-model-of-next-week").spec == "openai/a-model-of-next-week"


def test_endpoint_without_a_scheme_is_refused() -> None:
    with pytest.raises(FatalModelError, match="http://"):
        load_chat_model("openai/gpt-4o", ModelOptions("localhost:8000"))


def test_embedding_model_cannot_chat() -> None:
    with pytest.raises(FatalModelError, match="embedding"):
        load_chat_model("openai/text-embedding-3-small", LOCAL)


def test_loading_makes_no_call() -> None:
    with ModelServer() as server:
        load_chat_model("openai/gpt-4o", ModelOptions(server.url))
        model_warning("openai/gpt-4oo", ModelOptions(server.url))
        assert server.requests == []


@pytest.mark.filterwarnings("ignore:.*ReadOnly")
def test_known_models_need_no_warning() -> None:
    assert model_warning("openai/gpt-4o") is None
    assert model_warning("ollama/llama3.1") is None
    assert model_warning("offline/extractive") is None


def test_unknown_name_is_warned_of_with_the_nearest() -> None:
    warning = model_warning("openai/gpt-4o-mni")
    assert warning is not None
    assert "not in the price table" in warning
    assert "gpt-4o-mini" in warning


def test_unknown_name_at_an_own_endpoint_gets_no_suggestion() -> None:
    warning = model_warning("openai/gpt-4o-mni", LOCAL)
    assert warning is not None
    assert "context window" in warning
    assert "did you mean" not in warning


def test_model_without_temperature_is_warned_of() -> None:
    warning = model_warning("openai/o3")
    assert warning is not None
    assert "temperature" in warning
    assert "price" not in warning


def test_scripted_file_is_read_when_loaded(tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match=r"gone\.jsonl"):
        load_chat_model(f"offline/scripted:{tmp_path / 'gone.jsonl'}")


def test_offline_models_load_no_heavy_library() -> None:
    script = """
import asyncio, sys
from longmemeval.llm.protocol import ChatRequest
from longmemeval.llm.registry import load_chat_model, model_warning
from longmemeval.llm.tokens import context_window, token_counter
model = load_chat_model("offline/extractive")
request = ChatRequest((), 5, question="Where did Ann move?", passages=("Ann did move to Rome.",))
assert asyncio.run(model.complete(request)).text == "Ann did move to Rome."
token_counter(model.spec).count("text"), context_window(model.spec), model_warning(model.spec)
print([name for name in ("litellm", "openai", "tiktoken", "httpx", "tenacity") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=200, check=True)
    assert done.stdout == "[]\n"
