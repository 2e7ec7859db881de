"""Ctrl-C, SIGTERM and SIGHUP: the first ends the work in good order, the second at once; neither shows a traceback."""

import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import NoReturn

from longmemeval.cli.output import err, out
from longmemeval.core.files import remove_unfinished
from longmemeval.core.interruption import request_end

Handler = Callable[[int, FrameType | None], object]
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that ask for the end; the exit code is 128 and the number of the signal, as shells have it."""
INTERRUPTED = 128 + signal.SIGINT

_GOOD_ORDER_S = 3.0
"""Seconds that the work may take to be wound up; a memory that computes in the event loop does not let go of it."""
_AT_ONCE_S = 1.0
_SHOW_CURSOR = "\x1b[?25h"

_number: int = signal.SIGINT
"""The one of `SIGNALS` that came."""


def handle_interrupts(instead_of: Handler = signal.default_int_handler) -> None:
    """Take over `SIGNALS` for this process, those that it was not told to ignore.

    Args:
        instead_of: who had them until now.
    """
    for number in SIGNALS:
        if signal.getsignal(number) in (instead_of, signal.SIG_DFL):
            signal.signal(number, _first)


_continue: list[str] = []
_kept = ["Finished work is kept"]


def continue_with(*command: str, with_provider: bool = False) -> None:
    """Say this command line where the work is interrupted: the one that was given would begin again.

    Args:
        command: the line; none where the one that was given goes on.
        with_provider: whether batches go on at the provider meanwhile.
    """
    _continue[:] = command
    if with_provider:
        _kept[:] = ["Finished work is kept, and what was sent as a batch stays with the provider until it is fetched"]


def leave() -> NoReturn:
    """Say that the work was interrupted, and end the process here and now.

    What is on disk is whole at every moment, and nothing that Python does at its end matters: it would only wait for
    threads, or report them. Children of memories are ended from outside (`carriers/guard.py`).
    """
    for number in (*SIGNALS, signal.SIGALRM):
        signal.signal(number, signal.SIG_IGN)
    remove_unfinished()
    by = "" if _number == signal.SIGINT else f" by {signal.Signals(_number).name}"
    with suppress(OSError):  # The terminal may be gone.
        err.print(f"Interrupted{by}. {_kept[0]}" + ("." if _continue else "; run the same command to continue."))
        err.next(*_continue)
        for stream in (out.file, sys.stdout, sys.stderr):
            stream.flush()
    os._exit(128 + _number)


def _first(number: int, frame: FrameType | None) -> None:
    global _number
    _number = number
    for one in SIGNALS:
        if signal.getsignal(one) is _first:
            signal.signal(one, _second)
    request_end()
    event_loop = sys.modules.get("longmemeval.core.event_loop")
    if event_loop is None or not event_loop.cancel_work():
        raise KeyboardInterrupt
    signal.signal(signal.SIGALRM, _overdue)
    signal.setitimer(signal.ITIMER_REAL, _GOOD_ORDER_S, _AT_ONCE_S)


_overdue_before = False


def _overdue(number: int, frame: FrameType | None) -> None:
    """Break off what keeps the work from being wound up: by an exception, then without one."""
    global _overdue_before
    if not sys.modules["longmemeval.core.event_loop"].is_at_work():
        signal.setitimer(signal.ITIMER_REAL, 0)
        return
    if _overdue_before:
        leave()
    _overdue_before = True
    raise KeyboardInterrupt


def _second(number: int, frame: FrameType | None) -> None:
    if sys.stderr.isatty():
        # A progress bar hides the cursor and has no chance to show it again.
        sys.stderr.write(_SHOW_CURSOR)
    leave()
