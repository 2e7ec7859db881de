"""A data file mapped into memory, of which a bounded part is resident at a time, however large the file is."""

import hashlib
import mmap
import re
from collections.abc import Iterator
from functools import cached_property
from itertools import islice
from pathlib import Path

import msgspec
from msgspec import Raw

from longmemeval.benchmarks.faults import json_in, map_file

_RESIDENT_BYTES = 1 << 24
"""So much is looked at before the memory is given back."""
_BEGIN = re.compile(rb"[ \t\n\r]*\[[ \t\n\r]*")
_NEXT = re.compile(rb",[ \t\n\r]*")
_END = re.compile(rb"\][ \t\n\r]*\Z")
_BEHIND = re.compile(r"trailing characters \(byte (\d+)\)")
_ONE = msgspec.json.Decoder(Raw)
_ALL = msgspec.json.Decoder(list[Raw])


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
        """Count `size` bytes as looked at; of many, the memory is given back. Who looks again finds the same."""
        self._looked_at += size
        if self._looked_at >= _RESIDENT_BYTES:
            self._looked_at = 0
            if hasattr(mmap, "MADV_DONTNEED"):  # Not on Windows, which trims by itself.
                self._bytes.madvise(mmap.MADV_DONTNEED)

    def records(self) -> Iterator[memoryview | Raw]:
        """The JSON of each record in turn: a view of the mapping.

        Raises:
            msgspec.DecodeError, RecursionError: the file is not a JSON array; perhaps after some of its records.
        """
        place, count = self._begin(), 0
        while place is not None:
            end = self._end(place)
            if end is None:
                # Not as expected: the decoder of the whole says what is wrong, or knows better.
                yield from islice(_ALL.decode(self.json), count, None)
                return
            yield self.json[place:end]
            self.looked_at(end - place)
            count += 1
            following = _NEXT.match(self.json, end)
            place = following.end() if following else None

    def _begin(self) -> int | None:
        """Where the first record begins; None: there is none."""
        opened = _BEGIN.match(self.json)
        place = opened.end() if opened else 0
        return None if opened and _END.match(self.json, place) else place

    def _end(self, place: int) -> int | None:
        """Where the separator behind the record at `place` is; None where no record followed by one is found."""
        try:
            _ONE.decode(self.json[place:])
        except msgspec.DecodeError as error:
            # Decoding ends behind the first value; the error says where that is, counted from 1.
            if behind := _BEHIND.search(str(error)):
                end = place + int(behind[1]) - 1
                return end if _NEXT.match(self.json, end) or _END.match(self.json, end) else None
        return None
