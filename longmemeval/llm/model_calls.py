"""`model-calls.jsonl`: every model call of searching (external memories, rerankers); no keys, no texts."""

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Literal

import msgspec
from msgspec import Struct

from longmemeval.core.journal import append_shared, decode_shared
from longmemeval.records import Usage

CALLS = "model-calls.jsonl"
"""Name of the file, both in the part of a fixture and in the folder of a run."""

Stage = Literal["prepare", "search"]
CallKind = Literal["chat", "responses", "embeddings", "rerank"]


class ModelCall(Struct, frozen=True, omit_defaults=True):
    """One line: a call that was answered, or failed for good."""

    stage: Stage
    scope: str
    """Opaque name of the history."""
    kind: CallKind
    model: str
    """The model that was called."""
    asked: str = ""
    """Name that the memory system asked for, if it differs."""
    served_model: str = ""
    """Name of the model in the server's reply."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    estimated: bool = False
    """True if the server did not count the tokens: they are our own count."""
    texts: int = 0
    """Number of texts, for embeddings and rerankers."""
    cached: bool = False
    """True if no model had to be called."""
    cost_usd: float | None = 0.0
    """Cost in US dollars; None if not known."""
    milliseconds: float = 0.0
    """Milliseconds until the memory system had its reply."""
    request_sha256: str = ""
    attempt: str = ""
    """Id shared by all calls of one start of `prepare` or `run`."""
    cut: str = ""
    """Finish reason of a reply that broke off; empty if it is whole."""
    haystack_id: str = ""
    """Id of the haystack; set only in the folder of a run."""
    error: str = ""


class CallSums(Usage, frozen=True):
    """The usage of calls: those of chat models and rerankers with their tokens, the cost of all, and other counts."""

    embedding_calls: int = 0
    embedding_texts: int = 0
    embedding_tokens: int = 0
    failed_calls: int = 0
    cut_calls: int = 0
    milliseconds: float = 0.0


_APPENDING = Lock()
"""Lock for appending: histories of one run share a file."""
_awaited = Counter[Path]()
"""Calls still waiting for their replies, by the file they will be written to; guarded by the same lock."""
_LOOK_S = 0.02


class CallFile:
    """Appends calls to a file, each as one line; safe in several threads and processes.

    Args:
        path: the file, created by the first call; None: nothing is written.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path

    @contextmanager
    def awaited(self) -> Iterator[None]:
        """Enclose a call that will be recorded: `all_written` waits for it, even if its caller is gone."""
        place = self._path.absolute() if self._path else Path()
        with _APPENDING:
            _awaited[place] += 1
        try:
            yield
        finally:
            with _APPENDING:
                _awaited[place] -= 1

    def append(self, call: ModelCall) -> None:
        """Append the record of one call."""
        if self._path is None:
            return
        with _APPENDING, self._path.open("a+b", buffering=0) as file:
            append_shared(file, call)


async def all_written(path: Path) -> None:
    """Wait until every call whose reply this process awaits is in the file."""
    while _awaited[path.absolute()]:
        await asyncio.sleep(_LOOK_S)


def read_calls(path: Path) -> list[ModelCall]:
    """Return the calls in a file; none if there is no file. An unfinished line is skipped."""
    if not path.exists():
        return []
    return list(decode_shared(path.read_bytes(), ModelCall))


def sums(calls: Iterable[ModelCall]) -> CallSums:
    """Sum up the calls of histories, each counted once.

    When a stopped `prepare` continues, a call that an earlier attempt had already made comes from the cache and counts
    as the call it repeats. A call that the memory system itself repeats counts again.
    """
    total: dict[str, float] = dict.fromkeys(CallSums.__struct_fields__, 0)
    made_by: dict[tuple[str, str], str] = {}
    for call in calls:
        if call.error:
            total["failed_calls"] += 1
            continue
        request = call.scope, call.request_sha256
        if call.cached and made_by.get(request, call.attempt) != call.attempt:
            continue
        made_by.setdefault(request, call.attempt)
        total["milliseconds"] += call.milliseconds
        total["cost_usd"] += call.cost_usd or 0.0
        total["unpriced_calls"] += call.cost_usd is None
        total["estimated_calls"] += call.estimated
        if call.kind == "embeddings":
            total["embedding_calls"] += 1
            total["embedding_texts"] += call.texts
            total["embedding_tokens"] += call.prompt_tokens
        else:
            total["calls"] += 1
            total["cached_calls"] += call.cached
            total["cut_calls"] += bool(call.cut)
            total["prompt_tokens"] += call.prompt_tokens
            total["completion_tokens"] += call.completion_tokens
    if not total["estimated_calls"]:
        del total["estimated_calls"]
    return msgspec.convert(total, CallSums, strict=False)
