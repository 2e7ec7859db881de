"""Progress of the scopes that are being filled: small files that any process of the machine can read."""

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
    """Number of batches."""
    added: int = 0
    ready: int = 0
    """Batches that can be found, once all were added."""


def note(place: Path, progress: UnderWay) -> None:
    """Record the progress of the scope whose state is at `place`."""
    with suppress(OSError):  # It is for display only.
        place.with_suffix(_SUFFIX).write_bytes(msgspec.json.encode(progress))


def forget(place: Path) -> None:
    """Delete the record of a scope that is no longer being filled."""
    place.with_suffix(_SUFFIX).unlink(missing_ok=True)


def shown(places: Path, part: str, label: str, since: float) -> str:
    """Return a line about all scopes of a part that are being filled; empty if there are none.

    Args:
        places: the folder with the states of scopes.
        part: the part's name.
        label: the name of the service.
        since: seconds as in file times; older files are leftovers of processes that died.
    """
    found = []
    for file in sorted(places.glob(f"*{_SUFFIX}")):
        with suppress(OSError, msgspec.DecodeError):  # The file may be incomplete, or gone.
            progress = msgspec.json.decode(file.read_bytes(), type=UnderWay)
            if progress.part == part and file.stat().st_mtime >= since:
                found.append(progress)
    if not found:
        return ""
    added, total = sum(scope.added for scope in found), sum(scope.total for scope in found)
    ready = sum(scope.ready for scope in found)
    waiting = f", {ready} ready" if any(scope.added == scope.total for scope in found) else ""
    return f"{label}: {added} of {total} batches{waiting}"
