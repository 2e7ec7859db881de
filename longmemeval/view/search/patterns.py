"""Regular expressions of a visitor, tried in a process of their own: one that takes too long is ended with it."""

import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from longmemeval.errors import HarnessError
from longmemeval.view.search.literal import Stopped

LIMIT_S = 2
"""Seconds of a processor that a pattern may take over all texts."""
_WAITING = 5
"""Times as many on the clock, as a processor may be busy with other work, or not be counted on this system."""
_LOOK_S = 0.05
_WORKER = Path(__file__).with_name("try_pattern.py")


def matching(pattern: str, texts: Sequence[str], stopped: Stopped, *, limit_s: int = LIMIT_S) -> list[int]:
    """Return the places of the texts in which a pattern is found, whatever its case.

    Args:
        pattern: in the syntax of Python's `re`.
        texts: that are searched.
        stopped: asked while it runs; once it is true, nothing is found.
        limit_s: seconds of a processor until it is ended.

    Raises:
        HarnessError: it is no pattern, or takes longer or more memory than it may.
    """
    command = [sys.executable, "-I", "-S", str(_WORKER)]
    given = msgspec.json.encode([pattern, list(texts), limit_s])
    too_long = HarnessError(
        f"The pattern took longer than {limit_s} s and was ended",
        fix="Search for plain text, or leave out repetitions inside of repetitions",
    )
    with tempfile.TemporaryFile() as sent:  # A file, as `communicate` does not go on sending once it timed out.
        sent.write(given)
        sent.seek(0)
        with subprocess.Popen(command, stdin=sent, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as worker:
            ends = time.monotonic() + limit_s * _WAITING
            while (reply := _reply(worker)) is None:
                if stopped() or time.monotonic() > ends:
                    worker.kill()
                    if stopped():
                        return []
                    raise too_long
    if worker.returncode < 0:  # Ended by the system, which counts its seconds.
        raise too_long
    if worker.returncode > 0:
        raise HarnessError("The pattern takes more memory than it may", fix="Search for plain text")
    found = msgspec.json.decode(reply, type=list[int] | str)
    if isinstance(found, str):
        raise HarnessError(f"This is no regular expression: {found}", fix="Search for plain text, or mend it")
    return found


def _reply(worker: subprocess.Popen[bytes]) -> bytes | None:
    """Return what the process has written once it has ended; None while it is at work."""
    try:
        return worker.communicate(timeout=_LOOK_S)[0]
    except subprocess.TimeoutExpired:
        return None
