"""Costs of calls, and receipts of paid ones."""

import asyncio
import functools
import importlib
import logging
import math
import os
import time
import warnings
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from itertools import count
from pathlib import Path
from threading import Lock
from types import ModuleType
from typing import Any, BinaryIO, NamedTuple

import msgspec
from msgspec import Struct, structs

from longmemeval.core.caches import SqliteCache
from longmemeval.core.journal import append_shared, decode_shared, locked
from longmemeval.core.on_demand import without_collector
from longmemeval.core.text.figures import in_dollars
from longmemeval.errors import HarnessError, SpendingLimitError
from longmemeval.llm.options import SpendingLimit
from longmemeval.records import Usage

__path__: list[str] = []
"""Names of version 0.2 below this one are found (`core/moved.py`)."""


# Spending on model calls: an account in a file, and a limit on it.
#
# Every attempt of a call is recorded before it is sent and when it has ended. Attempts in progress in a killed
# process count in full from then on, so that a limit holds over any number of starts, and over several processes.

SPENDING, JUDGES_SPENDING = "spending.jsonl", "spending-judges.jsonl"
"""File names of the account, next to the work it pays for, and of the account of a run's judges."""

_POLL_S = 0.05


class _Entry(Struct, frozen=True, omit_defaults=True):
    """One line: a session starts, an attempt is about to be sent, or it has ended."""

    session: str = ""
    limit_usd: float | None = None
    """With `session`: the limit of that session."""
    attempt: str = ""
    model: str = ""
    reserved_usd: float | None = None
    cost_usd: float | None = None
    failed: bool = False


class Spent:
    """The state of an account: sums over its lines."""

    def __init__(self) -> None:
        self.settled = 0.0
        self.limit: float | None = None
        """Limit of the newest session; None if it has none."""
        self.on_failures = 0.0
        self.under_way: dict[str, float] = {}
        self.lost: dict[str, float] = {}
        """Amounts reserved for attempts whose session ended before their outcome was known."""

    @property
    def spent(self) -> float:
        """US dollars of attempts that have ended, or whose process has ended."""
        return self.settled + sum(self.lost.values())

    @property
    def dollars(self) -> float:
        """US dollars, counting attempts in progress in full."""
        return self.spent + sum(self.under_way.values())

    def has(self, attempt: str) -> bool:
        """Return whether an attempt has yet to be settled."""
        return attempt in self.under_way or attempt in self.lost

    def add(self, entry: _Entry) -> None:
        """Add a line."""
        if entry.session:
            self.limit = entry.limit_usd
            self.lost |= self.under_way
            self.under_way.clear()
        elif entry.reserved_usd is not None:
            self.lost.pop(entry.attempt, None)
            self.under_way[entry.attempt] = entry.reserved_usd
        elif entry.cost_usd is not None and self.has(entry.attempt):
            self.under_way.pop(entry.attempt, None)
            self.lost.pop(entry.attempt, None)
            self.settled += entry.cost_usd
            self.on_failures += entry.cost_usd if entry.failed else 0.0

    def read(self, data: bytes) -> None:
        """Add the whole lines of a file."""
        # A half-written line comes from a killed process: its attempt was not sent, or is not known to have ended.
        for entry in decode_shared(data, _Entry):
            self.add(entry)


