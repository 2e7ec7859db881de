"""Running asynchronous work to its end from synchronous code, also inside a notebook, and keeping its loop free.

An event loop that computes reads no replies, so work of more than a few milliseconds goes to a separate work thread
(`in_thread`). There is only one: most of that work holds Python's interpreter lock, so a second thread would only
compete with the loop, and code that runs there need not be thread-safe.
"""

import asyncio
import inspect
import math
import sys
import time
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from functools import partial
from itertools import count
from queue import PriorityQueue
from threading import Thread, current_thread, main_thread
from typing import Any, NamedTuple, TypeVar, TypeVarTuple
from weakref import WeakKeyDictionary

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


def complete(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` to its end and return its result.

    If an event loop already runs in this thread (a notebook's), the work gets a thread with its own loop; an interrupt
    here cancels it there.

    Raises:
        KeyboardInterrupt: the work was interrupted, and has finished cleaning up.
    """
    global _at_work
    in_main = current_thread() is main_thread()
    _at_work += in_main
    try:
        return _completed(_with_work_thread(work))
    finally:
        _at_work -= in_main
        if inspect.getcoroutinestate(work) == inspect.CORO_CREATED:
            work.close()  # An interrupt came before its first step.


def _completed(work: Coroutine[Any, Any, T]) -> T:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        try:
            return asyncio.run(work)
        except asyncio.CancelledError:
            raise KeyboardInterrupt from None
    # Needed in notebooks only.
    from anyio.from_thread import start_blocking_portal

    async def finish() -> T:
        return await work

    with start_blocking_portal() as portal:
        return portal.call(finish)


_at_work = 0
"""Number of calls of `complete` in the main thread that have not returned."""


def is_at_work() -> bool:
    """Return whether `complete` is running work in the main thread, or cleaning it up."""
    return _at_work > 0


_under_way: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Task[Any]] = WeakKeyDictionary()


def cancel_work() -> bool:
    """Cancel the work that `complete` runs in this thread; for a signal handler.

    Returns:
        True if there is any. It ends when it has cleaned up; `complete` then raises KeyboardInterrupt.
    """
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return False
    task = _under_way.get(loop)
    if task is not None:
        # Also wakes a loop that waits for a reply.
        loop.call_soon_threadsafe(task.cancel)
    return task is not None


async def run_blocking(work: Callable[[], T]) -> T:
    """Do synchronous work, which may call `complete`, in a separate thread, without blocking this event loop.

    When cancelled, it cancels the work that `complete` runs there and waits until that has cleaned up.
    """
    thread = _Called(work)
    thread.start()
    outcome = asyncio.wrap_future(thread.future)
    try:
        return await asyncio.shield(outcome)
    except asyncio.CancelledError:
        if not thread.future.done():
            thread.cancelled = True
            for loop, task in list(_under_way.items()):
                if _thread_of.get(loop) is thread and not loop.is_closed():
                    loop.call_soon_threadsafe(task.cancel)
            await asyncio.wait([outcome])
            outcome.exception()
        raise


class _Called(Thread):
    """A thread that does one piece of work."""

    def __init__(self, work: Callable[[], Any]) -> None:
        super().__init__(name="longmemeval-call", daemon=True)
        self.future: Future[Any] = Future()
        self.cancelled = False
        self._context, self._work = copy_context(), work

    def run(self) -> None:
        try:
            self.future.set_result(self._context.run(self._work))
        except BaseException as error:
            # Work cancelled in `complete` leaves it as an interrupt, which would end the caller's loop.
            self.future.set_exception(asyncio.CancelledError() if isinstance(error, KeyboardInterrupt) else error)


_thread_of: WeakKeyDictionary[asyncio.AbstractEventLoop, Thread] = WeakKeyDictionary()


class _Job(NamedTuple):
    turn: float
    number: int
    future: Future[Any]
    work: Callable[[], Any]


class _WorkThread:
    """A thread that processes jobs: those of the earliest turn first, otherwise in order of arrival."""

    def __init__(self) -> None:
        self._jobs: PriorityQueue[_Job] = PriorityQueue()
        self._numbers = count()
        self._thread = Thread(target=self._work, name="longmemeval-work", daemon=True)
        self._thread.start()

    def submit(self, turn: float, work: Callable[[], T]) -> Future[T]:
        future: Future[T] = Future()
        self._jobs.put(_Job(turn, next(self._numbers), future, work))
        return future

    def close(self) -> None:
        """Wait for the running job, and start no other."""
        self.submit(-math.inf, sys.exit)
        self._thread.join()

    def _work(self) -> None:
        while True:
            job = self._jobs.get()
            if job.work is sys.exit:
                return
            if job.future.set_running_or_notify_cancel():
                try:
                    result = job.work()
                except BaseException as error:
                    job.future.set_exception(error)
                else:
                    job.future.set_result(result)
            del job


_SWITCH_INTERVAL_S = 0.001
"""Seconds for which the work thread may hold the interpreter while the loop waits for it. Python's 5 ms, at each of the
dozen system calls of a request, would add up to more than the work itself."""

_work_thread: ContextVar[_WorkThread | None] = ContextVar("work_thread", default=None)
"""Thread of the current work. It is not the loop's own executor, in which name look-ups of connections wait."""
_turn: ContextVar[float] = ContextVar("turn", default=0.0)


def set_priority(number: float) -> None:
    """Give this task's jobs in the work thread priority over those of tasks with a higher number."""
    _turn.set(number)


async def _with_work_thread(work: Coroutine[Any, Any, T]) -> T:
    if task := asyncio.current_task():
        _under_way[asyncio.get_running_loop()] = task
        _thread_of[asyncio.get_running_loop()] = thread_now = current_thread()
        if isinstance(thread_now, _Called) and thread_now.cancelled:
            task.cancel()
    thread = _WorkThread()
    _work_thread.set(thread)
    usual = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    try:
        return await work
    finally:
        sys.setswitchinterval(usual)
        thread.close()


async def in_thread(work: Callable[[*Ts], T], *arguments: *Ts) -> T:
    """Compute `work(*arguments)` in the work thread while the event loop continues.

    Calls run one after the other in order of arrival, those of an earlier question first. Use it for anything that
    computes or reads for longer than a few milliseconds: recalling, counting tokens, rendering. Do not await it inside
    `work` itself.
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

    job = partial(copy_context().run, timed)
    thread = _work_thread.get()
    try:
        if thread is None:
            return await asyncio.get_running_loop().run_in_executor(None, job)
        return await asyncio.wrap_future(thread.submit(_turn.get(), job))
    finally:
        if stopwatch := _stopwatch.get():
            stopwatch.waited += (started - submitted) + (time.perf_counter() - ended)


class Stopwatch:
    """The own duration of a piece of asynchronous work, see `own_time`."""

    def __init__(self) -> None:
        self.waited = 0.0
        self.milliseconds = 0.0


_stopwatch: ContextVar[Stopwatch | None] = ContextVar("stopwatch", default=None)


@contextmanager
def paused() -> Iterator[None]:
    """Exclude the time awaited inside from the `own_time` around it.

    Examples are the wait for a free slot, and the opening of a cached memory.
    """
    stopwatch, started = _stopwatch.get(), time.perf_counter()
    waited = stopwatch.waited if stopwatch else 0.0
    try:
        yield
    finally:
        if stopwatch:  # All of the time, once, including waits for the work thread inside.
            stopwatch.waited = waited + time.perf_counter() - started


def add_time(milliseconds: float) -> None:
    """Count time inside `paused` for the `own_time` around it: that of a call without its wait for a turn."""
    if stopwatch := _stopwatch.get():
        stopwatch.waited -= milliseconds / 1000


@contextmanager
def own_time() -> Iterator[Stopwatch]:
    """Measure the time awaited inside, without waits for the work thread to be free.

    `milliseconds` is set at the end. Time spent elsewhere, such as in a call to a memory service, counts.
    """
    stopwatch = Stopwatch()
    token = _stopwatch.set(stopwatch)
    started = time.perf_counter()
    try:
        yield stopwatch
    finally:
        _stopwatch.reset(token)
        stopwatch.milliseconds = max(0.0, time.perf_counter() - started - stopwatch.waited) * 1000
