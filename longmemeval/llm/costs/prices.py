"""LiteLLM, set up once and loaded only when it is asked for; and the prices in its table on disk."""

import functools
import gc
import importlib
import logging
import math
import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType
from typing import Any, NamedTuple


@contextmanager
def without_collector() -> Iterator[None]:
    """Loads what stays as long as the process does.

    The garbage collector would look through LiteLLM's 400,000 objects several times while they are loaded, and then
    again and again while calls are made: a quarter of a second each time, in which everything stops.
    """
    usual = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if usual:
            gc.enable()


@functools.cache
def load_litellm() -> ModuleType:
    """LiteLLM without telemetry, chatter, or a network call for its price table; the first call takes seconds."""
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    # Said by its own type definitions when a model of Ollama is first used; nothing a user could do.
    warnings.filterwarnings("ignore", message=".*`ReadOnly` qualifier", category=UserWarning)
    # Said when a call is cancelled between two of LiteLLM's own steps.
    warnings.filterwarnings("ignore", message="coroutine '.*completion' was never awaited", category=RuntimeWarning)
    with without_collector():
        litellm = importlib.import_module("litellm")
    vars(litellm).update(telemetry=False, suppress_debug_info=True)
    # What goes wrong reaches the user as one of our errors; the library's log would report it twice, keys included.
    logging.getLogger("LiteLLM").setLevel(logging.CRITICAL + 1)
    # Its own log is kept by one task, which it drops whenever another event loop calls; asyncio would report that.
    logging.getLogger("asyncio").addFilter(lambda record: "LoggingWorker" not in record.getMessage())
    return litellm


def price(model: str, prompt_tokens: int, completion_tokens: int = 0) -> float | None:
    """US dollars for a call of `model`; None when the table has no price for it."""
    rates = _rates(model)
    parts = rates.of(prompt_tokens, completion_tokens) if rates else _asked(model, prompt_tokens, completion_tokens)
    return sum(parts) if parts else None


class _Rates(NamedTuple):
    """US dollars per token, whatever the number of tokens and the time of day."""

    prompt: float
    completion: float

    def of(self, prompt_tokens: int, completion_tokens: int) -> tuple[float, float]:
        return prompt_tokens * self.prompt, completion_tokens * self.completion


_MANY_TOKENS = 10_000_000
"""More than any length from which a model has another price."""


@functools.lru_cache(256)
def _rates(model: str) -> _Rates | None:
    """Found out once for each model, as LiteLLM's look-up takes half a millisecond; None where a look-up is needed."""
    prompt, completion = _asked(model, 1, 0), _asked(model, 0, 1)
    if prompt is None or completion is None or _depends_on_time(model):
        return None
    rates = _Rates(prompt[0], completion[1])
    many = _asked(model, _MANY_TOKENS, _MANY_TOKENS) or (math.nan, math.nan)
    alike = map(math.isclose, many, rates.of(_MANY_TOKENS, _MANY_TOKENS))
    return rates if all(alike) else None


def _depends_on_time(model: str) -> bool:
    return bool(load_litellm().get_model_info(model).get("off_peak_pricing"))


def _asked(model: str, prompt_tokens: int, completion_tokens: int) -> tuple[float, float] | None:
    """LiteLLM's price of the prompt and of the completion; None when its table has none."""
    try:
        prompt, completion = load_litellm().cost_per_token(
            model=model, prompt_tokens=prompt_tokens, completion_tokens=completion_tokens
        )
    except Exception:
        # An unknown model raises one of several kinds, the bare one among them.
        return None
    return float(prompt), float(completion)


class BatchPrice(NamedTuple):
    """What LiteLLM says of batches of a model."""

    is_known: bool
    """Whether its table has a price for batches; else half the ordinary price is assumed."""
    dollars: float


def batch_price(model: str, usage: Mapping[str, Any]) -> BatchPrice | None:
    """US dollars for a call of `model` in a batch; None when the table has no price for the model at all.

    Args:
        model: its spec.
        usage: of the call, in OpenAI's shape.
    """
    litellm = load_litellm()
    if price(model, 1) is None:
        return None
    name, provider, _, _ = litellm.get_llm_provider(model=model)
    try:
        dollars = sum(
            litellm.cost_calculator.batch_cost_calculator(
                litellm.Usage(**usage), model=name, custom_llm_provider=provider
            )
        )
        table = litellm.get_model_info(model=name, custom_llm_provider=provider)
    except Exception:
        # As with `_asked`: any kind may be raised for a model it knows too little of.
        return None
    return BatchPrice(table.get("input_cost_per_token_batches") is not None, float(dollars))


def vector_length(model: str) -> int | None:
    """How many numbers an embedding model gives; None when the table does not say."""
    entry = load_litellm().model_cost.get(model) or {}
    length = entry.get("output_vector_size")
    return length if isinstance(length, int) else None
