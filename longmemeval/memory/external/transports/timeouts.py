"""Time-outs of memory services by method, and their environment variable."""

import os

from msgspec import Struct, structs

from longmemeval.errors import HarnessError, nearest

TIMEOUTS = "LONGMEMEVAL_MEMORY_TIMEOUTS"
"""The environment variable that changes time-outs: `add=1200,search=120`."""


class Timeouts(Struct, frozen=True):
    """Seconds a service may take for each method; a longer call fails, and a child process is killed."""

    hello: float = 180.0
    open: float = 180.0
    add: float = 600.0
    ready: float = 60.0
    search: float = 60.0
    delete: float = 600.0
    snapshot: float = 600.0
    list: float = 60.0
    reset: float = 60.0
    shutdown: float = 5.0
    no_progress: float = 600.0
    """Seconds a scope may be pending without progress."""
    attempts: int = 4
    """Attempts of a call that fails with a temporary error."""


def patience_of(text: str | None = None) -> Timeouts:
    """Return the default time-outs with the user's changes.

    Args:
        text: `method=seconds`, separated by commas; None: from the environment variable.

    Raises:
        HarnessError: a method does not exist, or its seconds are not a positive number.
    """
    changed: dict[str, float] = {}
    known = [name for name in Timeouts.__struct_fields__ if name != "attempts"]
    for setting in (os.environ.get(TIMEOUTS, "") if text is None else text).split(","):
        name, _, seconds = (word.strip() for word in setting.partition("="))
        if not setting.strip():
            continue
        if name not in known:
            raise HarnessError(f"There is no time-out '{name}'", where=TIMEOUTS, fix=nearest(name, known))
        try:
            changed[name] = float(seconds)
        except ValueError:
            changed[name] = 0.0
        if not 0 < changed[name] < float("inf"):
            fix = f"Write seconds above 0, such as {TIMEOUTS}={name}=1200"
            raise HarnessError(f"The time-out '{setting.strip()}' needs a number of seconds", where=TIMEOUTS, fix=fix)
    return structs.replace(Timeouts(), **changed)
