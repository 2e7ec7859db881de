"""Report that a command is working if it has nothing to show yet."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread

SILENT_AT_MOST_S = 1.3
"""Seconds until a command that has printed nothing reports that it is working."""


@contextmanager
def never_silent(command: str, has_printed: Callable[[], bool]) -> Iterator[None]:
    """Report on standard error that `command` is working if nothing is printed for `SILENT_AT_MOST_S`.

    This covers the time before the first progress bar: imports, reading data, recomputing figures. With
    `--progress json` or `off` nothing is reported.

    Args:
        command: as the user typed it, without its options.
        has_printed: returns whether anything was printed so far.
    """
    ended = Event()

    def watch() -> None:
        if ended.wait(SILENT_AT_MOST_S) or has_printed():
            return
        from longmemeval.pipeline.progress import how_far

        far = how_far()
        # If standard error is closed or full, the command itself reports it.
        with suppress(OSError, ValueError):
            if far is not None:
                sys.stderr.write(f"{command} is working{f': {far}' if far else '; there is nothing to show yet'}.\n")
                sys.stderr.flush()

    Thread(target=watch, daemon=True).start()
    try:
        yield
    finally:
        ended.set()