class Account:
    """Cost of one piece of work. Safe across threads, event loops and processes; copies share the file.

    Args:
        path: the file, created with the first attempt; None: in memory only.
        limit: maximum to spend; None: attempts are only recorded.
    """

    def __init__(self, path: Path | None, limit: SpendingLimit | None = None) -> None:
        self.path = path
        self.limit = limit
        self._opened = False
        self._lock = Lock()
        self._read = 0
        self._sums = Spent()
        self._names = (f"{os.getpid()}-{time.time_ns():x}-{number}" for number in count(1))

    def __reduce__(self) -> tuple[Any, ...]:
        return _copy, (self.path, self.limit)

    def open(self) -> None:
        """Start a session; otherwise the first attempt starts it.

        Attempts that an earlier session left unfinished count as spent.
        """
        with self._lock, self._file() as file:
            self._open(file)

    async def reserve(self, dollars: float, model: str, name: str = "") -> str:
        """Reserve the possible cost of an attempt; wait while attempts in progress may free enough.

        Args:
            dollars: maximum cost.
            model: for the record.
            name: name of an attempt that outlives this process; reserving it again counts once.

        Returns:
            The attempt's name, for `record_cost`.

        Raises:
            SpendingLimitError: no attempt is in progress, and too little is left.
            HarnessError: the account cannot be written.
        """
        while (reserved := self._reserved(dollars, model, name)) is None:
            await asyncio.sleep(_POLL_S)
        return reserved

    def reserve_blocking(self, dollars: float, model: str) -> str:
        """Reserve the possible cost of an attempt, in synchronous code; see `reserve`."""
        while (name := self._reserved(dollars, model)) is None:
            time.sleep(_POLL_S)
        return name

    def record_cost(self, name: str, dollars: float, *, failed: bool = False) -> None:
        """Replace the amount reserved for an attempt with its cost.

        Args:
            name: from `reserve`.
            dollars: its cost; for an attempt that may have been billed, the whole reserved amount. A settled
                attempt stays settled.
            failed: True if it produced no result.
        """
        with self._lock, self._file() as file:
            self._write(file, _Entry(attempt=name, cost_usd=dollars, failed=failed))

    def room(self) -> float:
        """Return the US dollars left of the limit; infinite without one."""
        if self.limit is None:
            return math.inf
        with self._lock, self._file() as file:
            self._open(file)
            return self.limit.dollars - self.limit.elsewhere - self._sums.dollars

    def _reserved(self, dollars: float, model: str, name: str = "") -> str | None:
        """Return the name of the attempt that may now be made; None if it has to wait."""
        with self._lock, self._file() as file:
            self._open(file)
            if self.limit and not self._fits(dollars - self._sums.lost.get(name, 0.0), self.limit):
                if self._sums.under_way:
                    return None
                raise self._exhausted(dollars, self.limit)
            name = name or next(self._names)
            self._write(file, _Entry(attempt=name, model=model, reserved_usd=dollars))
            return name

    def _fits(self, dollars: float, limit: SpendingLimit) -> bool:
        committed = limit.elsewhere + self._sums.dollars
        # Sums of many small amounts are inexact in the last digits.
        return committed + dollars <= limit.dollars * (1 + 1e-9)

    def _exhausted(self, dollars: float, limit: SpendingLimit) -> SpendingLimitError:
        exact = partial(in_dollars, exact=True)
        spent = f"{exact(limit.elsewhere + self._sums.spent)} of {exact(limit.dollars)}"
        wasted = self._sums.on_failures + sum(self._sums.lost.values())
        failed = f", {exact(wasted)} of it on attempts that failed or have no known outcome" if wasted else ""
        return SpendingLimitError(
            f"Spending limit reached: {spent} spent{failed}; the next call could cost {exact(dollars)}",
            fix="Rerun the command with a higher --max-cost; it continues from here",
        )

    def _open(self, file: BinaryIO | None) -> None:
        if not self._opened:
            self._opened = True
            limit = self.limit.dollars if self.limit else None
            self._write(file, _Entry(session=str(os.getpid()), limit_usd=limit))

    @contextmanager
    def _file(self) -> Iterator[BinaryIO | None]:
        """Yield the file, if there is one. Under a limit it is locked and read to its end.

        Without a limit nothing depends on its content, and lines are only appended, each in one piece, so that several
        processes may do so concurrently.
        """
        if self.path is None:
            yield None
            return
        try:
            if not self._opened:
                self.path.parent.mkdir(parents=True, exist_ok=True)
            lock = locked(self.path, wait=True) if self.limit or not self._opened else nullcontext()
            with lock, self.path.open("a+b", buffering=0) as file:
                if self.limit:
                    self._catch_up(file)
                yield file
        except OSError as error:
            raise HarnessError(
                f"The account of call costs cannot be written: {error.strerror}",
                where=str(self.path),
                fix="Fix this and rerun the same command: finished work is kept",
            ) from error

    def _catch_up(self, file: BinaryIO) -> None:
        """Read the lines added to the file by any process; an incomplete last line is left for later."""
        file.seek(self._read)
        lines, end, _ = file.read().rpartition(b"\n")
        self._read += len(lines + end)
        self._sums.read(lines)

    def _write(self, file: BinaryIO | None, entry: _Entry) -> None:
        if file is None:
            self._sums.add(entry)
            return
        append_shared(file, entry)
        if self.limit:
            self._catch_up(file)


