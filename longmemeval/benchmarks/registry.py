"""Data sets by name or path."""

import json
import os
import re
from codecs import BOM_UTF8
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from longmemeval.benchmarks.catalogue import (
    CatalogueEntry,
    by_hand,
    catalogue,
    catalogue_entry,
    data_file,
    folder_missing,
    folder_state,
)
from longmemeval.benchmarks.mapped_file import end_of_value
from longmemeval.benchmarks.spec import Benchmark, Sniffed
from longmemeval.benchmarks.specs import BENCHMARK_SPECS, benchmarks, broken_benchmarks
from longmemeval.core.remote.places import anchored
from longmemeval.core.tables.parquet import MAGIC, parquet_keys
from longmemeval.dataset import Dataset
from longmemeval.errors import DataError, HarnessError, nearest
from longmemeval.settings import Folders

_BEFORE_RECORD = re.compile(rb"\s*\[?\s*")
_FIRST_KEY = re.compile(rb'\s*\[?\s*\{\s*"(\w+)"')
_KEYS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_FIRST_PIECE = 1 << 20
_LONGEST_RECORD = 1 << 26


def load_dataset(name_or_path: str | Path, data_dir: Path | None = None, **options: object) -> Dataset:
    """Open a data set. A file is recognised by its benchmark, mostly by the keys of its first record.

    Args:
        name_or_path: a catalogue name (a `str`), else the path of a file, or folder, in the format of some benchmark.
        data_dir: folder of downloaded files; None: the current default.
        options: options of the benchmark's loader; LoCoMo's takes `captions` (False: without the captions of shared
            pictures) and `allow_tainted` (True: also the copy in which a caption was edited to contain a gold answer).

    Returns:
        A `Dataset`.

    Raises:
        DataError: the name is unknown, or the data is absent, not of the catalogue's size, in the format of no known
            benchmark or of two, or invalid.
    """
    if isinstance(name_or_path, str) and not is_path(name_or_path):
        entry = catalogue_entry(name_or_path)
        name, path = entry.name, _present(entry, data_dir or Folders().data_dir)
    else:
        name, path = "", anchored(Path(name_or_path))
    benchmark = _claimant(path)
    for option in options:
        if option not in benchmark.options:
            what = f"Data of {benchmark.title} has no option '{option}'"
            raise DataError(what, fix=nearest(option, benchmark.options) if benchmark.options else "Leave it out")
    try:
        return benchmark.load(path, name, **options)
    except HarnessError:
        raise
    except Exception as error:
        if benchmark.name in BENCHMARK_SPECS.built_in:
            raise
        what = f"The loader of {benchmark.title} failed with {type(error).__name__}: {error}"
        raise DataError(what, where=str(path), fix="Correct the data, or that benchmark's code") from error


def is_path(text: str) -> bool:
    """Return whether `text` is a path: not a catalogue name, and it exists, has a separator or ends in `.json`."""
    if text in catalogue():
        return False
    return "/" in text or "\\" in text or text.endswith(".json") or os.path.exists(text)


def _claimant(path: Path) -> Benchmark:
    """Return the benchmark that claims the data; without records the first one, whose loader reports the error."""
    # Not `path.is_dir()`, which raises an error for a name that is too long.
    sniffed = Sniffed(path, is_folder=True) if os.path.isdir(path) else Sniffed(path, keys=_keys_of_first_record(path))
    claimants = [benchmark for benchmark in benchmarks() if _claims(benchmark, sniffed)]
    if len(claimants) > 1:
        raise DataError(
            f"Several benchmarks claim this data: {', '.join(claimant.name for claimant in claimants)}",
            where=str(path),
            fix="Uninstall the package of one of them, or make it claim less",
        )
    if not claimants and (sniffed.is_folder or sniffed.keys):
        raise _unknown_shape(sniffed)
    return claimants[0] if claimants else benchmarks()[0]


def _unknown_shape(sniffed: Sniffed) -> DataError:
    kind = "The folder" if sniffed.is_folder else "The file"
    keys = f": the keys of its first record are {sorted(sniffed.keys)[:12]}" if sniffed.keys else ""
    known = "; ".join(f"{spec.title}: {spec.shape}" for spec in benchmarks() if spec.shape)
    return DataError(
        f"{kind} is not in the format of any known benchmark{keys}",
        where=str(sniffed.path),
        fix=". ".join([f"Known formats: {known}", *broken_benchmarks()]),
    )


def _keys_of_first_record(path: Path) -> frozenset[str]:
    """Return the keys of the first record of an array, or of an object, without reading the whole file.

    If the record is cut off, or longer than `_LONGEST_RECORD`, return only its first key, since a whole file can be one
    record. Return none without a record, and the columns for a Parquet file.
    """
    data, size = b"", _FIRST_PIECE
    # The loader explains why a file cannot be read.
    with suppress(OSError, ValueError), path.open("rb") as handle:
        while len(data) < _LONGEST_RECORD and (piece := handle.read(size)):
            if not data and piece.startswith(MAGIC):
                return parquet_keys(path)
            if not data:
                piece = piece.removeprefix(BOM_UTF8)
            data += piece
            size = 3 * len(data)
            if record := _first_record(data):
                return frozenset(record)
    first = _FIRST_KEY.match(data)
    return frozenset({first[1].decode()}) if first else frozenset()


def _claims(benchmark: Benchmark, sniffed: Sniffed) -> bool:
    try:
        return bool(benchmark.claims(sniffed))
    except Exception:
        if benchmark.name in BENCHMARK_SPECS.built_in:
            raise
        # A benchmark whose check fails must not affect the data of others.
        return False


def _first_record(data: bytes) -> Mapping[str, object] | None:
    """Return the first object of a text or array that begins with `data`; None if its end is not in `data`."""
    before = _BEFORE_RECORD.match(data)
    view = memoryview(data)[before.end() if before else 0 :]
    with suppress(msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return _KEYS.decode(view[: end_of_value(view)])
    # A truncated record, or one that only Python's own reader accepts (`NaN`).
    try:
        record, _ = json.JSONDecoder().raw_decode(str(view, "utf-8", "ignore"))
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def _present(entry: CatalogueEntry, data_dir: Path) -> Path:
    """Return the entry's file if it has the right size; the slow check of its hash is left to `datasets verify`."""
    path = data_file(entry, data_dir)
    if entry.is_folder and folder_state(path) != "yes":
        raise folder_missing(entry, path)
    if entry.source is None:
        return path
    if not path.is_file():
        fix = f"Run `longmemeval datasets download {entry.name}`, or {by_hand(entry.source, path)}"
        raise DataError(f"The data set {entry.name!r} is not downloaded", where=str(path), fix=fix)
    size = path.stat().st_size
    if size != entry.source.bytes:
        raise DataError(
            f"The file of {entry.name!r} differs from the catalogue: {size:,} bytes, not {entry.source.bytes:,}",
            where=str(path),
            fix=f"Run `longmemeval datasets download {entry.name}` to replace it, or load another file by its path",
        )
    return path
