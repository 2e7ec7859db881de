"""Files of datasets: their bytes, mapped rather than read, and faults in them by record and field."""

import hashlib
import mmap
import re
import threading
from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeVar

import msgspec
from msgspec import Meta, Raw

from longmemeval.core.tables.parquet import MAGIC
from longmemeval.core.text_files import UnreadableError, without_mark
from longmemeval.errors import DataError, nearest

# Data files: mapped into memory, with errors that name the file, the record and the field.

_LONGEST_ID = 200
_NotEmpty = Meta(min_length=1)
Answered = (
    Annotated[str, _NotEmpty]
    | int
    | float
    | bool
    | Annotated[list[Any], _NotEmpty]
    | Annotated[dict[str, Any], _NotEmpty]
)
"""The field of a right answer, a `RightAnswer` that is not empty; `is_blank` says the rest.

A pattern in a union with lists or objects makes msgspec 0.22 free what is no pointer when the decoder goes.
"""
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
        fix = (
            "Write true or false, without quotes"
            if problem.startswith(("Expected `bool`", "Expected `bool | null`"))
            else ""
        )
        return self.fault(field, problem.replace("`", ""), fix)


def is_blank(answer: object) -> bool:
    """Return whether a right answer is a text of blanks."""
    return isinstance(answer, str) and not answer.strip()


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
                raise DataError("The dataset file is empty", where=str(path), fix="Download or write it again")
            return mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise DataError(f"The dataset file cannot be read: {reason}", where=str(path)) from error


def json_in(path: Path, data: bytes | mmap.mmap) -> memoryview:
    """Return the JSON of a data file: its bytes without a byte-order mark.

    Raises:
        DataError: the mark says that it is not UTF-8.
    """
    try:
        return without_mark(data)
    except UnreadableError as error:
        raise DataError(f"The dataset file cannot be read: {error}", where=str(path)) from error


def malformed(path: Path, size: int, error: Exception) -> DataError:
    """Return the error for a file of `size` bytes that cannot be split into records."""
    message = str(error)
    if foreign := foreign_form(path):
        what, fix = f"The dataset file is {foreign[0]}", foreign[1]
    elif half := re.search(r"(?:hex escape|surrogate).*", message):
        what = f"A text of the dataset file holds half a character, a surrogate alone: {half[0]}"
        fix = r"Delete its escape, such as \ud83d, or repair the text"
    elif "truncated" in message:
        what, fix = f"The dataset file looks truncated: its JSON ends early, after {size:,} bytes", "Download it again"
    elif isinstance(error, RecursionError):
        what, fix = "The dataset file is nested too deeply to be read", ""
    elif isinstance(error, msgspec.ValidationError):
        what, fix = "The dataset file is not a JSON array of records", "Put the records into one array: [{…}, {…}]"
    else:
        what, fix = f"The dataset file is not JSON: {message.removeprefix('JSON is malformed: ')}", ""
    return DataError(what, where=str(path), fix=fix)


_UNPACK = "Decompress it, and name the file that comes out"
_FORMS = {
    b"\x1f\x8b": ("compressed (gzip)", _UNPACK),
    b"PK\x03\x04": ("compressed (zip)", _UNPACK),
    b"BZh": ("compressed (bzip2)", _UNPACK),
    b"\xfd7zXZ": ("compressed (xz)", _UNPACK),
    b"\x28\xb5\x2f\xfd": ("compressed (zstd)", _UNPACK),
    MAGIC: (
        "a Parquet file",
        "Convert it to a JSON array of its rows: pandas.read_parquet(…).to_json(…, orient='records')",
    ),
    b"version https://git-lfs": (
        "a Git LFS pointer, not the data",
        "Run `git lfs pull` in its repository, or download the file itself",
    ),
    b"<": ("a web page, not the data", "Download the file itself, logged in where the site asks for it"),
}
"""What a file is that begins with these bytes, and what to do about it."""


def foreign_form(path: Path) -> tuple[str, str] | None:
    """Return what a file is that is no JSON array, and what to do about it; None if that is not known."""
    data = map_file(path)
    head = data[:64].lstrip()
    if known := next((form for begins, form in _FORMS.items() if head.startswith(begins)), None):
        return known
    if not head and not data[:].strip():
        return "empty: it holds only white space", "Download or write it again"
    end = end_of_value(memoryview(data)) if head.startswith(b"{") else None
    if end is not None and re.compile(rb"\s*\{").match(data, end):
        return "JSON Lines, a record a line", "Put the records into one array: `jq -s . FILE > data.json`"
    return None


