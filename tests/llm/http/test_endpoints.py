"""Where a model is served: by its provider, or wherever `--api-base` or the environment sends its calls."""

import pytest

from longmemeval.errors import FatalModelError
from longmemeval.llm.http.endpoints import OWN_ENDPOINT, endpoint, served_at
from longmemeval.llm.options import ModelOptions

MODEL = "openai/gpt-4o-2024-08-06"
LOCAL = "http://127.0.0.1:8000/v1"


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_BASE_URL", "OPENAI_API_BASE", "GROQ_API_BASE", "USE_LITELLM_PROXY"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("base", "address"),
    [
        (None, OWN_ENDPOINT),
        ("https://api.openai.com/v1", OWN_ENDPOINT),
        ("https://API.openai.com:443/v1/", OWN_ENDPOINT),
        ("http://api.openai.com/v1", "http://api.openai.com/v1"),
        ("https://api.openai.com.example.org/v1", "https://api.openai.com.example.org/v1"),
        ("https://api.openai.com:8443/v1", "https://api.openai.com:8443/v1"),
        ("https://api.openai.com/v2", "https://api.openai.com/v2"),
        (LOCAL, LOCAL),
        ("http://LocalHost:80/v1/", "http://localhost/v1"),
        ("https://user:pw@host.example/v1", "https://host.example/v1"),
    ],
)
def test_an_address_has_one_spelling_and_no_secrets(base: str | None, address: str) -> None:
    assert served_at(MODEL, ModelOptions(api_base=base)) == address


@pytest.mark.parametrize("name", ["OPENAI_BASE_URL", "OPENAI_API_BASE"])
def test_the_environment_sends_calls_elsewhere(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, LOCAL)
    assert (served_at(MODEL), served_at("gpt-4o-2024-08-06")) == (LOCAL, LOCAL)
    # The option counts before the environment.
    assert served_at(MODEL, ModelOptions(api_base="https://api.openai.com/v1")) == OWN_ENDPOINT
    monkeypatch.setenv(name, "https://api.openai.com/v1")
    assert served_at(MODEL) == OWN_ENDPOINT
    monkeypatch.setenv(name, "")
    assert (served_at(MODEL), endpoint(MODEL)) == (OWN_ENDPOINT, None)


def test_of_two_variables_the_one_that_litellm_takes_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_BASE", "http://second/v1")
    monkeypatch.setenv("OPENAI_BASE_URL", LOCAL)
    assert endpoint(MODEL) == LOCAL
    # That of another provider is not asked.
    assert served_at("gemini/gemini-2.5-flash") == OWN_ENDPOINT


def test_other_providers_have_addresses_too(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = "groq/llama-3.1-8b-instant"
    assert served_at(spec) == served_at(spec, ModelOptions(api_base="https://api.groq.com/openai/v1")) == OWN_ENDPOINT
    monkeypatch.setenv("GROQ_API_BASE", LOCAL)
    assert served_at(spec) == LOCAL


def test_a_proxy_of_litellm_is_not_the_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("USE_LITELLM_PROXY", "true")
    monkeypatch.setenv("LITELLM_PROXY_API_BASE", LOCAL)
    assert served_at(MODEL) == LOCAL


def test_offline_models_are_served_nowhere() -> None:
    assert served_at("offline/scripted:x.json", ModelOptions(api_base=LOCAL)) is None


def test_what_is_no_address_is_refused() -> None:
    with pytest.raises(FatalModelError, match="is not a web address"):
        served_at(MODEL, ModelOptions(api_base="localhost:8000"))
