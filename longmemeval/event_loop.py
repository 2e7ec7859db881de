"""Running asynchronous work to its end from ordinary code, also inside a notebook."""

import asyncio
from collections.abc import Coroutine
from threading import Thread
from typing import Any, TypeVar

T = TypeVar("T")


def complete(work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`.

    Where an event loop runs in this thread already (a notebook's), the work gets a thread with a loop of its own; an
    interrupt here cancels it there.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    loop = asyncio.new_event_loop()
    thread = Thread(target=loop.run_forever, name="longmemeval", daemon=True)
    thread.start()
    try:
        return asyncio.run_coroutine_threadsafe(work, loop).result()
    finally:
        asyncio.run_coroutine_threadsafe(_wind_up(loop), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _wind_up(loop: asyncio.AbstractEventLoop) -> None:
    """What `asyncio.run` does at the end: cancel what is left, finish async generators (they close connections)."""
    rest = asyncio.all_tasks() - {asyncio.current_task()}
    for task in rest:
        task.cancel()
    await asyncio.gather(*rest, return_exceptions=True)
    await loop.shutdown_asyncgens()
