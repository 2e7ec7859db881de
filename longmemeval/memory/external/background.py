"""Event loops in threads of their own, for everything that talks to memory services.

Connections, child processes and the asynchronous methods of a user's class belong to the loop they started in, while
the loops of `prepare` and `run` come and go. Also, code that blocks here does not delay the reading of model replies.
"""

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from functools import cached_property
from threading import Lock, Thread
from typing import Any, TypeVar

T = TypeVar("T")


class BackgroundLoop:
    """One loop; it starts with the first work and ends with the process.

    Args:
        name: the name of its thread.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._beginning = Lock()

    @cached_property
    def _running_loop(self) -> asyncio.AbstractEventLoop:
        loop = asyncio.new_event_loop()
        Thread(target=_run, args=(loop,), name=self._name, daemon=True).start()
        return loop

    @property
    def _loop(self) -> asyncio.AbstractEventLoop:
        with self._beginning:
            return self._running_loop

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of `work`; cancelling this call cancels it in the loop."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    def complete(self, work: Coroutine[Any, Any, T], timeout: float | None = None) -> T:
        """Wait for the result of `work` in synchronous code."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout)


def _run(loop: asyncio.AbstractEventLoop) -> None:
    while True:
        # A task that a memory started may raise either, which stops the loop; the loop's other tasks must go on.
        with suppress(SystemExit, KeyboardInterrupt):
            loop.run_forever()


_services = BackgroundLoop("longmemeval-memory-services")


async def in_background(work: Coroutine[Any, Any, T]) -> T:
    """Return the result of `work`, run in the loop for services; cancelling this call cancels it there."""
    return await _services.run(work)


def complete_in_background(work: Coroutine[Any, Any, T], timeout: float | None = None) -> T:
    """Wait in synchronous code for the result of `work`, run in the loop for services."""
    return _services.complete(work, timeout)
