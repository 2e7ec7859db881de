"""LiteLLM, set up once and loaded on demand; and the prices in its table on disk."""

import functools
import importlib
import logging
import math
import os
import warnings
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from types import ModuleType
from typing import Any, NamedTuple

from longmemeval.core.on_demand import without_collector


@functools.cache
def load_litellm() -> ModuleType:
    """Load LiteLLM without telemetry, log output, or a network call for prices; the first call takes seconds."""
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    # Raised by LiteLLM's own type definitions when an Ollama model is first used; users can do nothing about it.
    warnings.filterwarnings("ignore", message=".*`ReadOnly` qualifier", category=UserWarning)
    # Raised when a call is cancelled between two of LiteLLM's own steps.
    warnings.filterwarnings("ignore", message="coroutine '.*completion' was never awaited", category=RuntimeWarning)
    # Garbage collection would scan the 400,000 objects several times while they load, and again and again during
    # calls: each scan stops everything for a quarter of a second.
    with without_collector(for_good=True):
        litellm = importlib.import_module("litellm")
    vars(litellm).update(telemetry=False, suppress_debug_info=True)
    _log_only_for_listeners(litellm)
    # Failures reach the user as one of our errors; the library's log would report them twice, keys included.
    logging.getLogger("LiteLLM").setLevel(logging.CRITICAL + 1)
    # One task writes LiteLLM's own log and is dropped whenever another event loop calls; asyncio would report that.
    logging.getLogger("asyncio").addFilter(lambda record: "LoggingWorker" not in record.getMessage())
    return litellm


_LISTENERS = ("callbacks", "success_callback", "_async_success_callback")


def _log_only_for_listeners(litellm: ModuleType) -> None:
    """Make LiteLLM prepare the log entry of a call only if something is registered to receive it.

    It would otherwise do so in the event loop after each call, while other calls are being timed. A LiteLLM version
    that logs in another way is left alone.
    """
    worker: Any = None
    with suppress(ImportError):
        module = importlib.import_module(f"{litellm.__name__}.litellm_core_utils.logging_worker")
        worker = getattr(module, "GLOBAL_LOGGING_WORKER", None)
    usual: Callable[..., object] | None = getattr(worker, "ensure_initialized_and_enqueue", None)
    if usual is None:
        return

    def enqueue(async_coroutine: Coroutine[object, object, object]) -> None:
        if any(getattr(litellm, name, None) for name in _LISTENERS):
            usual(async_coroutine)
        else:
            async_coroutine.close()

    worker.ensure_initialized_and_enqueue = enqueue


def price(model: str, prompt_tokens: int, completion_tokens: int = 0) -> float | None:
    """Return the US dollars for a call of `model`; None when the table has no price for it."""
    rates = _rates(model)
    parts = (
        rates.of(prompt_tokens, completion_tokens) if rates else _look_up_price(model, prompt_tokens, completion_tokens)
    )
    return sum(parts) if parts else None


class _Rates(NamedTuple):
    """US dollars per token, independent of the number of tokens and the time of day."""

    prompt: float
    completion: float

    def of(self, prompt_tokens: int, completion_tokens: int) -> tuple[float, float]:
        return prompt_tokens * self.prompt, completion_tokens * self.completion


_MANY_TOKENS = 10_000_000
"""More tokens than any threshold at which a model's price changes."""


@functools.lru_cache(256)
def _rates(model: str) -> _Rates | None:
    """Return the rates of a model, determined once since LiteLLM's look-up takes half a millisecond.

    None if every call needs a look-up.
    """
    prompt, completion = _look_up_price(model, 1, 0), _look_up_price(model, 0, 1)
    if prompt is None or completion is None or _depends_on_time(model):
        return None
    rates = _Rates(prompt[0], completion[1])
    many = _look_up_price(model, _MANY_TOKENS, _MANY_TOKENS) or (math.nan, math.nan)
    alike = map(math.isclose, many, rates.of(_MANY_TOKENS, _MANY_TOKENS))
    return rates if all(alike) else None


def _depends_on_time(model: str) -> bool:
    return bool(load_litellm().get_model_info(model).get("off_peak_pricing"))


def _look_up_price(model: str, prompt_tokens: int, completion_tokens: int) -> tuple[float, float] | None:
    """Look up LiteLLM's price of the prompt and of the completion; None when its table has none."""
    try:
        prompt, completion = load_litellm().cost_per_token(
            model=model, prompt_tokens=prompt_tokens, completion_tokens=completion_tokens
        )
    except Exception:
        # An unknown model raises one of several exceptions, bare `Exception` among them.
        return None
    return float(prompt), float(completion)


class BatchPrice(NamedTuple):
    """LiteLLM's price of a model's batches."""

    is_known: bool
    """True if its table has a price for batches; otherwise half the ordinary price is assumed."""
    dollars: float


def batch_price(model: str, usage: Mapping[str, Any]) -> BatchPrice | None:
    """Return the US dollars for a call of `model` in a batch; None when the table has no price for it at all.

    Args:
        usage: usage of the call, in OpenAI's form.
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
        # As in `_look_up_price`: any exception may be raised for a model that LiteLLM knows too little about.
        return None
    return BatchPrice(table.get("input_cost_per_token_batches") is not None, float(dollars))


def vector_length(model: str) -> int | None:
    """Return the dimension of an embedding model's vectors; None when the table does not give it."""
    entry = load_litellm().model_cost.get(model) or {}
    length = entry.get("output_vector_size")
    return length if isinstance(length, int) else None
