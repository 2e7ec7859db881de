"""Detect when every piece of work waits for a reply, so that nothing more can be added to a batch."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar

_ROUNDS = 5
"""Rounds of the event loop without any change; calls that one piece of work makes together begin within two."""


class Work:
    """One piece of work, such as a question with all the calls that its answer takes.

    Args:
        name: unique in this process, and the same when the work is done again after a restart.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.repeats: Counter[bytes] = Counter()
        """How often the work has made the same request."""
        self.calls = 0
        self.held = 0
        self.has_waited = False


_current: ContextVar[Work] = ContextVar("work")


def current_work() -> Work:
    """Return the work that makes the current call, also from a task of its own."""
    return _current.get()


class Gathering:
    """The pieces of work whose calls are gathered into batches.

    Args:
        places: how many of them may be in progress before their first call.
        most_held: bytes of requests from which no new work is begun until some has ended.
        all_wait: called whenever all work that has begun waits for replies.
    """

    def __init__(self, places: int, most_held: int, on_idle: Callable[[], None]) -> None:
        self._places = asyncio.Semaphore(places)
        self._free_slots_due = 0
        self._most_held = most_held
        self._held = 0
        self._all_wait = on_idle
        self._queued = self._under_way = self._waiting = 0
        self._stirred = asyncio.Event()
        self._changes = 0

    @asynccontextmanager
    async def work(self, name: str) -> AsyncIterator[None]:
        """Wait for a place and run one piece of work inside the context."""
        self._queued += 1
        try:
            await self._places.acquire()
        finally:
            self._queued -= 1
        work = Work(name)
        token = _current.set(work)
        self._under_way += 1
        self.notify()
        try:
            yield
        finally:
            _current.reset(token)
            self._under_way -= 1
            self._held -= work.held
            self._free_slots_due += not work.has_waited
            self._give_places()
            self.notify()

    @contextmanager
    def waiting(self, size: int = 0) -> Iterator[None]:
        """Mark one call of the current work as waiting; its request holds `size` bytes until that work has ended."""
        work = current_work()
        work.calls += 1
        work.held += size
        self._held += size
        self._waiting += work.calls == 1
        if not work.has_waited:
            work.has_waited = True
            self._free_slots_due += 1
            self._give_places()
        self.notify()
        try:
            yield
        finally:
            work.calls -= 1
            self._waiting -= work.calls == 0
            self.notify()

    def notify(self) -> None:
        """Note a change, so that `watch` checks again soon whether all work waits."""
        self._changes += 1
        self._stirred.set()

    async def watch(self) -> None:
        """Call `on_idle` whenever all work waits, until cancelled."""
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
        while self._free_slots_due and not self._is_full:
            self._free_slots_due -= 1
            self._places.release()
