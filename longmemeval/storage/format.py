"""Common format of a fixture's JSON files: the format number, and decoding with errors that name the file."""

from typing import Protocol, TypeVar

from msgspec import Struct

from longmemeval.core.text_files import UnreadableError, decode_json
from longmemeval.errors import FixtureError
from longmemeval.records import FixtureMeta

FORMAT = 1
"""Format of the parts: the same since the first version, so that their hashes stay the same."""
META_FORMAT = 2
"""Format of `meta.json`; format 1, of version 0.2, is read too."""

REMAKE = "Run `longmemeval prepare --force` with the same data set and memory to rebuild this fixture"


class _Versioned(Protocol):
    @property
    def format(self) -> int: ...


class _Version(Struct):
    format: int


V = TypeVar("V", bound=_Versioned)


def decode_versioned(data: bytes, shape: type[V], where: str, newest: int = FORMAT) -> V:
    """Decode one file of a fixture.

    Args:
        shape: struct to decode to; it has a field `format`.
        where: the file, for the error.
        newest: the newest supported format.

    Raises:
        FixtureError: the format is newer, or the content does not match it.
    """
    try:
        value = decode_json(data, shape)
    except UnreadableError as error:
        _check_format(_format_of(data), newest, where)
        raise FixtureError(f"The file is not a valid part of a fixture: {error}", where=where, fix=REMAKE) from error
    _check_format(value.format, newest, where)
    return value


def decode_meta(data: bytes, where: str) -> FixtureMeta:
    """Decode `meta.json`.

    Args:
        where: the file, for the error.

    Raises:
        FixtureError: as by `decode_versioned`.
    """
    return decode_versioned(data, FixtureMeta, where, META_FORMAT)


def _format_of(data: bytes) -> int:
    """Return the format number of a file that does not decode; `FORMAT` if even that is unreadable."""
    try:
        return decode_json(data, _Version).format
    except UnreadableError:
        return FORMAT


def _check_format(number: int, newest: int, where: str) -> None:
    if number > newest:
        raise FixtureError(
            f"format {number} is newer than this version understands ({newest}): upgrade longmemeval", where=where
        )
    if number < 1:
        raise FixtureError(f"There is no format {number} of fixtures", where=where, fix=REMAKE)
