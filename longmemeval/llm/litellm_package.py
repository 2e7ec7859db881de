"""LiteLLM: its table of models, read without importing it, and the library itself, loaded on demand."""

import functools
import importlib
import importlib.util
import logging
import os
import re
import sys
import warnings
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec

from longmemeval.core.on_demand import without_collector

Table = Mapping[str, Mapping[str, Any]]

_FILE = "model_prices_and_context_window_backup.json"
_NO_MODEL = "fallback_generalizations"


@functools.cache
def litellm_folder() -> Path:
    """Return the folder of LiteLLM's package."""
    spec = importlib.util.find_spec("litellm")
    return Path(spec.submodule_search_locations[0] if spec and spec.submodule_search_locations else "")


def model_table() -> Table:
    """Return LiteLLM's entries by model name: prices in USD, windows in tokens, `mode`, capabilities.

    If LiteLLM is loaded, this is its own table, to which users may have added models.
    """
    loaded: Table | None = getattr(sys.modules.get("litellm"), "model_cost", None)
    return loaded or _table_on_disk()


@functools.cache
def _table_on_disk() -> Table:
    with without_collector():
        table: dict[str, dict[str, Any]] = msgspec.json.decode((litellm_folder() / _FILE).read_bytes())
    table.pop(_NO_MODEL, None)
    return table


@functools.cache
def provider_names() -> frozenset[str]:
    """Return the names of all of LiteLLM's providers, read in the source where it lists them."""
    source = (litellm_folder() / "types" / "utils.py").read_text(encoding="utf-8")
    _, _, listed = source.partition("class LlmProviders(str, Enum):")
    names = re.findall(r'^    \w+ = "([^"]+)"', listed.partition("\n\n\n")[0], re.MULTILINE)
    return frozenset(names) or frozenset(str(known.value) for known in load_litellm().provider_list)


@functools.cache
def load_environment_file() -> None:
    """Load a `.env` file as LiteLLM does when it is imported; variables that are set keep their value."""
    if os.environ.get("LITELLM_MODE", "DEV") != "DEV" or "litellm" in sys.modules:
        return
    start = litellm_folder() if hasattr(sys.modules["__main__"], "__file__") else Path.cwd()
    for file in (folder / ".env" for folder in (start, *start.parents)):
        if file.is_file():
            from dotenv import load_dotenv

            load_dotenv(file)
            return


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
