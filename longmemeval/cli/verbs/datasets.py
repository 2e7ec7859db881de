"""`longmemeval datasets`: list, download, verify and count datasets."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from longmemeval.cli import options as shared
from longmemeval.cli.conversations import import_chats, label_evidence
from longmemeval.cli.options import add_verb
from longmemeval.cli.output import err, out, print_json, print_table, printable
from longmemeval.cli.panels import Verbs
from longmemeval.core.options import Flag
from longmemeval.core.tables.table import Column, Table, tabulate

if TYPE_CHECKING:
    from collections.abc import Mapping

    from longmemeval.benchmarks.catalogue import CatalogueEntry
    from longmemeval.benchmarks.stats import DatasetStats, GroupCount


app = typer.Typer(cls=Verbs, help="List, download, verify or create datasets.")

Name = Annotated[str, Flag(metavar="NAME", help="Name from `datasets list`.", argument=True)]
NameOrPath = Annotated[str, Flag(metavar="NAME|PATH", help="Dataset name or file.", argument=True)]
DataDir = shared.DataDir
Json = shared.Json


def list_datasets(data_dir: DataDir = None, json: Json = False) -> None:
    """List the datasets of the catalogue, and which of them are here."""
    from msgspec.structs import asdict

    from longmemeval.benchmarks.catalogue import catalogue, data_file
    from longmemeval.benchmarks.registry import presence
    from longmemeval.settings import folders

    folder = folders(data_dir).data_dir
    entries = list(catalogue().values())
    if json:
        print_json(
            [
                asdict(entry) | {"path": str(data_file(entry, folder)), "status": presence(entry, folder)}
                for entry in entries
            ]
        )
        return
    columns: list[Column[CatalogueEntry]] = [
        Column("name", lambda entry: entry.name, "text"),
        Column("MB", _megabytes),
        Column("downloaded", lambda entry: presence(entry, folder), "text"),
        Column("description", _described, "prose"),
    ]
    print_table(tabulate("", columns, entries))


def _described(entry: "CatalogueEntry") -> str:
    return (f"superseded by {entry.superseded_by}: " if entry.superseded_by else "") + entry.description


def download_dataset(name: Name, data_dir: DataDir = None, json: Json = False) -> None:
    """Download a dataset and check its hash.

    A file in the Hugging Face cache is copied from there. An interrupted download continues where it stopped.
    """
    from longmemeval.benchmarks.catalogue import catalogue_entry, data_file
    from longmemeval.benchmarks.download import is_here
    from longmemeval.settings import folders

    entry = catalogue_entry(name)
    folder = folders(data_dir).data_dir
    path = data_file(entry, folder)
    present = is_here(entry, folder)
    cached = [] if present else _download_with_progress(entry, folder)
    if json:
        print_json({"name": name, "path": str(path), "downloaded": not present, "from_cache": cached})
    elif present:
        out.print(f"{name} already exists; nothing to do: {printable(str(path))}")
    else:
        for copied in cached:
            out.print(f"Copied from the Hugging Face cache: {printable(copied)}")
        out.print(f"{name} is {'copied' if cached else 'downloaded'} and its hash is correct: {printable(str(path))}")


def verify_dataset(name: NameOrPath, data_dir: DataDir = None, json: Json = False) -> None:
    """Check a dataset's file.

    Compares its hash with the catalogue or, if none is pinned, checks every record against the format.
    """
    from msgspec.structs import asdict

    from longmemeval.benchmarks.registry import verify_data
    from longmemeval.settings import folders

    verification = verify_data(name, folders(data_dir).data_dir)
    if json:
        document = {"name": name} | asdict(verification)
        del document["questions"]
        print_json(document)
        return
    valid = verification.questions
    verdict = (
        "size and hash match the catalogue"
        if valid is None
        else f"all {valid:,} questions and their haystacks are valid"
    )
    out.print(f"{printable(verification.path)}: {verdict}")
    out.print(f"bytes           {verification.bytes:,}")
    out.print(f"sha256          {verification.sha256}")
    if verification.content_sha256:
        out.print(f"content sha256  {verification.content_sha256}")


def show_stats(name: NameOrPath, data_dir: DataDir = None, json: Json = False) -> None:
    """Count questions, sessions, turns, evidence and oddities."""
    from longmemeval.benchmarks.registry import load_dataset
    from longmemeval.benchmarks.stats import dataset_stats

    stats = dataset_stats(load_dataset(name, data_dir))
    if json:
        print_json(stats)
        return
    _print_stats(stats)


def _megabytes(entry: "CatalogueEntry") -> str:
    """Return the size of all files that are downloaded."""
    sizes = [source.bytes for _, source in entry.sources(Path(entry.file))]
    return f"{sum(sizes) / 1e6:,.0f}" if sizes else ""


def _download_with_progress(entry: "CatalogueEntry", data_dir: Path) -> list[str]:
    """Download with a bar on standard error; return the files of the Hugging Face cache that were copied."""
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    from longmemeval.benchmarks.download import download

    counts = (
        (MofNCompleteColumn(), TextColumn("files")) if entry.repository else (DownloadColumn(), TransferSpeedColumn())
    )
    columns = (TextColumn("{task.description}"), BarColumn(), *counts, TimeRemainingColumn())
    # A folder that is refused shows no progress.
    fetched = entry.source is not None or entry.repository is not None
    cached: list[str] = []
    with Progress(*columns, console=err.console, disable=not fetched) as bar:
        task = bar.add_task(entry.name, total=entry.source.bytes if entry.source else None)
        download(
            entry,
            data_dir,
            on_progress=lambda done, total: bar.update(task, completed=done, total=total),
            on_cached=lambda path: cached.append(str(path)),
        )
    return cached


def _print_stats(stats: "DatasetStats") -> None:
    """Print identities, questions by type, counts and quirks."""
    import msgspec

    out.print(f"[bold]{printable(stats.name)}[/bold]  {printable(stats.path)}")
    out.print(f"sha256          {stats.sha256}")
    out.print(f"content sha256  {stats.content_sha256}")
    if stats.copy:
        out.print(f"copy            {stats.copy}")
    out.print()
    types = [(name, count.total, count.abstention) for name, count in sorted(stats.by_type.items())]
    types.append(("all", stats.questions, sum(count.abstention for count in stats.by_type.values())))
    columns: list[Column[tuple[str, int, int]]] = [
        Column("question type", lambda row: row[0], "text"),
        Column("questions", lambda row: row[1]),
        Column("abstention", lambda row: row[2]),
    ]
    print_table(tabulate("", columns, types))
    _print_groups(stats.groups)
    span = f"{stats.first_session:%Y-%m-%d %H:%M} to {stats.last_session:%Y-%m-%d %H:%M}" if stats.first_session else ""
    stand_in = " (stand-ins: the data has none)" if stats.stand_in_dates else ""
    least_mean_most = f"{stats.fewest_sessions} / {stats.mean_sessions:.1f} / {stats.most_sessions}"
    turns = f"{stats.fewest_turns} / {stats.mean_turns:.1f} / {stats.most_turns}"
    counts: dict[str, str | int] = {
        "haystacks": stats.haystacks,
        "sessions": stats.sessions,
        "turns": stats.turns,
        "turns with a caption": stats.captions,
        "sessions per haystack (least / mean / most)": least_mean_most,
        "turns per session (least / mean / most)": turns,
        f"session dates{stand_in}": span,
        "answers that are integers": stats.integer_answers,
        "evidence sessions": stats.evidence_sessions,
        "evidence turns": stats.evidence_turns,
    }
    print_table(_counted(counts, "count", ""))
    quirks = {name: getattr(stats, name) for name in stats.misleading}
    quirks |= msgspec.structs.asdict(stats.quirks) if stats.quirks else {}
    unknown: dict[str, int] = quirks.pop("unknown_keys", {})
    named = {name.replace("_", " "): count for name, count in quirks.items()}
    print_table(_counted(named | {f"unknown key {key}": unknown[key] for key in sorted(unknown)}, "quirk", "count"))


def _counted(counts: "Mapping[str, str | int]", what: str, heading: str) -> "Table":
    columns: list[Column[tuple[str, str | int]]] = [
        Column(what, lambda row: row[0], "text"),
        Column(heading, lambda row: row[1]),
    ]
    return tabulate("", columns, counts.items())


def _print_groups(groups: "list[GroupCount]") -> None:
    """Print the questions by type and by the benchmark's other groups."""
    if not groups:
        return

    def facet(name: str) -> "Column[GroupCount]":
        return Column(name, lambda group: group.facets[name])

    columns: list[Column[GroupCount]] = [
        Column("question type", lambda group: group.question_type, "text"),
        *map(facet, groups[0].facets),
        Column("questions", lambda group: group.questions),
    ]
    print_table(tabulate("", columns, groups))


add_verb(app, "list", list_datasets, example="longmemeval datasets list", all_options=False)
add_verb(app, "download", download_dataset, example="longmemeval datasets download longmemeval_s", all_options=False)
add_verb(app, "verify", verify_dataset, example="longmemeval datasets verify sample", all_options=False)
add_verb(app, "stats", show_stats, example="longmemeval datasets stats sample", all_options=False)
add_verb(
    app,
    "import",
    import_chats,
    example="longmemeval datasets import conversations.json --questions questions.yaml --output mine",
)
add_verb(app, "label", label_evidence, example="longmemeval datasets label mine")
