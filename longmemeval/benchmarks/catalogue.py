"""The data sets known by name. Where they are and which bytes they must have is data: `catalogue.json`."""

from functools import cache
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct, structs

from longmemeval.benchmarks.repository import Repository
from longmemeval.benchmarks.spec import Benchmark
from longmemeval.benchmarks.specs import benchmarks
from longmemeval.errors import DataError, nearest

_SHIPPED = (Path(__file__).parent / "sample", Path(__file__).parents[2] / "data" / "sample")
"""Where the sample is: inside an installed package, else in the source tree."""


class Source(Struct, frozen=True, forbid_unknown_fields=True):
    """Where a file is published and which bytes it must have."""

    url: str
    revision: str
    bytes: int
    sha256: str


class Companion(Struct, frozen=True, forbid_unknown_fields=True):
    """A further file of a data set: a second part of its data, or its authors' prompts."""

    file: str
    """Its name, beside the data set's own file."""
    source: Source


class CatalogueEntry(Struct, frozen=True, forbid_unknown_fields=True):
    """One data set that has a name."""

    name: str
    description: str
    file: str
    """The name of the file, or of the folder of files, in the data folder."""
    licence: str = ""
    """Where it is another one than the benchmark's."""
    source: Source | None = None
    """None for a file that is shipped with the package, and for a folder."""
    instructions: str | None = None
    """How to get a folder of files, which is not downloaded: one sentence, `{folder}` stands for the place."""
    citation: str | None = None
    """BibTeX of the paper to cite, where it is another one than the benchmark's; empty for none."""
    superseded_by: str | None = None
    """The name of the entry to use instead, for a deprecated one."""
    repository: Repository | None = None
    """Where a folder of files is fetched from."""
    beside: tuple[Companion, ...] = ()
    """Files that are downloaded and checked with the first."""

    @property
    def is_folder(self) -> bool:
        """Whether it is a folder of files, which is loaded whatever is in it."""
        return self.repository is not None or self.instructions is not None

    def sources(self, path: Path) -> list[tuple[Path, Source]]:
        """Every file that is downloaded and what it must hold, the data set's own first: that is at `path`."""
        own = [(path, self.source)] if self.source else []
        return own + [(path.with_name(one.file), one.source) for one in self.beside]


def catalogue() -> dict[str, CatalogueEntry]:
    """All entries by name, in the order they are listed."""
    return {entry.name: entry for one in benchmarks() for entry in entries_of(one)}


def entries_of(benchmark: Benchmark) -> list[CatalogueEntry]:
    """The entries of one benchmark.

    Raises:
        DataError: its catalogue is not as its format demands.
    """
    return [
        structs.replace(
            entry,
            licence=entry.licence or benchmark.licence,
            citation=benchmark.citation if entry.citation is None else entry.citation or None,
        )
        for entry in (_read(benchmark.catalogue) if benchmark.catalogue else ())
    ]


@cache
def _read(path: Path) -> tuple[CatalogueEntry, ...]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=tuple[CatalogueEntry, ...])
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise DataError(f"The catalogue of a benchmark cannot be read: {error}", where=str(path)) from error


def catalogue_entry(name: str) -> CatalogueEntry:
    """The entry called `name`.

    Raises:
        DataError: there is none, with the nearest name; or it is in the catalogues of several benchmarks.
    """
    entries = catalogue()
    if name not in entries:
        raise DataError(f"{name!r} is not in the catalogue of data sets", fix=nearest(name, entries))
    if len(owners := _owners(name)) > 1:
        named = ", ".join(one.name for one in owners)
        raise DataError(
            f"The data set {name!r} is in the catalogues of several benchmarks: {named}",
            fix="Uninstall the package of one of them, or load the file by its path",
        )
    return entries[name]


def _owners(name: str) -> list[Benchmark]:
    return [one for one in benchmarks() if any(entry.name == name for entry in entries_of(one))]


def data_file(entry: CatalogueEntry, data_dir: Path) -> Path:
    """Where the entry's file or folder is, or would be: in `data_dir`, or beside its catalogue for a shipped one."""
    if entry.source is not None or entry.is_folder:
        return data_dir / entry.file
    homes = [one.catalogue.parent for one in _owners(entry.name) if one.catalogue]
    places = [folder / entry.file for folder in (*homes, *_SHIPPED)]
    return next((path for path in places if path.is_file()), places[0])


def unfinished(folder: Path) -> Path:
    """What stands beside a folder as long as not all of its files are fetched."""
    return folder.with_name(folder.name + ".part")


def folder_state(folder: Path) -> Literal["yes", "in part", "no"]:
    """Whether the folder of an entry holds anything to load; in part while it is fetched, and when that was stopped."""
    if unfinished(folder).exists():
        return "in part"
    return "yes" if any(folder.rglob("*.json")) else "no"


def folder_missing(entry: CatalogueEntry, folder: Path) -> DataError:
    """The error about an entry whose files were not fetched; says how to get them."""
    if entry.repository:
        there = "is here only in part" if unfinished(folder).exists() else "is not downloaded"
        fix = f"Run `longmemeval datasets download {entry.name}`"
        return DataError(f"The data set {entry.name!r} {there}", where=str(folder), fix=fix)
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
