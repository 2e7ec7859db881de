"""Which addresses can be called, and how user information goes into a header."""

import pytest

from longmemeval.core.secrets.redaction import Address, fault_of, split_address
from longmemeval.errors import FatalModelError
from longmemeval.llm.options import ModelOptions
from longmemeval.llm.registry import load_chat_model


@pytest.mark.parametrize(
    ("address", "what"),
    [
        ("http://localhost:8000/v1", None),
        ("https://user:p%2Fw@host.example/v1/", None),
        ("https://user@[::1]:8443", None),
        ("https://user:p@w@host/v1", None),
        ("localhost:8000/v1", "is not a web address"),
        ("ftp://host/v1", "is not a web address"),
        ("http://", "is not a web address"),
        ("http://host:port/v1", "is not a web address"),
        ("http://host:0/v1", "is not a web address"),
        ("http://[::1", "is not a web address"),
        ("http://user:p/w@host/v1", "has a '/', '?', '#' or '@' in its user information"),
        ("http://user:12/w@host/v1", "has a '/', '?', '#' or '@' in its user information"),
        ("http://user:p#w@host/v1", "has a '/', '?', '#' or '@' in its user information"),
        ("http://host/v1?key=abc", "has a query or a fragment, which calls to a model cannot carry"),
        ("http://user:pw@host/v1#x", "has a query or a fragment, which calls to a model cannot carry"),
    ],
)
def test_what_can_be_called(address: str, what: str | None) -> None:
    fault = fault_of(address)
    assert (fault and fault.what) == what


@pytest.mark.parametrize(
    ("address", "split"),
    [
        ("http://host:8000/v1/", Address("http://host:8000/v1/", {})),
        # RFC 7617's own example: "Aladdin:open sesame".
        (
            "https://Aladdin:open%20sesame@host/v1",
            Address("https://host/v1", {"Authorization": "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="}),
        ),
        ("https://token@host:1/v1", Address("https://host:1/v1", {"Authorization": "Basic dG9rZW46"})),
    ],
)
def test_user_information_becomes_a_header(address: str, split: Address) -> None:
    assert split_address(address) == split


@pytest.mark.slow
def test_provider_that_would_not_send_it_is_refused_before_the_first_call() -> None:
    options = ModelOptions(api_base="http://user:secret-pw-1@127.0.0.1:9/v1")
    with pytest.raises(FatalModelError, match="hosted_vllm cannot carry the user information") as refused:
        load_chat_model("hosted_vllm/llama", options)
    assert "openai/llama" in refused.value.fix
    assert "secret-pw-1" not in str(refused.value)
    assert load_chat_model("ollama_chat/llama", options).spec == "ollama_chat/llama"
