"""One thread for the methods of one object."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any


class CallThread:
    """Runs calls one after the other; a call that hangs does not keep the process from ending."""

    def __init__(self) -> None:
        self._calls: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        threading.Thread(target=self._work, name="memory", daemon=True).start()

    def submit(self, call: Callable[[], Any]) -> "Future[Any]":
        """Queue `call` after all earlier ones."""
        future = Future[Any]()
        self._calls.put((future, call))
        return future

    def close(self) -> None:
        """End the thread after the queued calls."""
        self._calls.put(None)

    def _work(self) -> None:
        while taken := self._calls.get():
            future, call = taken
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(call())
                except StopIteration as error:  # A future does not accept it.
                    future.set_exception(RuntimeError(f"StopIteration: {error}").with_traceback(error.__traceback__))
                except BaseException as error:
                    future.set_exception(error)
