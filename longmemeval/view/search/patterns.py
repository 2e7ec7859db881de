"""Search by regular expressions of a visitor, in a separate process that is killed if a pattern takes too long."""

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
"""The processor time in seconds that a pattern may take for all texts."""
_WAITING = 5
"""The factor from processor time to wall-clock time: the processor may be busy, or the system may not limit it."""
_LOOK_S = 0.05
_WORKER = Path(__file__).with_name("try_pattern.py")


def matching(pattern: str, texts: Sequence[str], stopped: Stopped, *, limit_s: int = LIMIT_S) -> list[int]:
    """Return the indexes of the texts in which a pattern is found, ignoring case.

    Args:
        pattern: a regular expression in the syntax of Python's `re`.
        texts: the texts to search.
        stopped: called during the search; once it returns True, the search ends and nothing is found.
        limit_s: processor time in seconds after which the search is ended.

    Raises:
        HarnessError: the pattern is invalid, or takes too much time or memory.
    """
    command = [sys.executable, "-I", "-S", str(_WORKER)]
    arguments = msgspec.json.encode([pattern, list(texts), limit_s])
    too_long = HarnessError(
        f"The pattern took longer than {limit_s} s and was ended",
        fix="Search for plain text, or leave out repetitions inside of repetitions",
    )
    with tempfile.TemporaryFile() as sent:  # A file, as `communicate` does not resume sending after a timeout.
        sent.write(arguments)
        sent.seek(0)
        with subprocess.Popen(command, stdin=sent, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as worker:
            ends = time.monotonic() + limit_s * _WAITING
            while (reply := _reply(worker)) is None:
                if stopped() or time.monotonic() > ends:
                    worker.kill()
                    if stopped():
                        return []
                    raise too_long
    if worker.returncode < 0:  # Ended by the system, which limits processor time.
        raise too_long
    if worker.returncode > 0:
        raise HarnessError("The pattern takes more memory than it may", fix="Search for plain text")
    result = msgspec.json.decode(reply, type=list[int] | str)
    if isinstance(result, str):
        raise HarnessError(f"This is no regular expression: {result}", fix="Search for plain text, or mend it")
    return result


def _reply(worker: subprocess.Popen[bytes]) -> bytes | None:
    """Return the output of the process once it has ended; None while it runs."""
    try:
        return worker.communicate(timeout=_LOOK_S)[0]
    except subprocess.TimeoutExpired:
        return None
