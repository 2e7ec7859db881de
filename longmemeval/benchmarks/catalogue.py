"""The named datasets. Their addresses and hashes are data: `catalogue.json`."""

from collections.abc import Iterable
from functools import cache, lru_cache
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct, structs

from longmemeval.benchmarks.repository import Repository
from longmemeval.benchmarks.spec import Benchmark
from longmemeval.dataset import Dataset
from longmemeval.errors import DataError, HarnessError, nearest
from longmemeval.plugins import BENCHMARKS, Registry
from longmemeval.records import Question

# All benchmarks: those of this package and those of plugins.

BENCHMARK_SPECS = Registry(BENCHMARKS, "benchmark", Benchmark)


def benchmark_of(dataset: Dataset) -> Benchmark:
    """Return the specification of a dataset's benchmark.

    Raises:
        HarnessError: no benchmark of this name is installed, or it cannot be loaded.
    """
    return BENCHMARK_SPECS.get(dataset.benchmark)


def units_of(dataset: Dataset, questions: Iterable[Question]) -> dict[str, str]:
    """Return the group with which each question is resampled: its haystack, unless the benchmark has other groups."""
    unit = benchmark_of(dataset).unit
    return {question.question_id: unit(dataset, question) if unit else question.haystack_id for question in questions}


def benchmarks() -> tuple[Benchmark, ...]:
    """Return all benchmarks that can be loaded: this package's, then plugins' by name; broken plugins are skipped."""
    return _loaded(tuple(BENCHMARK_SPECS.names()))


@lru_cache(maxsize=8)
def _loaded(names: tuple[str, ...]) -> tuple[Benchmark, ...]:
    loaded = []
    for name in names:
        try:
            loaded.append(BENCHMARK_SPECS.get(name))
        except HarnessError:
            if name in BENCHMARK_SPECS.built_in:
                raise
    return tuple(loaded)


def broken_benchmarks() -> list[str]:
    """Return a sentence for each benchmark of a plugin that cannot be used, with the reason; empty if all can."""
    return [plugin.problem for plugin in BENCHMARK_SPECS.plugins() if plugin.problem]


_SHIPPED = (Path(__file__).parent / "sample", Path(__file__).parents[2] / "data" / "sample")
"""Folders of the sample: inside an installed package, or in the source tree."""


class Source(Struct, frozen=True, forbid_unknown_fields=True):
    """The address of a published file, and its size and hash."""

    url: str
    revision: str
    bytes: int
    sha256: str


class Companion(Struct, frozen=True, forbid_unknown_fields=True):
    """A further file of a dataset: a second part of its data, or its authors' prompts."""

    file: str
    """Name of the file, in the folder of the dataset's own file."""
    source: Source


class CatalogueEntry(Struct, frozen=True, forbid_unknown_fields=True):
    """A dataset with a name."""

    name: str
    description: str
    file: str
    """Name of the file, or of the folder of files, in the data folder."""
    licence: str = ""
    """Licence, if it is not the benchmark's."""
    source: Source | None = None
    """Source of the file; None for a file that is shipped with the package, and for a folder."""
    instructions: str | None = None
    """One sentence on how to get a folder of files that is not downloaded; `{folder}` stands for its path."""
    citation: str | None = None
    """BibTeX of the paper to cite, if it is not the benchmark's; empty for none."""
    superseded_by: str | None = None
    """Name of the entry to use instead, for a deprecated entry."""
    repository: Repository | None = None
    """Repository from which a folder of files is fetched."""
    beside: tuple[Companion, ...] = ()
    """Files that are downloaded and verified together with the dataset's own."""

    @property
    def is_folder(self) -> bool:
        """True for a folder of files; it is loaded whatever it contains."""
        return self.repository is not None or self.instructions is not None

    def sources(self, path: Path) -> list[tuple[Path, Source]]:
        """Return every file to download, with its source; the dataset's own, at `path`, comes first."""
        own = [(path, self.source)] if self.source else []
        return own + [(path.with_name(companion.file), companion.source) for companion in self.beside]


def catalogue() -> dict[str, CatalogueEntry]:
    """Return all entries by name, in the order of listing."""
    return {entry.name: entry for benchmark in benchmarks() for entry in entries_of(benchmark)}


def entries_of(benchmark: Benchmark) -> list[CatalogueEntry]:
    """Return the entries of one benchmark.

    Raises:
        DataError: its catalogue is not in the expected format.
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
    """Return the entry called `name`.

    Raises:
        DataError: there is no such entry (names the nearest), or it is in the catalogues of several benchmarks.
    """
    entries = catalogue()
    if name not in entries:
        raise DataError(f"Unknown dataset {name!r}", fix=nearest(name, entries))
    if len(owners := _owners(name)) > 1:
        named = ", ".join(benchmark.name for benchmark in owners)
        raise DataError(
            f"The dataset {name!r} is in the catalogues of several benchmarks: {named}",
            fix="Uninstall the package of one of them, or load the file by its path",
        )
    return entries[name]


def _owners(name: str) -> list[Benchmark]:
    return [owner for owner in benchmarks() if any(entry.name == name for entry in entries_of(owner))]


def data_file(entry: CatalogueEntry, data_dir: Path) -> Path:
    """Return the path of the entry's file or folder in `data_dir`, or of the shipped file; it need not exist."""
    if entry.source is not None or entry.is_folder:
        return data_dir / entry.file
    folders = [owner.catalogue.parent for owner in _owners(entry.name) if owner.catalogue]
    places = [folder / entry.file for folder in (*folders, *_SHIPPED)]
    return next((path for path in places if path.is_file()), places[0])


def unfinished(folder: Path) -> Path:
    """Return the path of the marker next to a folder; it exists until all files of the folder are fetched."""
    return folder.with_name(folder.name + ".part")


def folder_state(folder: Path) -> Literal["yes", "in part", "no"]:
    """Return whether the folder of an entry has data; "in part" during a download, and after an interrupted one."""
    if unfinished(folder).exists():
        return "in part"
    return "yes" if any(folder.rglob("*.json")) else "no"


def folder_missing(entry: CatalogueEntry, folder: Path) -> DataError:
    """Return the error for an entry whose files were not fetched; it says how to get them."""
    if entry.repository:
        there = "is only partly downloaded" if unfinished(folder).exists() else "is not downloaded"
        fix = f"Run `longmemeval datasets download {entry.name}`"
        return DataError(f"The dataset {entry.name!r} {there}", where=str(folder), fix=fix)
    return DataError(
        f"The dataset {entry.name!r} is missing, and cannot be downloaded: it is a folder of many files",
        where=str(folder),
        fix=(entry.instructions or "").format(folder=folder),
    )


def by_hand(source: Source, path: Path) -> str:
    """Return the remedy of an error: how to get a file without the downloader."""
    return (
        f"fetch {source.url} by other means and put it at {path}; "
        f"it must have {source.bytes:,} bytes and the sha256 {source.sha256}"
    )
