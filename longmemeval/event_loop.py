"""Running asynchronous work to its end from ordinary code, also inside a notebook, and keeping its loop free.

An event loop that computes reads no replies: what takes longer than a few milliseconds goes to a work thread of its own
(`in_thread`). One thread is enough and no more are made: most of that work holds Python's interpreter lock, so that a
second thread would only compete with the loop, and what is done there need not be safe for threads.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from threading import Thread
from typing import Any, TypeVar, TypeVarTuple

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


def complete(work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`.

    Where an event loop runs in this thread already (a notebook's), the work gets a thread with a loop of its own; an
    interrupt here cancels it there.
    """
    work = _with_work_thread(work)
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


_work_thread: ContextVar[ThreadPoolExecutor | None] = ContextVar("work_thread", default=None)
"""The thread of the work under way. Not the loop's own executor: name look-ups of connections wait in that."""


async def _with_work_thread(work: Coroutine[Any, Any, T]) -> T:
    with ThreadPoolExecutor(1, thread_name_prefix="longmemeval-work") as pool:
        _work_thread.set(pool)
        return await work


async def in_thread(work: Callable[[*Ts], T], *arguments: *Ts) -> T:
    """`work(*arguments)`, computed in the work thread while the event loop goes on.

    Calls are worked off one after the other, in the order they come in. For anything that computes or reads for longer
    than a few milliseconds: recalling, counting tokens, rendering. Must not be called from within `work` itself.
    """
    submitted = time.perf_counter()
    started = ended = submitted

    def timed() -> T:
        nonlocal started, ended
        started = time.perf_counter()
        try:
            return work(*arguments)
        finally:
            ended = time.perf_counter()

    try:
        return await asyncio.get_running_loop().run_in_executor(_work_thread.get(), copy_context().run, timed)
    finally:
        if stopwatch := _stopwatch.get():
            stopwatch.waited += (started - submitted) + (time.perf_counter() - ended)


class Stopwatch:
    """How long a piece of asynchronous work took by itself, see `own_time`."""

    def __init__(self) -> None:
        self.waited = 0.0
        self.milliseconds = 0.0


_stopwatch: ContextVar[Stopwatch | None] = ContextVar("stopwatch", default=None)


@contextmanager
def own_time() -> Iterator[Stopwatch]:
    """Measures what is awaited inside, without the time it waits for the work thread to be free.

    `milliseconds` is set at the end. The time that other things take (a call to a memory service) counts.
    """
    stopwatch = Stopwatch()
    token = _stopwatch.set(stopwatch)
    started = time.perf_counter()
    try:
        yield stopwatch
    finally:
        _stopwatch.reset(token)
        stopwatch.milliseconds = max(0.0, time.perf_counter() - started - stopwatch.waited) * 1000
