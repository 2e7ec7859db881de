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
"""Signals that request the end; the exit code is 128 plus the number of the signal, as in shells."""
INTERRUPTED = 128 + signal.SIGINT

_GOOD_ORDER_S = 3.0
"""Seconds that the work may take to end in good order; a memory that computes in the event loop blocks it."""
_AT_ONCE_S = 1.0
_SHOW_CURSOR = "\x1b[?25h"

_number: int = signal.SIGINT
"""The signal that was received."""


def handle_interrupts(instead_of: Handler = signal.default_int_handler) -> None:
    """Handle `SIGNALS` in this process, except those that it was told to ignore.

    Args:
        instead_of: the handler until now.
    """
    for number in SIGNALS:
        if signal.getsignal(number) in (instead_of, signal.SIG_DFL):
            signal.signal(number, _first)


_continue: list[str] = []
_kept_note = ["Finished work is kept"]


def continue_with(*command: str, with_provider: bool = False) -> None:
    """Set the command line to print if the work is interrupted: the given one would start again.

    Args:
        command: the line; none if the given one continues the work.
        with_provider: True if batches continue at the provider meanwhile.
    """
    _continue[:] = command
    if with_provider:
        _kept_note[:] = ["Finished work is kept, and sent batches stay with the provider until they are fetched"]


def leave() -> NoReturn:
    """Report that the work was interrupted, and end the process at once.

    Files on disk are complete at every moment, and Python's own shutdown is not needed: it would only wait for threads,
    or report them. Child processes of memories are ended from outside (`carriers/guard.py`).
    """
    for number in (*SIGNALS, signal.SIGALRM):
        signal.signal(number, signal.SIG_IGN)
    remove_unfinished()
    by = "" if _number == signal.SIGINT else f" by {signal.Signals(_number).name}"
    with suppress(OSError):  # The terminal may be gone.
        err.print(f"Interrupted{by}. {_kept_note[0]}" + ("." if _continue else "; run the same command to continue."))
        err.next(*_continue)
        for stream in (out.file, sys.stdout, sys.stderr):
            stream.flush()
    os._exit(128 + _number)


def _first(number: int, frame: FrameType | None) -> None:
    global _number
    _number = number
    for signal_number in SIGNALS:
        if signal.getsignal(signal_number) is _first:
            signal.signal(signal_number, _second)
    request_end()
    event_loop = sys.modules.get("longmemeval.core.event_loop")
    if event_loop is None or not event_loop.cancel_work():
        raise KeyboardInterrupt
    signal.signal(signal.SIGALRM, _overdue)
    signal.setitimer(signal.ITIMER_REAL, _GOOD_ORDER_S, _AT_ONCE_S)


_overdue_before = False


def _overdue(number: int, frame: FrameType | None) -> None:
    """Stop work that does not end in good order: first by an exception, then without one."""
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
