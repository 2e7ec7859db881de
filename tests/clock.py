"""A clock that jumps: whoever waits for seconds has them at once, in the order in which they would have passed.

Tests of patience, limits and pauses then take no time, and a slow machine changes nothing in what they show.
"""

import asyncio
import math
import selectors
import time
from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any, TypeVar

import pytest

from longmemeval.embedding import remote
from longmemeval.errors import EndpointDownError, TransientModelError
from longmemeval.llm import rates as gate
from longmemeval.llm.http import client as calling
from longmemeval.llm.http import direct, litellm_way
from longmemeval.llm.http import errors as breaker
from tests.server import ModelServer

Result = TypeVar("Result")


class Clock:
    """What model calls have in place of `time`; its event loops jump to the next timer while no request is under way.

    Args:
        monkeypatch: ends it with the test.

    Attributes:
        busy: tells whether something real is awaited, so that seconds may not be jumped over.
        breakers: those of the models made since.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._jumped = 0.0
        self.busy: Callable[[], bool] = lambda: self._sent() > 0
        self.breakers: list[_Counting] = []
        self._selector: _Selector | None = None
        clock = SimpleNamespace(
            monotonic=self.monotonic,
            perf_counter=self.monotonic,
            time=lambda: time.time() + self._jumped,
            sleep=self.jump,
        )
        for module in (breaker, calling, direct, litellm_way, gate, remote):
            monkeypatch.setattr(module, "time", clock)
        monkeypatch.setattr(calling, "Breaker", self._breaker)

    def monotonic(self) -> float:
        """Seconds, those that were jumped over among them."""
        return time.monotonic() + self._jumped

    def jump(self, seconds: float) -> None:
        """Have seconds passed."""
        self._jumped += seconds

    def unanswered(self, server: ModelServer, first: float = math.inf) -> None:
        """From now on the first requests that have reached the server are not waited for: it never answers them."""
        failed, arrived = self._failed(), len(server.chat_requests)
        self.busy = lambda: self._sent() > min(len(server.chat_requests) - arrived, first) - (self._failed() - failed)

    def until_connecting(self) -> None:
        """From now on only attempts that do not connect yet are waited for: nobody ever takes their connections."""
        self.busy = lambda: self._sent() > self._connecting()

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Run a coroutine to its end by this clock."""
        with asyncio.Runner(loop_factory=lambda: _Loop(self)) as runner:
            return runner.run(work)

    def _connecting(self) -> int:
        assert self._selector
        return sum(bool(key.events & selectors.EVENT_WRITE) for key in self._selector.get_map().values())

    def _sent(self) -> int:
        return sum(each._sent for each in self.breakers)

    def _failed(self) -> int:
        return sum(each.failed for each in self.breakers)

    def _breaker(self, where: str, give_up_after_s: float) -> "_Counting":
        self.breakers.append(_Counting(where, give_up_after_s))
        return self.breakers[-1]


class _Counting(breaker.Breaker):
    """Counts the attempts that failed."""

    failed = 0

    def _failed(self, call: object, started: float, error: TransientModelError) -> EndpointDownError | None:
        self.failed += 1
        return super()._failed(call, started, error)


class _Selector(selectors.DefaultSelector):
    """Waits for what is real, and jumps over the rest."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock
        clock._selector = self

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or timeout <= 0 or self._clock.busy():
            return super().select(timeout)
        # Other threads have their turn first.
        if not (ready := super().select(0.0002)):
            self._clock.jump(timeout)
        return ready


class _Loop(asyncio.SelectorEventLoop):
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        super().__init__(_Selector(clock))

    def time(self) -> float:
        return self._clock.monotonic()
