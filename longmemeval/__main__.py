"""The command `longmemeval`, also as `python -m longmemeval`.

Slow imports are inside `main`, so that Ctrl-C works the same from the first moment on.
"""

import os
import signal
import sys
from contextlib import suppress
from types import FrameType


def main() -> None:
    """Run the command line; see `longmemeval.cli.main`."""
    if sys.platform == "win32":
        sys.stderr.write("Error: longmemeval runs on Linux and macOS. On Windows, run it in WSL.\n")
        sys.exit(2)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) in (signal.default_int_handler, signal.SIG_DFL):
            # Not an exception: a library being loaded could swallow or report it.
            signal.signal(number, _too_early)
    from longmemeval.cli.main import handle_interrupts
    from longmemeval.cli.main import main as command

    handle_interrupts(instead_of=_too_early)
    command()


def _too_early(number: int, frame: FrameType | None) -> None:
    with suppress(OSError):
        os.write(2, b"Interrupted. Nothing was started.\n")
    os._exit(128 + number)


if __name__ == "__main__":
    main()
