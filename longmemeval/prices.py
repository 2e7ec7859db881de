"""LiteLLM, set up once and loaded only when it is asked for; and the prices in its table on disk."""

import functools
import gc
import importlib
import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType


@contextmanager
def without_collector() -> Iterator[None]:
    """Loads what stays as long as the process does.

    The garbage collector would look through LiteLLM's 400,000 objects several times while they are loaded, and then
    again and again while calls are made: a quarter of a second each time, in which everything stands still.
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
    # What goes wrong reaches the user as one of our errors; the library's log would tell it twice, keys included.
    logging.getLogger("LiteLLM").setLevel(logging.CRITICAL + 1)
    # Its own log is kept by one task, which it drops whenever another event loop calls; asyncio would tell of that.
    logging.getLogger("asyncio").addFilter(lambda record: "LoggingWorker" not in record.getMessage())
    return litellm


def price(model: str, prompt_tokens: int, completion_tokens: int = 0) -> float | None:
    """US dollars for a call of `model`; None when the table has no price for it."""
    litellm = load_litellm()
    try:
        prompt, completion = litellm.cost_per_token(
            model=model, prompt_tokens=prompt_tokens, completion_tokens=completion_tokens
        )
    except Exception:
        # An unknown model raises one of several kinds, the bare one among them.
        return None
    return float(prompt + completion)


def vector_length(model: str) -> int | None:
    """How many numbers an embedding model gives; None when the table does not say."""
    entry = load_litellm().model_cost.get(model) or {}
    length = entry.get("output_vector_size")
    return length if isinstance(length, int) else None
