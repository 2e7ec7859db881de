"""Record classes made ready for threads."""

from contextlib import suppress

import msgspec
from msgspec import Struct


def make_ready() -> None:
    """Have msgspec read the fields of every record class that is loaded.

    It does so when a class is decoded for the first time, and a process in which two threads do that at once crashes
    (msgspec 0.22).
    """
    waiting: list[type[Struct]] = [Struct]
    while waiting:
        found = waiting.pop()
        waiting += found.__subclasses__()
        # Some classes are never decoded and have fields that cannot be: arrays, errors, names for types alone.
        with suppress(TypeError, NameError):
            msgspec.json.Decoder(found)
