"""Check that data is here and unchanged since its publication, for `datasets list` and `datasets verify`."""

from pathlib import Path
from typing import Literal

from msgspec import Struct

from longmemeval.benchmarks.catalogue import CatalogueEntry, Source, catalogue_entry, data_file, folder_state
from longmemeval.benchmarks.registry import is_path, load_dataset
from longmemeval.benchmarks.repository import changed_files
from longmemeval.core.files import sha256_file
from longmemeval.errors import DataError, IntegrityError


class VerifiedData(Struct, frozen=True):
    """Data that has passed the check: it matches the catalogue, or every record is in its format."""

    path: str
    bytes: int
    """Total size of the files in bytes."""
    sha256: str
    content_sha256: str | None
    """Hash of the content, independent of its form; None if only the catalogue's hash was compared."""
    pinned: bool
    """True if size and hash match the catalogue; the records were not read in that case."""
    questions: int | None
    """Number of questions read; None if `pinned`."""


def verify_data(name_or_path: str, data_dir: Path) -> VerifiedData:
    """Check the hash of a data set against the catalogue or, if none is pinned, every record against the format.

    Args:
        name_or_path: a catalogue name, else the path of a file or folder.
        data_dir: folder of downloaded files.

    Raises:
        DataError: the name is unknown, the data is absent, or a record does not match the format.
        IntegrityError: a file is not that of the catalogue.
    """
    entry = None if is_path(name_or_path) else catalogue_entry(name_or_path)
    if entry and entry.source:
        path = data_file(entry, data_dir)
        for place, source in entry.sources(path):
            _check_pinned(entry.name, source, place)
        size = sum(source.bytes for _, source in entry.sources(path))
        return VerifiedData(str(path), size, entry.source.sha256, None, pinned=True, questions=None)
    if entry:
        _check_repository(entry, data_dir)
    dataset = load_dataset(name_or_path, data_dir)
    size = sum(file.stat().st_size for file in dataset.files)
    return VerifiedData(
        str(dataset.path), size, dataset.sha256, dataset.content_sha256, pinned=False, questions=len(dataset)
    )


def presence(entry: CatalogueEntry, data_dir: Path) -> Literal["yes", "in part", "no", "damaged", "shipped", "missing"]:
    """Return whether an entry's data is here, judged by size alone; hashing is left to `verify_data`."""
    path = data_file(entry, data_dir)
    if entry.is_folder:
        return folder_state(path)
    if entry.source is None:
        return "shipped" if path.is_file() else "missing"
    sources = entry.sources(path)
    if not all(place.is_file() for place, _ in sources):
        return "in part" if path.is_file() else "no"
    return "yes" if all(place.stat().st_size == source.bytes for place, source in sources) else "damaged"


def _check_repository(entry: CatalogueEntry, data_dir: Path) -> None:
    """Compare every file with the commit of the catalogue, if it was fetched from there."""
    changed = changed_files(entry.repository, data_dir / entry.repository.folder) if entry.repository else None
    if changed:
        what = f"{len(changed)} files of {entry.name!r} are missing or differ from the pinned commit"
        fix = f"Run `longmemeval datasets download {entry.name}` to get them"
        raise IntegrityError(what, where=str(changed[0]), fix=fix)


def _check_pinned(name: str, source: Source, path: Path) -> None:
    """Compare size and hash of a file with the catalogue."""
    fix = f"Run `longmemeval datasets download {name}` to get it"
    if not path.is_file():
        raise DataError(f"The data set {name!r} is not downloaded", where=str(path), fix=fix)
    size = path.stat().st_size
    if size != source.bytes:
        what = f"The file of {name!r} has {size:,} bytes, but the catalogue says {source.bytes:,}"
        raise IntegrityError(what, where=str(path), fix=fix)
    if (found := sha256_file(path)) != source.sha256:
        what = f"The file of {name!r} has the sha256 {found}, but the catalogue says {source.sha256}"
        raise IntegrityError(what, where=str(path), fix=fix)
