"""Distinguishing a request to stop (Ctrl-C, a signal, a cancelled task) from an exception that only looks like one.

Third-party code may raise `SystemExit`, `KeyboardInterrupt` or `CancelledError` itself. In that case the code has
failed, and nobody has asked to stop.
"""

import signal
import sys
import threading

_requested = False


def request_end() -> None:
    """Record that the user asked to stop; called by the signal handler."""
    global _requested
    _requested = True


def is_interrupt(error: BaseException) -> bool:
    """Return whether `error` is a request to stop, and not a failure of the code that raised it.

    Call it where the error is caught: in the same thread, and for asynchronous work in the same task.
    """
    asyncio = sys.modules.get("asyncio")
    if asyncio and isinstance(error, asyncio.CancelledError):
        try:
            task = asyncio.current_task()
        except RuntimeError:
            return False
        return task is not None and task.cancelling() > 0
    if not isinstance(error, KeyboardInterrupt) or threading.current_thread() is not threading.main_thread():
        return False
    # Without our handler, Python's own raises it here.
    return _requested or signal.getsignal(signal.SIGINT) is signal.default_int_handler
