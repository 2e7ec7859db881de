"""One event loop, in a thread of its own, for everything that talks to memory services.

Connections, child processes and the asynchronous methods of a user's class belong to the loop they began in; the loops
of `prepare` and `run` come and go. And whatever blocks here blocks no reading of model replies.
"""

import asyncio
from collections.abc import Coroutine
from functools import cache
from threading import Thread
from typing import Any, TypeVar

T = TypeVar("T")


@cache
def _loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    Thread(target=loop.run_forever, name="longmemeval-memory-services", daemon=True).start()
    return loop


async def in_background(work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`, done in the loop for services; cancelling here cancels it there."""
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, _loop()))


def complete_in_background(work: Coroutine[Any, Any, T], timeout: float | None = None) -> T:
    """The same from ordinary code, which waits."""
    return asyncio.run_coroutine_threadsafe(work, _loop()).result(timeout)
