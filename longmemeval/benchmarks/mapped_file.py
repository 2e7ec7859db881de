"""A data file mapped into memory; only a bounded part is resident at a time, however large the file is."""

import hashlib
import mmap
import re
import threading
from collections.abc import Iterator
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import Raw

from longmemeval.benchmarks.faults import json_in, map_file

_RESIDENT_BYTES = 1 << 24
"""Number of bytes read before their memory is released."""
_BEGIN = re.compile(rb"[ \t\n\r]*\[[ \t\n\r]*")
_NEXT = re.compile(rb",[ \t\n\r]*")
_END = re.compile(rb"\][ \t\n\r]*\Z")
_BEHIND = re.compile(r"trailing characters \(byte (\d+)\)")
_ONE = msgspec.json.Decoder(Raw)
_ALL = msgspec.json.Decoder(list[Raw])
_decoding = threading.local()
_T = TypeVar("_T")


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
