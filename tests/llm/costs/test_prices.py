"""Prices without LiteLLM's look-up are LiteLLM's prices."""

import math
from collections.abc import Callable
from typing import Any

import pytest

from longmemeval.llm.costs import price
from longmemeval.llm.litellm_package import load_litellm

TOKENS = [(0, 0), (1000, 500), (127_999, 1), (128_001, 9), (200_001, 3_000), (272_001, 0), (1_000_001, 77)]


def looked_up(model: str, prompt_tokens: int, completion_tokens: int) -> float:
    parts = load_litellm().cost_per_token(model=model, prompt_tokens=prompt_tokens, completion_tokens=completion_tokens)
    return float(sum(parts))


@pytest.mark.slow
def test_prices_are_those_of_the_table() -> None:
    table: dict[str, dict[str, Any]] = load_litellm().model_cost
    tiers = [name for name, entry in table.items() if any("_above_" in key for key in entry)]
    priced = [name for name, entry in table.items() if entry.get("mode") in ("chat", "embedding")]
    for model in ["openai/gpt-4o", "gpt-4o-mini", "claude-sonnet-4-5", *tiers[::40], *priced[::100]]:
        if price(model, 1) is not None:
            for tokens in TOKENS:
                assert math.isclose(price(model, *tokens) or 0.0, looked_up(model, *tokens)), (model, tokens)


def test_a_price_is_looked_up_once_where_it_does_not_change(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []
    plain: Callable[..., tuple[float, float]] = load_litellm().cost_per_token

    def counted(*, model: str, prompt_tokens: int, completion_tokens: int) -> tuple[float, float]:
        looked.append(model)
        return plain(model=model, prompt_tokens=prompt_tokens, completion_tokens=completion_tokens)

    monkeypatch.setattr(load_litellm(), "cost_per_token", counted)
    for tokens in range(1, 50):
        # Dearer from 200,000 tokens on: asked for every time.
        assert price("gpt-4.1-nano", tokens, 7) == pytest.approx(tokens * 1e-7 + 7 * 4e-7)
        assert price("gemini/gemini-2.5-pro", tokens + 200_000) == pytest.approx((tokens + 200_000) * 2.5e-6)
    assert looked.count("gpt-4.1-nano") < 5
    assert looked.count("gemini/gemini-2.5-pro") >= 49


def test_a_stranger_has_no_price() -> None:
    assert price("openai/my-own-llama", 1000) is None
