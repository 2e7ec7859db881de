"""From a name or a path to a data set."""

import json
import os
import re
from codecs import BOM_UTF8
from contextlib import suppress
from pathlib import Path

from longmemeval.benchmarks.catalogue import (
    CatalogueEntry,
    by_hand,
    catalogue,
    catalogue_entry,
    data_file,
    folder_missing,
    has_files,
)
from longmemeval.benchmarks.convomem.loader import ConvoMemDataset
from longmemeval.benchmarks.dataset_protocol import Dataset
from longmemeval.benchmarks.locomo.loader import LocomoDataset
from longmemeval.benchmarks.longmemeval.loader import LongMemEvalDataset, Record
from longmemeval.errors import DataError
from longmemeval.settings import folders

_LONGMEMEVAL_KEYS = frozenset(Record.__struct_fields__)
_LOCOMO_KEYS = frozenset({"conversation", "qa"})
_CONVOMEM_KEYS = frozenset({"evidence_items", "evidenceItems"})
_FIRST_KEY = re.compile(rb'\s*\[?\s*\{\s*"(\w+)"')
_FIRST_PIECE = 1 << 20
_LONGEST_RECORD = 1 << 26


def load_dataset(
    name_or_path: str | Path,
    data_dir: Path | None = None,
    *,
    captions: bool = True,
    allow_tainted: bool = False,
) -> Dataset:
    """Open a data set; which benchmark a file belongs to is told by the keys of its first record.

    Args:
        name_or_path: a catalogue name (a `str`), else the path of a file of LongMemEval's, LoCoMo's or ConvoMem's
            shape, or of a folder of ConvoMem's files.
        data_dir: where downloaded files are; None: the folder in force.
        captions: whether LoCoMo's turns keep the captions of shared pictures.
        allow_tainted: whether to accept the copy of LoCoMo in which a caption was edited to hold a gold answer.

    Returns:
        A `Dataset`.

    Raises:
        DataError: the name is unknown, or the data is absent, not of the catalogue's size, of no known shape, or not
            as the format demands.
    """
    if isinstance(name_or_path, str) and not is_path(name_or_path):
        entry = catalogue_entry(name_or_path)
        name, path = entry.name, _present(entry, data_dir or folders().data_dir)
    else:
        name, path = "", Path(name_or_path)
    if os.path.isdir(path):
        return ConvoMemDataset(path, name)
    keys = _keys_of_first_record(path)
    if keys & _CONVOMEM_KEYS:
        return ConvoMemDataset(path, name)
    if keys & _LOCOMO_KEYS:
        return LocomoDataset(path, name, captions, allow_tainted=allow_tainted)
    if keys and not keys & _LONGMEMEVAL_KEYS:
        raise DataError(
            f"The file has the shape of no known benchmark: the keys of its first record are {sorted(keys)[:12]}",
            where=str(path),
            fix="A record of LongMemEval has question_id, question, haystack_sessions and more; "
            "one of LoCoMo has sample_id, conversation and qa; one of ConvoMem has evidence_items or evidenceItems",
        )
    return LongMemEvalDataset(path, name)


def is_path(text: str) -> bool:
    """Whether `text` is taken for a path: it is no catalogue name and exists, has a separator, or ends in `.json`."""
    if text in catalogue():
        return False
    return "/" in text or "\\" in text or text.endswith(".json") or os.path.exists(text)


def _keys_of_first_record(path: Path) -> frozenset[str]:
    """Keys of the first record of an array, or of an object, found without reading the whole file; none without one.

    A first key that only ConvoMem has is enough: a whole file of it can be one record.
    """
    data, size = b"", _FIRST_PIECE
    # A file that cannot be read is the loader's to explain.
    with suppress(OSError, ValueError), path.open("rb") as handle:
        while len(data) < _LONGEST_RECORD and (piece := handle.read(size)):
            if not data:
                piece = piece.removeprefix(BOM_UTF8)
            if not data and (first := _FIRST_KEY.match(piece)) and first[1].decode() in _CONVOMEM_KEYS:
                return frozenset({first[1].decode()})
            data += piece
            size = 3 * len(data)
            if record := _first_record(data):
                return frozenset(record)
    return frozenset()


def _first_record(data: bytes) -> dict[str, object] | None:
    """The first object of the text, or array, of which `data` is the beginning; None when it does not end there."""
    text = data.decode(errors="ignore").lstrip().removeprefix("[").lstrip()
    try:
        record, _ = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def _present(entry: CatalogueEntry, data_dir: Path) -> Path:
    """The entry's file, there and of the right size; its hash is left to `datasets verify`, which is slower."""
    path = data_file(entry, data_dir)
    if entry.instructions and not has_files(path):
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
