"""How far the scopes that are being filled have come: small files that any process of the machine can read."""

from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

_SUFFIX = ".progress"


class UnderWay(Struct, frozen=True):
    """One scope that is being filled."""

    part: str
    """The part it belongs to."""
    total: int
    """Batches."""
    added: int = 0
    ready: int = 0
    """Those that can be found, once all were added."""


def note(place: Path, told: UnderWay) -> None:
    """Write down how far the scope has come whose state is at `place`."""
    with suppress(OSError):  # It is for show.
        place.with_suffix(_SUFFIX).write_bytes(msgspec.json.encode(told))


def forget(place: Path) -> None:
    """The scope is not being filled any more."""
    place.with_suffix(_SUFFIX).unlink(missing_ok=True)


def shown(places: Path, part: str, label: str, since: float) -> str:
    """A line on all scopes of a part that are under way; empty where there are none.

    Args:
        places: where the states of scopes are.
        part: the part's name.
        label: what the service is called.
        since: what is older is a leftover of a process that died; seconds as files have them.
    """
    found = []
    for file in sorted(places.glob(f"*{_SUFFIX}")):
        with suppress(OSError, msgspec.DecodeError):  # It may be being written, or gone.
            told = msgspec.json.decode(file.read_bytes(), type=UnderWay)
            if told.part == part and file.stat().st_mtime >= since:
                found.append(told)
    if not found:
        return ""
    added, total = sum(one.added for one in found), sum(one.total for one in found)
    ready = sum(one.ready for one in found)
    waiting = f", {ready} ready" if any(one.added == one.total for one in found) else ""
    return f"{label}: {added} of {total} batches{waiting}"
