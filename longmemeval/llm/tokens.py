"""Counting tokens the way a chat model does, as far as that can be known without a network."""

import importlib.util
import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from longmemeval.llm.registry import is_offline

if TYPE_CHECKING:
    from tiktoken import Encoding

_FALLBACK = "cl100k_base"
_CACHE_FILES = {
    "cl100k_base": "9b5ad71b2ce5302211f9c61530b329a4922fc6a4",
    "o200k_base": "fb374d419588a4632f3f557e76b4b70aebbca790",
    "o200k_harmony": "fb374d419588a4632f3f557e76b4b70aebbca790",
}
"""The files LiteLLM brings along, named as tiktoken names them: SHA-1 of the address an encoding is published at."""


class TokenCounter(Protocol):
    """Counts the tokens of a text. `name` goes into the manifest: numbers of two counters do not compare."""

    @property
    def name(self) -> str:
        """How tokens are counted, e.g. `tiktoken/o200k_base`."""
        ...

    def count(self, text: str) -> int:
        """Tokens in `text`; 0 for an empty one."""
        ...


def token_counter(spec: str) -> TokenCounter:
    """The counter for a chat model.

    Offline models get a quarter of the characters, a rule of thumb for English. Others get the encoding that tiktoken
    names for them, or `cl100k_base` where it names none or its file is not at hand; `name` then says so.
    """
    if is_offline(spec):
        return CharacterCounter()
    from tiktoken import encoding_name_for_model

    model = spec.rsplit("/", 1)[-1]
    try:
        wanted = encoding_name_for_model(model)
    except KeyError:
        return TiktokenCounter(_encoding(_FALLBACK), stands_for=spec)
    if not (_bundled_files() / _CACHE_FILES.get(wanted, "missing")).is_file():
        return TiktokenCounter(_encoding(_FALLBACK), stands_for=wanted)
    return TiktokenCounter(_encoding(wanted))


def context_window(spec: str) -> int | None:
    """The most prompt tokens the model takes, by LiteLLM's table on disk; None when unknown and for offline models.

    Raises:
        FatalModelError: no such provider.
    """
    if is_offline(spec):
        return None
    from longmemeval.llm.providers import table_entry

    entry = table_entry(spec)
    window = entry.get("max_input_tokens") if entry is not None else None
    return int(window) if window else None


class CharacterCounter:
    """A quarter of the characters, rounded up."""

    name = "characters/4"

    def count(self, text: str) -> int:
        """Tokens in `text`, by rule of thumb."""
        return math.ceil(len(text) / 4)


class TiktokenCounter:
    """Tokens of one of OpenAI's encodings. Text that looks like a special token counts as plain text.

    Args:
        encoding: the encoding.
        stands_for: the model or encoding whose own tokens are not known; empty when the encoding is the right one.
    """

    def __init__(self, encoding: "Encoding", *, stands_for: str = "") -> None:
        self._encoding = encoding
        self.name = f"tiktoken/{encoding.name}" + (f" (in place of {stands_for})" if stands_for else "")

    def count(self, text: str) -> int:
        """Tokens in `text`."""
        return len(self._encoding.encode(text, disallowed_special=()))


def _bundled_files() -> Path:
    """The folder of encodings inside LiteLLM, found without importing it."""
    found = importlib.util.find_spec("litellm")
    folder = found.submodule_search_locations[0] if found and found.submodule_search_locations else ""
    return Path(folder) / "litellm_core_utils" / "tokenizers"


def _encoding(name: str) -> "Encoding":
    from tiktoken import get_encoding

    # tiktoken would otherwise download the file on first use.
    os.environ["TIKTOKEN_CACHE_DIR"] = str(_bundled_files())
    return get_encoding(name)
