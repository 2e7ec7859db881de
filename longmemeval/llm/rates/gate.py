"""Turns under a provider's limits: every call of a model with one key waits for its turn, in all processes."""

import asyncio
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from pathlib import Path
from weakref import WeakKeyDictionary

import msgspec

from longmemeval.core.files import sha256_text
from longmemeval.core.journal import locked
from longmemeval.errors import HarnessError
from longmemeval.llm.rates.book import RateState, TokenEstimate
from longmemeval.llm.rates.headers import reported_limits
from longmemeval.llm.rates.limits import Rate, RateLimits

_LOOK_S = 0.1
"""Longest time between two checks of a waiting call, since others may have used less than expected."""
_POLITE_S = 0.005
"""Seconds for which the caller with the last turn leaves the next one to others."""


class RateLimiter:
    """Turns of one model under one key. Safe across threads, event loops and processes.

    `gate_for` creates it, so that all calls of a process share one.

    Args:
        rate: the user's limits.
        path: file that processes share; None: this process counts alone.
    """

    def __init__(self, rate: Rate, path: Path | None) -> None:
        self._rate, self._path = rate, path
        self._lock = threading.Lock()
        self._book = RateState()
        self._is_shared = False
        self._queues: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()

    @property
    def counts_tokens(self) -> bool:
        """True if the tokens of a call must be known in advance."""
        return self._book.allowance("tokens", self._rate) is not None

    async def turn(
        self, size: TokenEstimate = TokenEstimate(), held_back: Callable[[], AbstractContextManager[None]] = nullcontext
    ) -> "Permit":
        """Wait until a call may be sent; calls of one event loop are sent in order of arrival.

        Args:
            size: estimated size of the call.
            held_back: entered while a limit makes the call wait, but not during a pause that the provider requested
                (`Retry-After`).

        Raises:
            HarnessError: the shared file cannot be written.
        """
        if not self._is_limited():
            return self._grant(size)
        loop = asyncio.get_running_loop()
        async with self._queues.setdefault(loop, asyncio.Lock()):
            attempt = _Attempt(f"{os.getpid()}-{id(loop)}")
            while wait := self._check(attempt, size):
                with held_back() if attempt.is_limited else nullcontext():
                    await asyncio.sleep(wait)
        return attempt.turn

    def turn_blocking(self, size: TokenEstimate = TokenEstimate()) -> "Permit":
        """Wait until a call may be sent, in synchronous code; see `turn`."""
        if not self._is_limited():
            return self._grant(size)
        attempt = _Attempt(f"{os.getpid()}-{threading.get_ident()}-thread")
        held_back_s = 0.0
        while wait := self._check(attempt, size):
            time.sleep(wait)
            held_back_s += wait if attempt.is_limited else 0.0
        attempt.turn.held_back_s = held_back_s
        return attempt.turn

    def answered(self, turn: "Permit", used: tuple[int, int]) -> None:
        """Record the tokens that a call used for its prompt and for its reply."""
        self._change(lambda book, now: book.answered(turn.sent_at, turn.size, turn.tokens, used, self._rate))

    def learn(self, turn: "Permit", headers: Mapping[str, object]) -> None:
        """Update the limits from the headers of a reply."""
        if found := reported_limits(headers):
            self._change(lambda book, now: book.learn(now, turn.sent_at, found, self._rate))

    def refuse(self, retry_after: float | None) -> None:
        """Record that the provider refused a call with status 429 and asked for a pause of `retry_after` seconds."""
        self._change(lambda book, now: book.refuse(now, retry_after, self._rate))

    def _is_limited(self) -> bool:
        if self._path and not self._is_shared and self._path.exists():
            self._change(lambda book, now: None)  # Another process may have learned of limits.
        with self._lock:
            return self._book.is_limited(self._rate, time.time())

    def _grant(self, size: TokenEstimate) -> "Permit":
        now = time.time()
        with self._lock:
            amounts = self._book.expected(size)
            self._book.use(now, amounts, self._rate, "")
        return Permit(self, now, amounts["tokens"], size)

    def _check(self, attempt: "_Attempt", size: TokenEstimate) -> float:
        """Return the seconds to wait until the next check; 0 if the turn was granted and recorded."""
        with self._open() as book:
            now, amounts = time.time(), book.expected(size)
            wait = book.wait(now, amounts, self._rate)
            attempt.is_limited = wait > book.pause(now)
            if book.should_yield(now, attempt.who) and not wait and not attempt.was_polite:
                attempt.was_polite = True
                return _POLITE_S
            if not wait:
                book.use(now, amounts, self._rate, attempt.who)
                attempt.turn = Permit(self, now, amounts["tokens"], size)
                return 0.0
        attempt.was_polite = False
        return min(wait, _LOOK_S)

    def _change(self, change: Callable[[RateState, float], None]) -> None:
        with self._open() as book:
            change(book, time.time())

    @contextmanager
    def _open(self) -> Iterator[RateState]:
        """Yield the state, locked against other threads and processes, and save it for them."""
        with self._lock:
            if self._path is None:
                yield self._book
                return
            try:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                with locked(self._path, wait=True):
                    book = _read(self._path)
                    if not self._is_shared:
                        book.merge(self._book)
                        self._is_shared = True
                    self._book = book
                    yield book
                    self._path.write_bytes(msgspec.json.encode(book))
            except OSError as error:
                raise HarnessError(
                    f"The file in which commands share a provider's limits cannot be written: {error.strerror}",
                    where=str(self._path),
                    fix="Fix this and rerun the same command: finished work is kept",
                ) from error


