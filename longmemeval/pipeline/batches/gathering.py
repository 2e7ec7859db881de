"""Tells the moment at which every piece of work waits for a reply, so that nothing more can be added to a batch."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar

_ROUNDS = 5
"""Of the event loop in which nothing may happen: calls that one piece of work makes at once begin within two."""


class Work:
    """One piece of work, such as a question with all the calls that its answer takes.

    Args:
        name: tells it from others, in this process and when it is done again after a restart.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.repeats: Counter[bytes] = Counter()
        """How often it has made the same request."""
        self.calls = 0
        self.held = 0
        self.has_waited = False


_current: ContextVar[Work] = ContextVar("work")


def current_work() -> Work:
    """The work that makes a call, also from a task of its own."""
    return _current.get()


class Gathering:
    """Pieces of work that make calls.

    Args:
        places: how many of them may be at it before their first call at one time.
        most_held: bytes of requests from which no more work is begun until some of it has ended.
        all_wait: called whenever all work that has begun waits for replies.
    """

    def __init__(self, places: int, most_held: int, all_wait: Callable[[], None]) -> None:
        self._places = asyncio.Semaphore(places)
        self._owed = 0
        self._most_held = most_held
        self._held = 0
        self._all_wait = all_wait
        self._queued = self._under_way = self._waiting = 0
        self._stirred = asyncio.Event()
        self._changes = 0

    @asynccontextmanager
    async def work(self, name: str) -> AsyncIterator[None]:
        """Around one piece of work; waits for a place."""
        self._queued += 1
        try:
            await self._places.acquire()
        finally:
            self._queued -= 1
        one = Work(name)
        token = _current.set(one)
        self._under_way += 1
        self.stir()
        try:
            yield
        finally:
            _current.reset(token)
            self._under_way -= 1
            self._held -= one.held
            self._owed += not one.has_waited
            self._give_places()
            self.stir()

    @contextmanager
    def waiting(self, size: int = 0) -> Iterator[None]:
        """Around one call of the current work, whose request takes `size` bytes until that work has ended."""
        one = current_work()
        one.calls += 1
        one.held += size
        self._held += size
        self._waiting += one.calls == 1
        if not one.has_waited:
            one.has_waited = True
            self._owed += 1
            self._give_places()
        self.stir()
        try:
            yield
        finally:
            one.calls -= 1
            self._waiting -= one.calls == 0
            self.stir()

    def stir(self) -> None:
        """Something has changed: look again soon whether all work waits."""
        self._changes += 1
        self._stirred.set()

    async def watch(self) -> None:
        """Call `all_wait` at each such moment, until cancelled."""
        while True:
            await self._stirred.wait()
            seen = -1
            while seen != self._changes:
                seen = self._changes
                for _ in range(_ROUNDS):
                    await asyncio.sleep(0)
            self._stirred.clear()
            nothing_begins = not self._queued or self._is_full
            if self._under_way and self._waiting == self._under_way and nothing_begins:
                self._all_wait()

    @property
    def _is_full(self) -> bool:
        return self._held >= self._most_held

    def _give_places(self) -> None:
        while self._owed and not self._is_full:
            self._owed -= 1
            self._places.release()
