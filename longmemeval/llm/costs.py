"""Costs of calls, and receipts of paid ones."""

import asyncio
import functools
import math
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from itertools import count
from pathlib import Path
from threading import Lock
from typing import Any, BinaryIO, NamedTuple

import msgspec
from msgspec import Struct, structs

from longmemeval.core.caches import SqliteCache
from longmemeval.core.journal import append_shared, decode_shared, locked
from longmemeval.core.text.figures import in_dollars
from longmemeval.errors import FatalModelError, HarnessError, SpendingLimitError
from longmemeval.llm.litellm_package import load_litellm, model_table
from longmemeval.llm.options import SpendingLimit, named
from longmemeval.llm.providers import has_price, is_unpriced, split_spec, table_entry
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


# Prices in LiteLLM's table.


class _Rates(NamedTuple):
    """US dollars per token, which depend neither on the time of day nor, up to `longest`, on the number of tokens."""

    prompt: float
    completion: float
    cached: float
    """For tokens of the prompt that the server had in its cache."""
    longest: float
    """The longest prompt, in tokens, with these rates."""

    def of(self, prompt_tokens: int, completion_tokens: int, cached_tokens: int = 0) -> float:
        fresh = (prompt_tokens - cached_tokens) * self.prompt
        return fresh + cached_tokens * self.cached + completion_tokens * self.completion


_UNUSUAL = re.compile(
    r"(?:tiered|off_peak)_pricing|(?:in|out)put_cost_per_(?!(?:(?:audio|image|video|reasoning)_)?token)"
)
"""Fields of an entry whose meaning LiteLLM alone knows."""
_LONGER = re.compile(r"(?:in|out)put_cost_per_token_above_(\d+)(k?)_tokens")


@functools.lru_cache(256)
def _rates(model: str) -> _Rates | None:
    """Return the rates of a model; None if there are none, or LiteLLM has to be asked for each call."""
    try:
        entry = table_entry(model)
    except FatalModelError:
        return None
    if entry is None or not has_price(entry) or any(map(_UNUSUAL.match, entry)):
        return None
    limits = [int(found[1]) * (1000 if found[2] else 1) for found in map(_LONGER.fullmatch, entry) if found]
    prompt, completion = (float(entry.get(f"{side}_cost_per_token") or 0.0) for side in ("input", "output"))
    cached = entry.get("cache_read_input_token_cost")
    return _Rates(prompt, completion, prompt if cached is None else float(cached), min(limits, default=math.inf))


def price(model: str, prompt_tokens: int, completion_tokens: int = 0) -> float | None:
    """Return the US dollars for a call of `model`; None when the table has no price for it."""
    if is_unpriced(model):
        return None
    rates = _rates(model)
    if rates and prompt_tokens <= rates.longest:
        return rates.of(prompt_tokens, completion_tokens)
    return _look_up_price(model, prompt_tokens, completion_tokens)


def _look_up_price(model: str, prompt_tokens: int, completion_tokens: int) -> float | None:
    """Look up LiteLLM's price; None when its table has none."""
    try:
        parts = load_litellm().cost_per_token(
            model=model, prompt_tokens=prompt_tokens, completion_tokens=completion_tokens
        )
    except Exception:
        # An unknown model raises one of several exceptions, bare `Exception` among them.
        return None
    return float(sum(parts))


class _PromptParts(Struct, frozen=True):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    cache_creation_tokens: int | None = None
    audio_tokens: int | None = None
    image_tokens: int | None = None
    video_tokens: int | None = None


class _CompletionParts(Struct, frozen=True):
    audio_tokens: int | None = None
    image_tokens: int | None = None
    video_tokens: int | None = None
    reasoning_tokens: int | None = None


class _Usage(Struct, frozen=True):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _PromptParts | None = None
    completion_tokens_details: _CompletionParts | None = None
    prompt_cache_hit_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None


