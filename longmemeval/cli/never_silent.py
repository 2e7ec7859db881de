"""A command that has nothing to show yet says that it works."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread

SILENT_AT_MOST_S = 1.3
"""Until a command that has printed nothing says that it works."""


@contextmanager
def never_silent(command: str, has_printed: Callable[[], bool]) -> Iterator[None]:
    """Say on standard error that `command` works where nothing was printed for `SILENT_AT_MOST_S`.

    It covers what comes before the first bar: imports, reading data, recomputing figures. With `--progress json` or
    `off` it says nothing.

    Args:
        command: as the user typed it, without its options.
        has_printed: whether anything was printed until now.
    """
    ended = Event()

    def watch() -> None:
        if ended.wait(SILENT_AT_MOST_S) or has_printed():
            return
        from longmemeval.pipeline.progress import how_far

        far = how_far()
        # Where standard error is closed or full the command itself will say so.
        with suppress(OSError, ValueError):
            if far is not None:
                sys.stderr.write(f"{command} is working{f': {far}' if far else '; there is nothing to show yet'}.\n")
                sys.stderr.flush()

    Thread(target=watch, daemon=True).start()
    try:
        yield
    finally:
        ended.set()
