"""Turns under a provider's limits: every call of a model by one key waits for its own, in all processes."""

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
from longmemeval.core.locks import locked
from longmemeval.errors import HarnessError
from longmemeval.llm.rates.book import RateState, TokenEstimate
from longmemeval.llm.rates.headers import told
from longmemeval.llm.rates.limits import Rate, RateLimits

_LOOK_S = 0.1
"""Between two looks of who waits, at most: others may have used less than was thought."""
_POLITE_S = 0.005
"""How long whoever had the last turn leaves the next one to others."""


class RateLimiter:
    """The turns of one model under one key. Safe in several threads, event loops and processes.

    Made by `gate_for`, so that all calls of a process share one.

    Args:
        rate: the limits that were given.
        path: the file that processes share; None: this process counts by itself.
    """

    def __init__(self, rate: Rate, path: Path | None) -> None:
        self._rate, self._path = rate, path
        self._lock = threading.Lock()
        self._book = RateState()
        self._is_shared = False
        self._queues: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()

    @property
    def counts_tokens(self) -> bool:
        """Whether a call's tokens have to be known beforehand."""
        return self._book.allowance("tokens", self._rate) is not None

    async def turn(
        self, size: TokenEstimate = TokenEstimate(), held_back: Callable[[], AbstractContextManager[None]] = nullcontext
    ) -> "Permit":
        """Wait until a call may be sent; those of one event loop are sent in the order they came.

        Args:
            size: of the call.
            held_back: entered while a limit makes the call wait, and not while the provider asks to be left alone
                (`Retry-After`).

        Raises:
            HarnessError: the shared file cannot be written.
        """
        if not self._is_limited():
            return self._at_once(size)
        loop = asyncio.get_running_loop()
        async with self._queues.setdefault(loop, asyncio.Lock()):
            attempt = _Attempt(f"{os.getpid()}-{id(loop)}")
            while wait := self._look(attempt, size):
                with held_back() if attempt.is_limited else nullcontext():
                    await asyncio.sleep(wait)
        return attempt.turn

    def turn_blocking(self, size: TokenEstimate = TokenEstimate()) -> "Permit":
        """`turn` for ordinary code."""
        if not self._is_limited():
            return self._at_once(size)
        attempt = _Attempt(f"{os.getpid()}-{threading.get_ident()}-thread")
        held_back_s = 0.0
        while wait := self._look(attempt, size):
            time.sleep(wait)
            held_back_s += wait if attempt.is_limited else 0.0
        attempt.turn.held_back_s = held_back_s
        return attempt.turn

    def answered(self, turn: "Permit", used: tuple[int, int]) -> None:
        """A call took so many tokens, of its prompt and of its reply."""
        self._change(lambda book, now: book.answered(turn.sent_at, turn.size, turn.tokens, used, self._rate))

    def learn(self, turn: "Permit", headers: Mapping[str, object]) -> None:
        """A reply came with these headers."""
        if found := told(headers):
            self._change(lambda book, now: book.learn(now, turn.sent_at, found, self._rate))

    def refuse(self, retry_after: float | None) -> None:
        """The provider refused a call with 429, and asks to be left alone for so many seconds."""
        self._change(lambda book, now: book.refuse(now, retry_after, self._rate))

    def _is_limited(self) -> bool:
        if self._path and not self._is_shared and self._path.exists():
            self._change(lambda book, now: None)  # Another process may have been told of limits.
        with self._lock:
            return self._book.is_limited(self._rate, time.time())

    def _at_once(self, size: TokenEstimate) -> "Permit":
        now = time.time()
        with self._lock:
            amounts = self._book.expected(size)
            self._book.use(now, amounts, self._rate, "")
        return Permit(self, now, amounts["tokens"], size)

    def _look(self, attempt: "_Attempt", size: TokenEstimate) -> float:
        """How long to wait before the next look; 0: the turn is there, and used."""
        with self._open() as book:
            now, amounts = time.time(), book.expected(size)
            wait = book.wait(now, amounts, self._rate)
            attempt.is_limited = wait > book.pause(now)
            if book.is_anothers(now, attempt.who) and not wait and not attempt.was_polite:
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
        """The book, held against other threads and processes, and kept where they find it."""
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
                    f"The file by which commands share a provider's limits cannot be written: {error.strerror}",
                    where=str(self._path),
                    fix="Fix this and rerun the same command: what was finished is kept",
                ) from error


class _Attempt:
    """Somebody waits for a turn."""

    turn: "Permit"

    def __init__(self, who: str) -> None:
        self.who = who
        self.was_polite = False
        self.is_limited = False
        """Whether a limit has it wait longer than the provider asked for."""


class Permit:
    """One call that may be sent now.

    Args:
        gate: who gave it.
        sent_at: seconds since 1970.
        tokens: what it was taken to use.
        size: of the call.

    Attributes:
        held_back_s: seconds that a limit made ordinary code wait for it.
    """

    def __init__(self, gate: RateLimiter, sent_at: float, tokens: float, size: TokenEstimate) -> None:
        self._gate, self.sent_at, self.tokens, self.size = gate, sent_at, tokens, size
        self.held_back_s = 0.0

    def told(self, headers: Mapping[str, object]) -> None:
        """The reply came with these headers."""
        self._gate.learn(self, headers)

    def answered(self, prompt_tokens: int, completion_tokens: int) -> None:
        """What the call took, by its reply."""
        if self._gate.counts_tokens and prompt_tokens + completion_tokens:
            self._gate.answered(self, (prompt_tokens, completion_tokens))

    def refused(self, retry_after: float | None) -> None:
        """The provider refused it with 429."""
        self._gate.refuse(retry_after)


def gate_for(spec: str, address: str, key: str, limits: RateLimits) -> RateLimiter:
    """The gate that all calls of a model at an address by one key share.

    Args:
        spec: the model.
        address: where it is served.
        key: told apart by a hash only.
        limits: of all models.
    """
    name = sha256_text(f"{spec}\n{address}\n{key}")[:24]
    return _gate(name, limits.of(spec), limits.folder.absolute() / f"{name}.json" if limits.folder else None)


@cache
def _gate(name: str, rate: Rate, path: Path | None) -> RateLimiter:
    return RateLimiter(rate, path)


def _read(path: Path) -> RateState:
    """The book in a file; a new one where none is there, or a process was killed while it wrote."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=RateState)
    except (FileNotFoundError, msgspec.DecodeError):
        return RateState()
