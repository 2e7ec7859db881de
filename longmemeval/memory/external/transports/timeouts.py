"""How long a memory service may take, by method; the user can say otherwise."""

import os

from msgspec import Struct, structs

from longmemeval.errors import HarnessError, nearest

TIMEOUTS = "LONGMEMEVAL_MEMORY_TIMEOUTS"
"""The environment variable that changes them: `add=1200,search=120`."""


class Timeouts(Struct, frozen=True):
    """Seconds a service may take for each method; a longer call is given up and a child process ended."""

    hello: float = 180.0
    open: float = 180.0
    add: float = 600.0
    ready: float = 60.0
    search: float = 60.0
    snapshot: float = 600.0
    list: float = 60.0
    reset: float = 60.0
    shutdown: float = 5.0
    no_progress: float = 600.0
    """How long a scope may be pending while nothing more is done."""
    attempts: int = 4
    """Of a call that fails in a way that may pass."""


def patience_of(text: str | None = None) -> Timeouts:
    """The usual timeouts, changed by what the user says.

    Args:
        text: `method=seconds`, with commas between; None: that of the environment variable.

    Raises:
        HarnessError: a method does not exist, or its seconds are no positive number.
    """
    given: dict[str, float] = {}
    known = [name for name in Timeouts.__struct_fields__ if name != "attempts"]
    for one in (os.environ.get(TIMEOUTS, "") if text is None else text).split(","):
        name, _, seconds = (word.strip() for word in one.partition("="))
        if not one.strip():
            continue
        if name not in known:
            raise HarnessError(f"There is no time-out '{name}'", where=TIMEOUTS, fix=nearest(name, known))
        try:
            given[name] = float(seconds)
        except ValueError:
            given[name] = 0.0
        if not 0 < given[name] < float("inf"):
            fix = f"Write seconds above 0, such as {TIMEOUTS}={name}=1200"
            raise HarnessError(f"The time-out '{one.strip()}' has no number of seconds", where=TIMEOUTS, fix=fix)
    return structs.replace(Timeouts(), **given)