class _Attempt:
    """A caller waiting for a turn."""

    turn: "Permit"

    def __init__(self, who: str) -> None:
        self.who = who
        self.was_polite = False
        self.is_limited = False
        """True if a limit makes it wait longer than the pause that the provider asked for."""


class Permit:
    """Permission to send one call.

    Args:
        gate: the limiter that granted it.
        sent_at: seconds since 1970.
        tokens: expected usage.
        size: estimated size of the call.

    Attributes:
        held_back_s: seconds for which a limit made synchronous code wait.
    """

    def __init__(self, gate: RateLimiter, sent_at: float, tokens: float, size: TokenEstimate) -> None:
        self._gate, self.sent_at, self.tokens, self.size = gate, sent_at, tokens, size
        self.held_back_s = 0.0

    def learn(self, headers: Mapping[str, object]) -> None:
        """Update the limits from the headers of the reply."""
        self._gate.learn(self, headers)

    def answered(self, prompt_tokens: int, completion_tokens: int) -> None:
        """Record the tokens that the call used, according to its reply."""
        if self._gate.counts_tokens and prompt_tokens + completion_tokens:
            self._gate.answered(self, (prompt_tokens, completion_tokens))

    def refused(self, retry_after: float | None) -> None:
        """Record that the provider refused the call with status 429."""
        self._gate.refuse(retry_after)


def gate_for(spec: str, address: str, key: str, limits: RateLimits) -> RateLimiter:
    """Return the limiter shared by all calls of a model at an address with one key.

    Args:
        address: address of the model's server.
        key: its API key; only the hash is used.
        limits: limits of all models.
    """
    name = sha256_text(f"{spec}\n{address}\n{key}")[:24]
    return _gate(name, limits.of(spec), limits.folder.absolute() / f"{name}.json" if limits.folder else None)


@cache
def _gate(name: str, rate: Rate, path: Path | None) -> RateLimiter:
    return RateLimiter(rate, path)


def _read(path: Path) -> RateState:
    """Read the state from a file; return a new state if it is missing, or a killed process damaged it."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=RateState)
    except (FileNotFoundError, msgspec.DecodeError):
        return RateState()
