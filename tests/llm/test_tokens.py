"""Counting tokens without a network."""

import json
import subprocess
import sys
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longmemeval.errors import FatalModelError
from longmemeval.llm.tokens import Counted, TiktokenCounter, TokenCounter, context_window, token_counter
from tests.conftest import real_file
from tests.support import IN_PROPORTION, examples, growth


@pytest.mark.parametrize(
    ("spec", "name"),
    [
        ("openai/gpt-4o", "tiktoken/o200k_base"),
        ("openai/gpt-4o-2024-08-06", "tiktoken/o200k_base"),
        ("openrouter/openai/gpt-4o", "tiktoken/o200k_base"),
        ("openai/gpt-4", "tiktoken/cl100k_base"),
        ("ollama/llama3.1", "tiktoken/cl100k_base (in place of ollama/llama3.1)"),
        ("openai/davinci", "tiktoken/cl100k_base (in place of r50k_base)"),
        ("offline/extractive", "characters/4"),
        ("offline/scripted:answers.jsonl", "characters/4"),
    ],
)
def test_counter_says_how_it_counts(spec: str, name: str) -> None:
    assert token_counter(spec).name == name


@pytest.mark.parametrize(("text", "tokens"), [("", 0), ("a", 1), ("abcd", 1), ("abcde", 2), ("\U0001f600" * 9, 3)])
def test_characters(text: str, tokens: int) -> None:
    assert token_counter("offline/extractive").count(text) == tokens


def test_known_counts() -> None:
    # "hello world" is two tokens in both encodings; "antidisestablishmentarianism" is 6 in both.
    for spec in ("openai/gpt-4o", "openai/gpt-4"):
        assert token_counter(spec).count("hello world") == 2
        assert token_counter(spec).count("") == 0


def test_encodings_differ() -> None:
    text = "\u0928\u092e\u0938\u094d\u0924\u0947 \u0926\u0941\u0928\u093f\u092f\u093e"
    assert token_counter("openai/gpt-4o").count(text) < token_counter("openai/gpt-4").count(text)


def test_special_tokens_in_data_are_plain_text() -> None:
    assert token_counter("openai/gpt-4o").count("<|endoftext|>") > 1


def whole(counter: TokenCounter, prompt: str) -> int:
    """The count of `prompt` by an encoding that knows nothing of it."""
    assert isinstance(counter, TiktokenCounter)
    return len(counter.encoding.encode(prompt, disallowed_special=()))


def in_parts(counter: TokenCounter, prompt: str, texts: Sequence[str]) -> Counted:
    return counter.counted_whole(prompt, texts, list(map(counter.counted, texts)))


@pytest.mark.slow
@pytest.mark.parametrize("spec", ["openai/gpt-4o", "openai/gpt-4"])
@settings(max_examples=examples(300))
@given(
    frames=st.lists(st.text(alphabet="ab B'.:/\n\t 1\u00e9\u0928", max_size=8), min_size=6, max_size=6),
    texts=st.lists(st.text(alphabet="ab B'.:/\n\t 1\u00e9\u0928", max_size=60), min_size=5, max_size=5),
    start=st.integers(0, 6),
)
def test_a_prompt_counts_the_same_when_its_texts_are_known(
    spec: str, frames: list[str], texts: list[str], start: int
) -> None:
    counter = token_counter(spec)
    prompt = frames[0] + "".join(text.strip() + frame for text, frame in zip(texts, frames[1:], strict=True))
    # Also where texts are not there, or in another order.
    others = [*texts[start:], *texts[:start], "a text that is not there"]
    assert in_parts(counter, prompt, texts).tokens == in_parts(counter, prompt, others).tokens == whole(counter, prompt)
    # A whole is a part of another one.
    history = prompt[len(frames[0]) :]
    counted = in_parts(counter, history, texts)
    assert counted == counter.counted(history)
    assert counter.counted_whole(prompt, [history], [counted]).tokens == whole(counter, prompt)


@pytest.mark.slow
@pytest.mark.parametrize("spec", ["openai/gpt-4o", "openai/gpt-4"])
def test_a_real_history_is_counted_once(spec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    record = json.loads(real_file("longmemeval_e47becba.json").read_text())[0]
    texts = [turn["content"] for session in record["haystack_sessions"] for turn in session]
    prompt = "The history:\n" + "\n".join(f"user: {text.strip()}" for text in texts) + "\nAnswer now."
    counter = token_counter(spec)
    assert isinstance(counter, TiktokenCounter)
    expected = whole(counter, prompt)
    encoded: list[int] = []
    plain = TiktokenCounter.encode_count

    def spied(self: TiktokenCounter, text: str) -> int:
        encoded.append(len(text))
        return plain(self, text)

    monkeypatch.setattr(TiktokenCounter, "encode_count", spied)
    for _ in range(2):
        assert sum(map(counter.count, texts)) == sum(whole(counter, text) for text in texts)
        assert in_parts(counter, prompt, texts).tokens == expected
    assert sum(encoded) < 1.25 * sum(map(len, texts))


@pytest.mark.thorough
def test_long_histories_are_counted_quickly() -> None:
    counter = token_counter("openai/gpt-4o")
    text = "I went to the market on Sunday, and bought three kinds of cheese. " * 7600
    assert len(text) > 500_000
    assert 100_000 < counter.count(text) < 150_000
    assert growth(lambda size: counter.count(text[:size]), len(text) // 4) < IN_PROPORTION


def test_counting_needs_no_network() -> None:
    script = """
import os, socket, sys
def refuse(*arguments, **options): raise AssertionError("network")
socket.socket.connect = socket.getaddrinfo = refuse
from longmemeval.llm.tokens import token_counter
print(token_counter("openai/gpt-4o").count("hello world"), "litellm" in sys.modules)
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        timeout=200,
        check=True,
        env={"HOME": "/nowhere"},
    )
    assert done.stdout == "2 False\n"


def test_context_window_comes_from_the_table() -> None:
    assert context_window("openai/gpt-4o") == 128_000
    assert context_window("gpt-4o") == 128_000
    assert context_window("openai/no-such-model") is None
    assert context_window("offline/extractive") is None


def test_context_window_of_a_misspelt_provider_is_refused() -> None:
    with pytest.raises(FatalModelError, match="openai"):
        context_window("opnai/gpt-4o")
