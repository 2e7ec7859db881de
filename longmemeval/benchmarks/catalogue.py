"""The data sets known by name. Where they are and which bytes they must have is data: `catalogue.json`."""

from functools import cache
from pathlib import Path

import msgspec
from msgspec import Struct

from longmemeval.errors import DataError, nearest

_HERE = Path(__file__).parent
_SHIPPED = (_HERE / "sample", _HERE.parents[1] / "data" / "sample")
"""Where shipped files are: inside an installed package, else in the source tree."""


class Source(Struct, frozen=True, forbid_unknown_fields=True):
    """Where a file is published and which bytes it must have."""

    url: str
    revision: str
    bytes: int
    sha256: str


class CatalogueEntry(Struct, frozen=True, forbid_unknown_fields=True):
    """One data set that has a name."""

    name: str
    description: str
    file: str
    """The name of the file, or of the folder of files, in the data folder."""
    licence: str
    source: Source | None = None
    """None for a file that is shipped with the package, and for a folder."""
    instructions: str | None = None
    """How to get a folder of files, which is not downloaded: one sentence, `{folder}` stands for the place."""
    citation: str | None = None
    """BibTeX of the paper to cite."""
    superseded_by: str | None = None
    """The name of the entry to use instead, for a deprecated one."""


@cache
def catalogue() -> dict[str, CatalogueEntry]:
    """All entries by name, in the order they are listed."""
    entries = msgspec.json.decode((_HERE / "catalogue.json").read_bytes(), type=list[CatalogueEntry])
    return {entry.name: entry for entry in entries}


def catalogue_entry(name: str) -> CatalogueEntry:
    """The entry called `name`; raises `DataError` with the nearest name when there is none."""
    entries = catalogue()
    if name not in entries:
        raise DataError(f"{name!r} is not in the catalogue of data sets", fix=nearest(name, entries))
    return entries[name]


def data_file(entry: CatalogueEntry, data_dir: Path) -> Path:
    """Where the entry's file or folder is, or would be: in `data_dir`, or inside the package for a shipped one."""
    if entry.source is not None or entry.instructions is not None:
        return data_dir / entry.file
    places = [folder / entry.file for folder in _SHIPPED]
    return next((path for path in places if path.is_file()), places[0])


def has_files(folder: Path) -> bool:
    """Whether the folder of an entry that has `instructions` holds anything to load."""
    return any(folder.rglob("*.json"))


def folder_missing(entry: CatalogueEntry, folder: Path) -> DataError:
    """The error about an entry whose files nobody has fetched; says how to get them."""
    return DataError(
        f"The data set {entry.name!r} is not here, and it is not downloaded: it is a folder of many files",
        where=str(folder),
        fix=(entry.instructions or "").format(folder=folder),
    )


def by_hand(source: Source, path: Path) -> str:
    """How to get a file without the downloader, as an error's remedy says it."""
    return (
        f"fetch {source.url} by other means and put it at {path}; "
        f"it must have {source.bytes:,} bytes and the sha256 {source.sha256}"
    )
