"""`model-calls.jsonl`: every model call of a memory system from outside, as it was on the wire; no keys, no texts."""

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
"""The name of the file: in the part of a fixture, and in the folder of a run."""

Stage = Literal["prepare", "search"]
CallKind = Literal["chat", "responses", "embeddings"]


class ModelCall(Struct, frozen=True, omit_defaults=True):
    """One line: a call that was answered, or failed for good."""

    stage: Stage
    scope: str
    """The history, by its opaque name."""
    kind: CallKind
    model: str
    """Who was asked."""
    asked: str = ""
    """The name that the memory system gave, where it is another one."""
    served_model: str = ""
    """The name in the server's reply."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    texts: int = 0
    """Of embeddings."""
    cached: bool = False
    """Whether nobody had to be asked."""
    cost_usd: float | None = 0.0
    """None: not known."""
    milliseconds: float = 0.0
    """Until the memory system had its reply."""
    request_sha256: str = ""
    attempt: str = ""
    """Calls of one begun `prepare` or `run` have the same."""
    haystack_id: str = ""
    """In the folder of a run."""
    error: str = ""


class CallSums(Struct, frozen=True):
    """What calls come to, the cached ones too."""

    calls: int = 0
    """Of chat models."""
    cached_calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    embedding_calls: int = 0
    embedding_texts: int = 0
    embedding_tokens: int = 0
    cost_usd: float = 0.0
    unpriced_calls: int = 0
    failed_calls: int = 0
    milliseconds: float = 0.0

    @property
    def usage(self) -> Usage:
        """Of the chat model and paid embeddings."""
        return Usage(
            calls=self.calls,
            cached_calls=self.cached_calls,
            prompt_tokens=self.prompt_tokens,
            completion_tokens=self.completion_tokens,
            cost_usd=self.cost_usd,
            unpriced_calls=self.unpriced_calls,
        )


_APPENDING = Lock()
"""Histories of one run share a file."""
_awaited = Counter[Path]()
"""Calls whose replies have not come yet, by the file they will be in; held by the same lock."""
_LOOK_S = 0.02


class CallFile:
    """Appends calls to a file, each as one line; safe in several threads and processes.

    Args:
        path: the file, made with the first call; None: nothing is written.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path

    @contextmanager
    def awaited(self) -> Iterator[None]:
        """Enclose a call that will be written down; `all_written` waits for it, whoever asked may be gone."""
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
    """The calls in a file; none where there is no file. A line that was never finished is passed over."""
    if not path.exists():
        return []
    return list(decode_shared(path.read_bytes(), ModelCall))


def sums(calls: Iterable[ModelCall]) -> CallSums:
    """What the calls of histories took, each counted once.

    A call that an earlier attempt had already made comes from the cache when a stopped `prepare` goes on; it counts as
    the one it repeats. A call that the memory system itself repeats counts again.
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
        if call.kind == "embeddings":
            total["embedding_calls"] += 1
            total["embedding_texts"] += call.texts
            total["embedding_tokens"] += call.prompt_tokens
        else:
            total["calls"] += 1
            total["cached_calls"] += call.cached
            total["prompt_tokens"] += call.prompt_tokens
            total["completion_tokens"] += call.completion_tokens
    return msgspec.convert(total, CallSums, strict=False)