def unknown_id(path: Path, kind: str, identifier: str, known: Iterable[str]) -> DataError:
    """Return the error for the id of a haystack or question that the data does not have; it names the nearest id."""
    return DataError(f"Unknown {kind} {identifier!r}", where=str(path), fix=nearest(identifier, known))


# A data file mapped into memory; only a bounded part is resident at a time, however large the file is.

_RESIDENT_BYTES = 1 << 24
"""Number of bytes read before their memory is released."""
_BEGIN = re.compile(rb"[ \t\n\r]*\[[ \t\n\r]*")
_NEXT = re.compile(rb",[ \t\n\r]*")
_END = re.compile(rb"\][ \t\n\r]*\Z")
_BEHIND = re.compile(r"trailing characters \(byte (\d+)\)")
_ONE = msgspec.json.Decoder(Raw)
_ALL = msgspec.json.Decoder(list[Raw])
_decoding = threading.local()


def note_read(size: int) -> None:
    """Count `size` more bytes of the file that this thread decodes as read.

    A record type calls it when a record is made (`__post_init__`), so that memory is released in the middle of a pass.
    """
    file: MappedFile | None = getattr(_decoding, "file", None)
    if file is not None:
        file.count_read(size)


def end_of_value(data: memoryview) -> int | None:
    """Return the index after the first JSON value of `data`; None without a value, or if nothing follows it."""
    try:
        _ONE.decode(data)
    except msgspec.DecodeError as error:
        # Decoding stops after the first value; the error states the position, counted from 1.
        if behind := _BEHIND.search(str(error)):
            return int(behind[1]) - 1
    return None


class MappedFile:
    """A JSON array of records.

    Args:
        path: the file.

    Raises:
        DataError: the file is empty or cannot be read, or its byte-order mark says that it is not UTF-8.
    """

    def __init__(self, path: Path) -> None:
        self._bytes = map_file(path)
        self._bytes_read = 0
        self.json = json_in(path, self._bytes)
        """The whole file, without a byte-order mark."""

    @cached_property
    def sha256(self) -> str:
        """Hash of the file's bytes, 64 hexadecimal digits."""
        digest = hashlib.sha256()
        with memoryview(self._bytes) as view:
            for start in range(0, len(view), _RESIDENT_BYTES):
                digest.update(view[start : start + _RESIDENT_BYTES])
                self.count_read(_RESIDENT_BYTES)
        return digest.hexdigest()

    def count_read(self, size: int) -> None:
        """Count `size` bytes as read, and release memory once they are many. Later reads see the same bytes."""
        self._bytes_read += size
        if self._bytes_read >= _RESIDENT_BYTES:
            self._bytes_read = 0
            if hasattr(mmap, "MADV_DONTNEED"):  # Missing on Windows, which trims by itself.
                self._bytes.madvise(mmap.MADV_DONTNEED)

    def records(self) -> Iterator[memoryview | Raw]:
        """Yield the JSON of each record in order, as a view of the mapping.

        Raises:
            msgspec.DecodeError, RecursionError: the file is not a JSON array; possibly raised after some records.
        """
        place, count = self._begin(), 0
        while place is not None:
            size = end_of_value(self.json[place:])
            end = None if size is None else place + size
            if end is None or not (_NEXT.match(self.json, end) or _END.match(self.json, end)):
                # Unexpected: the decoder of the whole file reports the error, or can read it.
                yield from islice(_ALL.decode(self.json), count, None)
                return
            yield self.json[place:end]
            self.count_read(end - place)
            count += 1
            following = _NEXT.match(self.json, end)
            place = following.end() if following else None

    def decode(self, decoder: "msgspec.json.Decoder[_T]") -> _T:
        """Decode the whole file in one pass.

        Args:
            decoder: decoder of the array; its `Raw` fields are views of the mapping. Memory is bounded if its records
                call `note_read`.

        Raises:
            msgspec.DecodeError, RecursionError: the file is not what the decoder expects.
        """
        _decoding.file = self
        try:
            return decoder.decode(self.json)
        finally:
            del _decoding.file

    def _begin(self) -> int | None:
        """Return the index at which the first record begins; None without records."""
        opened = _BEGIN.match(self.json)
        place = opened.end() if opened else 0
        return None if opened and _END.match(self.json, place) else place
