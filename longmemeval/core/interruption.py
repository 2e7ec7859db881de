"""Telling a wish that the work end (Ctrl-C, a signal, a cancelled task) from an exception that only looks like one.

Code of others may raise `SystemExit`, `KeyboardInterrupt` or `CancelledError` itself. Then it has failed, and nobody
wants the work to end.
"""

import signal
import sys
import threading

_requested = False


def request_end() -> None:
    """Note that the user wants the work to end; called by the handler of signals."""
    global _requested
    _requested = True


def is_interrupt(error: BaseException) -> bool:
    """Return whether `error` says that the work is to end, and not that the code which raised it has failed.

    Call it where the error arrives: in the same thread, and of asynchronous work in the same task.
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
    # Without a handler of ours, Python's own raises it here.
    return _requested or signal.getsignal(signal.SIGINT) is signal.default_int_handler
