"""A data file mapped into memory, with a bounded part resident at a time, however large the file is."""

import hashlib
import mmap
import re
import threading
from collections.abc import Callable, Iterator
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import Raw, Struct

from longmemeval.benchmarks.faults import json_in, map_file

_RESIDENT_BYTES = 1 << 24
"""Number of bytes read before their memory is released."""
_BEGIN = re.compile(rb"[ \t\n\r]*\[[ \t\n\r]*")
_NEXT = re.compile(rb",[ \t\n\r]*")
_END = re.compile(rb"\][ \t\n\r]*\Z")
_BEHIND = re.compile(r"trailing characters \(byte (\d+)\)")
_ONE = msgspec.json.Decoder(Raw)
_ALL = msgspec.json.Decoder(list[Raw])
_decoded = threading.local()
_R = TypeVar("_R", bound="OnePassRecord")
_T = TypeVar("_T")


class OnePassRecord(Struct, frozen=True):
    """A record that `MappedFile.decode` reads in one pass.

    Where a record ends is known only from the error that something follows it, and the error loses what was decoded.
    The record therefore stores itself before the error is raised.
    """

    def __post_init__(self) -> None:
        _decoded.record = self


class MappedFile:
    """A JSON array of records.

    Args:
        path: the file.

    Raises:
        DataError: it is empty, cannot be read, or its mark says that it is not UTF-8.
    """

    def __init__(self, path: Path) -> None:
        self._bytes = map_file(path)
        self._looked_at = 0
        self.json = json_in(path, self._bytes)
        """The whole file, without a byte-order mark."""

    @cached_property
    def sha256(self) -> str:
        """Hash of the file's bytes, 64 hexadecimal digits."""
        digest = hashlib.sha256()
        with memoryview(self._bytes) as view:
            for start in range(0, len(view), _RESIDENT_BYTES):
                digest.update(view[start : start + _RESIDENT_BYTES])
                self.looked_at(_RESIDENT_BYTES)
        return digest.hexdigest()

    def looked_at(self, size: int) -> None:
        """Count `size` bytes as read, and release the memory of many. Later reads see the same bytes."""
        self._looked_at += size
        if self._looked_at >= _RESIDENT_BYTES:
            self._looked_at = 0
            if hasattr(mmap, "MADV_DONTNEED"):  # Not on Windows, which trims by itself.
                self._bytes.madvise(mmap.MADV_DONTNEED)

    def records(self) -> Iterator[memoryview | Raw]:
        """Yield the JSON of each record in turn: a view of the mapping.

        Raises:
            msgspec.DecodeError, RecursionError: the file is not a JSON array; perhaps after some of its records.
        """
        return self._split(lambda place, end: self.json[place:end], lambda raw: raw, _ONE)

    def decode(self, decoder: "msgspec.json.Decoder[_R]") -> Iterator[_R]:
        """Decode each record in turn, in one pass over the file.

        Args:
            decoder: decoder of a `OnePassRecord`; its `Raw` fields are views of the mapping.

        Raises:
            msgspec.DecodeError, RecursionError: the file is not a JSON array of such records; perhaps after some.
        """
        try:
            yield from self._split(lambda place, end: _decoded.__dict__.pop("record"), decoder.decode, decoder)
        finally:
            # The views of the record would keep the mapping open.
            _decoded.__dict__.clear()

    def _split(
        self, found: Callable[[int, int], _T], decode: Callable[[Raw], _T], decoder: "msgspec.json.Decoder[Any]"
    ) -> Iterator[_T]:
        """Yield the result of `found` for the bounds of each record that `decoder` has just read.

        A file that cannot be split that way is split by the decoder of the whole and given to `decode`.
        """
        place, count = self._begin(), 0
        while place is not None:
            end = self._end(place, decoder)
            if end is None:
                # Unexpected: the decoder of the whole reports the error, or can read the file.
                yield from map(decode, islice(_ALL.decode(self.json), count, None))
                return
            yield found(place, end)
            self.looked_at(end - place)
            count += 1
            following = _NEXT.match(self.json, end)
            place = following.end() if following else None

    def _begin(self) -> int | None:
        """Return the index at which the first record begins; None without records."""
        opened = _BEGIN.match(self.json)
        place = opened.end() if opened else 0
        return None if opened and _END.match(self.json, place) else place

    def _end(self, place: int, decoder: "msgspec.json.Decoder[Any]") -> int | None:
        """Return the index of the separator after the record at `place`; None unless a record with one is found."""
        try:
            decoder.decode(self.json[place:])
        except msgspec.DecodeError as error:
            # Decoding ends after the first value; the error has the position, counted from 1.
            if behind := _BEHIND.search(str(error)):
                end = place + int(behind[1]) - 1
                return end if _NEXT.match(self.json, end) or _END.match(self.json, end) else None
        return None
