"""Common format of a fixture's JSON files: the format number, and decoding with errors that name the file."""

from typing import Protocol, TypeVar

from msgspec import Struct

from longmemeval.core.text_files import UnreadableError, decode_json
from longmemeval.errors import FixtureError

FORMAT = 1
"""Format this version writes, and the newest it reads."""

REMAKE = "Run `longmemeval prepare --force` with the same data set and memory: it makes this fixture again"


class _Versioned(Protocol):
    @property
    def format(self) -> int: ...


class _Version(Struct):
    format: int


V = TypeVar("V", bound=_Versioned)


def decode_versioned(data: bytes, shape: type[V], where: str) -> V:
    """Decode one file of a fixture.

    Args:
        shape: struct to decode to; it has a field `format`.
        where: the file, for the error.

    Raises:
        FixtureError: the format is newer than `FORMAT`, or the content does not match that format.
    """
    try:
        value = decode_json(data, shape)
    except UnreadableError as error:
        _check_format(_format_of(data), where)
        raise FixtureError(f"The file is not a valid part of a fixture: {error}", where=where, fix=REMAKE) from error
    _check_format(value.format, where)
    return value


def _format_of(data: bytes) -> int:
    """Return the format number of a file that does not decode; `FORMAT` if even that is unreadable."""
    try:
        return decode_json(data, _Version).format
    except UnreadableError:
        return FORMAT


def _check_format(number: int, where: str) -> None:
    if number > FORMAT:
        raise FixtureError(
            f"format {number} is newer than this version understands ({FORMAT}): upgrade longmemeval", where=where
        )
    if number < 1:
        raise FixtureError(f"There is no format {number} of fixtures", where=where, fix=REMAKE)
