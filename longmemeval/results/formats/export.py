"""`export`: runs in a format that other tools read."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from longmemeval.core.files import write_atomic
from longmemeval.core.tables import table as render
from longmemeval.core.tables.parquet import parquet_bytes
from longmemeval.core.tables.table import Column, tabulate
from longmemeval.core.text.figures import bounds, percent
from longmemeval.core.text.paths import without_places
from longmemeval.results.formats.export_trec import TrecExport, export_trec
from longmemeval.results.formats.hypotheses import OfficialExport, export_official
from longmemeval.results.formats.inspect_log import InspectExport, export_inspect
from longmemeval.results.formats.question_frame import FrameColumn, question_columns, question_rows
from longmemeval.results.graded.graded_run import Evaluation, load_graded
from longmemeval.results.options import ExportFormat
from longmemeval.settings import Folders

# `export --format csv|jsonl|parquet`: one row per question, for spreadsheets, data frames and dataset hubs.

TableFormat = Literal["csv", "jsonl", "parquet"]


class TableExport(Struct, frozen=True):
    """The file that was written."""

    file: str
    questions: int
    judges: tuple[str, ...]
    """Judge ids, in the order of their columns."""
    part: str = ""
    """Number of questions out of the total, and how they were chosen; empty for the whole dataset."""
    protocol_note: str = ""
    """The consequence of the benchmark's own protocol for the scores; empty without one."""
    card: str = ""
    """Path of the dataset card next to it; empty for CSV, which has none."""


def export_questions(
    run_id: str,
    output: Path | None = None,
    *,
    format: TableFormat = "csv",
    dataset: str | None = None,
    folders: Folders | None = None,
) -> TableExport:
    """Write `<run_id>.csv`, `.jsonl` or `.parquet`, one row per selected question, answered or not.

    The columns are those of `question_columns`; unknown values are empty, or null. CSV is RFC 4180 in UTF-8, safe in a
    spreadsheet (`core.tables.render.csv`). JSON Lines and Parquet come with a dataset card, `README.md`, that
    describes the run, its grading and each column, with the front matter that dataset hubs read.

    Args:
        run_id: id of a graded run.
        output: the folder for the file; None: a folder with the name of the format in the run's folder.
        dataset: path or name of the dataset with the gold, if it has moved.
        folders: the folders; None: from the environment.

    Raises:
        HarnessError: there is no such run, it is not graded or holds rankings, its dataset is missing, or the extra
            `pandas` is not installed (Parquet).
    """
    folders = folders or Folders()
    (run,) = load_graded([run_id], folders, dataset=dataset)
    columns, rows = question_columns(run), question_rows(run)
    folder = output or run.files.folder / format
    file = folder / f"{run_id}.{format}"
    if format == "csv":
        data = render.csv(rows, [column.title for column in columns]).encode()
    elif format == "jsonl":
        data = b"".join(msgspec.json.encode(row) + b"\n" for row in rows)
    else:
        data = parquet_bytes({column.title: (column.form, [row[column.title] for row in rows]) for column in columns})
    write_atomic(file, data)
    card = folder / "README.md"
    if format != "csv":
        write_atomic(card, _card(run, file.name, columns).encode())
    judges = tuple(metrics.judge.id for metrics in run.files.metrics)
    shown = "" if format == "csv" else str(card)
    return TableExport(str(file), len(rows), judges, run.asked.part, run.summary.protocol_note, shown)


def _card(run: Evaluation, file: str, columns: Sequence[FrameColumn]) -> str:
    """Return the dataset card: front matter, what was run, the score, and what each column means."""
    summary, manifest = run.summary, run.manifest
    overall, judge = run.metrics.overall, run.metrics.judge
    name = f"{manifest.run_id}: answers of {summary.memory} on {manifest.dataset['name']}"
    front = {
        "pretty_name": name,
        "task_categories": ["question-answering"],
        "tags": ["longmemeval", "memory", run.asked.benchmark.name],
        "configs": [{"config_name": "default", "data_files": file}],
    }
    official = "the benchmark's own judge" if judge.official else "not the official judge"
    facts = {
        "Run": manifest.run_id,
        "Memory": summary.memory + (" (control, given the gold evidence: upper bound)" if summary.reads_gold else ""),
        "Model": summary.model,
        "Dataset": f"{manifest.dataset['name']}, content {manifest.dataset['content_sha256'][:16]}",
        "Questions": summary.part or f"{overall.n:,}",
        "Score": f"{judge.metric} {percent(overall.accuracy)}, 95% CI {bounds(overall.interval)}",
        "Judge": f"{judge.id}, {official}",
    }
    about: list[Column[tuple[str, str]]] = [
        Column("", lambda row: row[0], "text"),
        Column("", lambda row: row[1], "text"),
    ]
    meanings: list[Column[FrameColumn]] = [
        Column("column", lambda column: column.title, "text"),
        Column("type", lambda column: column.form, "text"),
        Column("meaning", lambda column: column.meaning, "text"),
    ]
    notes = [run.summary.protocol_note, *(without_places(warning.text) for warning in summary.warnings)]
    parts = [
        f"---\n{msgspec.yaml.encode(front).decode()}---",
        f"# {render.escape_markdown(name)}",
        "One row per question of one run, written by longmemeval. Questions and right answers come from the "
        "dataset: its licence applies to them.",
        render.markdown(tabulate("", about, facts.items())),
        *(f"- {render.escape_markdown(note)}" for note in notes if note),
        render.markdown(tabulate("", meanings, columns)),
    ]
    return "\n\n".join(parts) + "\n"


Exported = OfficialExport | TrecExport | TableExport | InspectExport


def export_runs(
    run_ids: Sequence[str],
    format: ExportFormat,
    output: Path | None = None,
    *,
    dataset: str | None = None,
    folders: Folders,
) -> Iterator[Exported]:
    """Write runs one after the other, and yield a record of each export; for `inspect`, of each log.

    Args:
        run_ids: ids of graded runs; for `trec`, of rankings.
        output: the folder, with a subfolder for each of several runs, so that their files do not collide; None: the
            run's own.
        dataset: path or name of the dataset with the gold, if it has moved.

    Raises:
        HarnessError: the run is unknown, or lacks what the format needs.
        IntegrityError: its files have been changed since the run.
    """
    if format == "inspect" or format == "inspect-json":
        yield from export_inspect(run_ids, output, format=format, dataset=dataset, folders=folders)
        return
    for run_id in run_ids:
        folder = output / run_id if output and len(run_ids) > 1 else output
        if format == "trec":
            yield export_trec(run_id, folder, dataset=dataset, folders=folders)
        elif format == "official":
            yield export_official(run_id, folder, dataset=dataset, folders=folders)
        else:
            yield export_questions(run_id, folder, format=format, dataset=dataset, folders=folders)
