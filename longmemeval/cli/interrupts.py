"""Ctrl-C: the first ends the work in good order, the second at once; neither shows a traceback."""

import os
import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import NoReturn

from longmemeval.cli.output import err
from longmemeval.files import remove_unfinished

Handler = Callable[[int, FrameType | None], object]
INTERRUPTED = 130

_SHOW_CURSOR = "\x1b[?25h"


def handle_interrupts(instead_of: Handler = signal.default_int_handler) -> None:
    """Take over Ctrl-C for this process, unless it was told to ignore it.

    Args:
        instead_of: who had it until now.
    """
    if signal.getsignal(signal.SIGINT) is instead_of:
        signal.signal(signal.SIGINT, _first)


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
    threads, or report them.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    remove_unfinished()
    err.print(f"Interrupted. {_kept[0]}" + ("." if _continue else "; run the same command to continue."))
    err.next(*_continue)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(INTERRUPTED)


def _first(number: int, frame: FrameType | None) -> None:
    signal.signal(signal.SIGINT, _second)
    event_loop = sys.modules.get("longmemeval.event_loop")
    if event_loop is None or not event_loop.cancel_work():
        raise KeyboardInterrupt


def _second(number: int, frame: FrameType | None) -> None:
    if sys.stderr.isatty():
        # A progress bar hides the cursor and has no chance to show it again.
        sys.stderr.write(_SHOW_CURSOR)
    leave()
