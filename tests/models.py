"""Models for tests: one that says yes, one that must not be made, and real ones where they are at hand."""

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from longmemeval.llm.protocol import ChatModel, ChatReply, ChatRequest
from longmemeval.memory.configuration import MEMORIES, reranker_of, resolve_configuration
from longmemeval.records import Usage

PRESETS_HERE = [name for name in MEMORIES.built_in if not reranker_of(resolve_configuration(name))]
"""The built-in presets that need no model which may not be on this machine."""
_MINILM = Path(__file__).resolve().parents[1] / "models" / "minilm"


def minilm_folder() -> Path:
    """The local all-MiniLM-L6-v2 folder; skips the test without it unless REQUIRE_REAL_DATA=1."""
    if not _MINILM.is_dir():
        message = "there is no model at models/minilm: run scripts/get_minilm"
        if os.environ.get("REQUIRE_REAL_DATA") == "1":
            pytest.fail(message)
        pytest.skip(message)
    pytest.importorskip("fastembed", reason="fastembed is not installed: pip install 'longmemeval[local]'")
    return _MINILM


class ByLength:
    """A reranker that prefers short texts."""

    spec = fingerprint = "test/length"

    def scores(self, query: str, texts: Sequence[str]) -> NDArray[np.float64]:
        return -np.array([len(text) for text in texts], np.float64)


class Model:
    """Says yes to everything."""

    def __init__(self, spec: str) -> None:
        self.spec = spec

    async def complete(self, request: ChatRequest) -> ChatReply:
        return ChatReply("yes", "stop", Usage(calls=1))


def no_model(spec: str) -> ChatModel:
    """In place of one where none may be made."""
    raise AssertionError(f"made a model of {spec}")