class _Bill(Struct, frozen=True):
    """The parts of a reply in OpenAI's form that make its price."""

    model: str | None = None
    usage: _Usage | None = None
    service_tier: str | None = None


def reply_cost(model: str, document: dict[str, Any]) -> float | None:
    """Return the US dollars of a reply in OpenAI's form; None when they cannot be determined.

    It has the price of the model that the reply names, if the table has one: `gpt-4o` is served by dated models.
    LiteLLM works out what has a price of its own: long prompts, audio, other service tiers, writing to a cache.

    Args:
        document: the whole reply.
    """
    bill = msgspec.convert(document, _Bill, strict=False)
    served = f"{split_spec(model)[0]}/{bill.model}"
    rates = (_rates(served) if bill.model else None) or _rates(model)
    usage = bill.usage or _Usage()
    prompt = usage.prompt_tokens_details or _PromptParts()
    completion = usage.completion_tokens_details or _CompletionParts()
    tokens = usage.prompt_tokens or 0
    unusual = (
        *structs.astuple(prompt)[1:],
        *structs.astuple(completion)[:3],
        usage.cache_read_input_tokens,
        usage.cache_creation_input_tokens,
        completion.reasoning_tokens and "output_cost_per_reasoning_token" in (table_entry(model) or {}),
    )
    if rates and tokens <= rates.longest and not any(unusual) and bill.service_tier in (None, "auto", "default"):
        cached = prompt.cached_tokens or usage.prompt_cache_hit_tokens or 0
        return rates.of(tokens, usage.completion_tokens or 0, cached)
    litellm = load_litellm()
    try:
        response = litellm.ModelResponse(**document)
        return float(litellm.completion_cost(completion_response=response, model=model))
    except Exception:
        # A paid answer is not discarded because its cost cannot be determined.
        return None


# What a server counted of a call, and our own count of the rest.


class Counted(NamedTuple):
    """The tokens of a call by the server's count; 0: it gives no figure, or one that cannot be."""

    prompt: int = 0
    completion: int = 0
    total: int = 0

    @classmethod
    def of(cls, usage: object) -> "Counted":
        """Read a usage in OpenAI's form."""
        figures = usage_in_form(usage)
        return cls(*(int(figures.get(f"{name}_tokens", 0)) for name in cls._fields))

    def is_whole(self, *, replied: bool) -> bool:
        """Return whether a call's tokens are known: no prompt is empty, nor the tokens of a reply with content."""
        return bool(self.prompt and (self.completion or not replied))

    def usage(self, prompt_tokens: int, completion_tokens: int, price: Callable[[int, int], float | None]) -> Usage:
        """Return the usage of a call of which the server did not count everything.

        Args:
            prompt_tokens: our own count, used where the server's figures do not say it.
            completion_tokens: the same, of the reply as far as it can be seen.
            price: returns the US dollars for tokens of a prompt and a reply; None: not known.
        """
        rest = max(self.total - self.completion, 0)
        prompt = self.prompt or (rest if self.completion and rest else min(prompt_tokens, rest or prompt_tokens))
        completion = self.completion or max(self.total - prompt, 0) or completion_tokens
        return structs.replace(Usage.of_call(prompt, completion, price(prompt, completion)), estimated_calls=1)


def usage_in_form(usage: object) -> dict[str, Any]:
    """Return a usage whose tokens are numbers, without others, such as null and text; empty if it is no object."""
    found = dict[str, Any]()
    for name, value in usage.items() if isinstance(usage, dict) else ():
        with suppress(ValueError, OverflowError):
            tokens = max(int(float(str(value))), 0) if name.endswith("_tokens") else value
            found[name] = usage_in_form(value) if name.endswith("_details") else tokens
    return found


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
    """Return the dimension of an embedding model's vectors; None when neither its options nor the table give it."""
    name, options = named(model)
    length = options.more.get("dimensions") or (model_table().get(name) or {}).get("output_vector_size")
    return length if isinstance(length, int) else None
