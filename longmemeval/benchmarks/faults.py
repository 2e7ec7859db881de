"""Data files: mapped into memory, with errors that name the file, the record and the field."""

import mmap
import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec
from msgspec import Raw

from longmemeval.core.text_files import UnreadableError, without_mark
from longmemeval.errors import DataError, nearest

_LONGEST_ID = 200
_T = TypeVar("_T")


class Place(NamedTuple):
    """A record of a file, which makes the errors about its fields."""

    path: Path
    number: int
    """Number of the record, from 1."""
    label: str
    """Name of the record, such as `conversation 'conv-26'`; empty if it has none."""

    def fault(self, field: str, what: str, fix: str = "") -> DataError:
        """Return an error about `field`, a path such as `qa[3].evidence`; empty: the whole record."""
        label = f", {self.label}" if self.label else ""
        place = f", field {field}" if field else ""
        return DataError(what, where=f"{self.path}, record {self.number} (counted from 1){label}{place}", fix=fix)

    def decode(self, field: str, decoder: "msgspec.json.Decoder[_T]", raw: Raw) -> _T:
        """Decode the JSON of `field` (empty: the whole record); raise a `DataError` that names the innermost field."""
        try:
            return decoder.decode(raw)
        except msgspec.ValidationError as error:
            raise self._violation(field, str(error)) from None
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise self.fault(field, f"The text is not valid Unicode: {error}", "Write the file as UTF-8") from None

    def _violation(self, field: str, message: str) -> DataError:
        """Return the decoder's message in plain words."""
        problem, _, path = message.partition(" - at `$")
        field = (field + path.removesuffix("`")).lstrip(".")
        if missing := re.fullmatch(r"Object missing required field `(\w+)`", problem):
            return self.fault(f"{field}.{missing[1]}".lstrip("."), f"The field {missing[1]!r} is missing")
        if role := re.fullmatch(r"Invalid enum value (.*)", problem, re.DOTALL):
            return self.fault(field, f"{role[1]} is not a role", "The role of a turn is 'user' or 'assistant'")
        if "matching regex" in problem or "length >= 1" in problem:
            return self.fault(field, "The text is empty or blank")
        return self.fault(field, problem.replace("`", ""))


def problem_of_id(identifier: str) -> str:
    """Return the reason why an id cannot be a name on disk or in a terminal; empty if it can."""
    if len(identifier) > _LONGEST_ID:
        return f"has {len(identifier)} characters, but at most {_LONGEST_ID} are allowed"
    if identifier.startswith("."):
        return "begins with a dot"
    if "/" in identifier or "\\" in identifier:
        return "holds a path separator"
    if not identifier.isprintable():
        return "holds a character that cannot be printed"
    return ""


def map_file(path: Path) -> mmap.mmap:
    """Map the bytes of a data file, read-only.

    Raises:
        DataError: it is empty or cannot be read.
    """
    try:
        with path.open("rb") as handle:
            if path.stat().st_size == 0:
                raise DataError("The data set file is empty", where=str(path), fix="Download or write it again")
            return mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise DataError(f"The data set file cannot be read: {reason}", where=str(path)) from error


def json_in(path: Path, data: bytes | mmap.mmap) -> memoryview:
    """Return the JSON of a data file: its bytes without a byte-order mark.

    Raises:
        DataError: the mark says that it is not UTF-8.
    """
    try:
        return without_mark(data)
    except UnreadableError as error:
        raise DataError(f"The data set file cannot be read: {error}", where=str(path)) from error


def malformed(path: Path, size: int, error: Exception) -> DataError:
    """Return the error for a file of `size` bytes that cannot be split into records."""
    message = str(error)
    if "truncated" in message:
        what, fix = f"The data set file looks truncated: its JSON ends early, after {size:,} bytes", "Download it again"
    elif isinstance(error, RecursionError):
        what, fix = "The data set file is nested too deeply to be read", ""
    elif isinstance(error, msgspec.ValidationError):
        what, fix = "The data set file is not a JSON array of records", "Put the records into one array: [{…}, {…}]"
    else:
        what, fix = f"The data set file is not JSON: {message.removeprefix('JSON is malformed: ')}", ""
    return DataError(what, where=str(path), fix=fix)


def unknown_id(path: Path, kind: str, identifier: str, known: Iterable[str]) -> DataError:
    """Return the error for the id of a haystack or question that the data does not have; it names the nearest id."""
    return DataError(f"There is no {kind} {identifier!r}", where=str(path), fix=nearest(identifier, known))