def spent_and_limit(*files: Path) -> tuple[float | None, float | None]:
    """Return the US dollars spent by the accounts in files, with attempts in progress in full, and the sum of limits.

    None for dollars if there is no file, and for the limit if no newest session has one.
    """
    accounts = list[Spent]()
    for path in filter(Path.exists, files):
        accounts.append(Spent())
        accounts[-1].read(path.read_bytes())
    limits = [spent.limit for spent in accounts if spent.limit is not None]
    return sum(spent.dollars for spent in accounts) if accounts else None, sum(limits) if limits else None


def spent_in(*files: Path) -> float:
    """Return the US dollars spent by the accounts in files, with attempts in progress in full."""
    return spent_and_limit(*files)[0] or 0.0


def limit_beside(limit: SpendingLimit | None, others: Iterable[Path]) -> SpendingLimit | None:
    """Return the limit for one of several accounts that share one.

    Args:
        limit: limit of all of them together; None: there is none.
        others: files of the other accounts.
    """
    return limit and structs.replace(limit, elsewhere=limit.elsewhere + spent_in(*others))


_copies: dict[tuple[Path | None, SpendingLimit | None], Account] = {}


def _copy(path: Path | None, limit: SpendingLimit | None) -> Account:
    """Return the account in another process: one object per file, in the session of its original process."""
    account = _copies.setdefault((path, limit), Account(path, limit))
    account._opened = True
    return account


# Costs of paid calls, stored with the results until a journal records them, in case the process is killed.

EMBEDDINGS, REPLIES = "embeddings.sqlite", "replies.sqlite"
"""Files of the caches, which also hold receipts."""


class Receipts:
    """The receipts of one piece of work, each stored in the same transaction as the result it paid for.

    Args:
        session: id of the command that makes the calls, by which its receipts are found again.
    """

    def __init__(self, session: str) -> None:
        self.session = session
        self._numbers: dict[str, list[int]] = {}

    def of(self, cache: str) -> tuple[int, ...]:
        """Return the numbers of the receipts written so far to the cache of that file name, for the journal."""
        return tuple(self._numbers.get(cache, ()))

    def store(self, cache: SqliteCache, values: dict[bytes, bytes], usage: Usage) -> None:
        """Store `values` in `cache` together with their cost.

        Raises:
            HarnessError: the cache cannot be written.
        """
        number = cache.put_many(values, receipt=(self.session, msgspec.json.encode(usage)))
        self._numbers.setdefault(cache.path.name, []).append(number)


def stored_receipts(cache: SqliteCache, sessions: set[str]) -> dict[int, Usage]:
    """Return the cost of the calls of `sessions` by receipt number, except for receipts that were dropped.

    Raises:
        HarnessError: the cache cannot be read.
    """
    stored = cache.receipts()
    return {
        number: msgspec.json.decode(content, type=Usage)
        for number, (session, content) in stored.items()
        if session in sessions
    }


# LiteLLM, set up once and loaded on demand; and the prices in its table on disk.


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
