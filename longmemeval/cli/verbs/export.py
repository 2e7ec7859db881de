"""`longmemeval export`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_args

from longmemeval.cli import options as shared
from longmemeval.cli.output import err, out, print_documents, printable
from longmemeval.core.options import OUTPUT, Flag
from longmemeval.core.text.figures import count_of
from longmemeval.results.options import ExportFormat, MovedDataset

if TYPE_CHECKING:
    from longmemeval.results.formats.export import Exported, TableExport
    from longmemeval.results.formats.export_trec import TrecExport
    from longmemeval.results.formats.hypotheses import OfficialExport


EXAMPLE = "longmemeval export my-run --format csv"


def export(
    runs: shared.Runs,
    format: Annotated[ExportFormat, Flag(OUTPUT, "FORMAT", f"{', '.join(get_args(ExportFormat))}.")],
    places: shared.Places,
    output: Annotated[Path | None, Flag(OUTPUT, "DIR", "Folder for the files [default: the run's folder].")] = None,
    dataset: MovedDataset = None,
    as_json: shared.Json = False,
) -> None:
    """Export a run to a format that other tools read.

    official: hypotheses and judged logs, in the form of the benchmark authors' own scripts.

    trec: the rankings of a `retrieval` run and the qrels, for trec_eval.

    csv: one row per question. Cells that a spreadsheet would run as a formula begin with an apostrophe.

    jsonl, parquet: the same rows for data frames and dataset hubs, with a dataset card next to them.

    inspect, inspect-json: a log of Inspect, `.eval` or `.json`. Runs that repeat each other are the epochs of one log.
    """
    from longmemeval.results.formats.export import export_runs

    folders = places.folders()
    run_ids = runs.named(folders, rankings=format == "trec")
    exported = export_runs(run_ids, format, output, dataset=dataset, folders=folders)
    if as_json:
        print_documents(list(exported))
        return
    for written in exported:
        _show(written)


def _show(written: "Exported") -> None:
    from longmemeval.results.formats.export import TableExport
    from longmemeval.results.formats.export_trec import TrecExport
    from longmemeval.results.formats.inspect_log import InspectExport

    if isinstance(written, TrecExport):
        _show_rankings(written)
    elif isinstance(written, TableExport):
        _show_table(written)
    elif isinstance(written, InspectExport):
        judges, epochs = count_of(len(written.judges), "judge"), len(written.runs)
        repeats = f", {count_of(epochs, 'repeat')}" if epochs > 1 else ""
        out.print(f"{count_of(written.questions, 'question')}{repeats}, {judges}: {printable(written.file)}")
    else:
        _show_logs(written)


def _show_rankings(written: "TrecExport") -> None:
    out.print(f"Rankings of {count_of(written.questions, 'question')}: {printable(written.run_file)}")
    out.print(f"Evidence: {printable(written.qrels_file)}")
    if written.without_gold:
        err.print(f"{count_of(written.without_gold, 'question')} without evidence: trec_eval skips them.")


def _show_table(written: "TableExport") -> None:
    out.print(f"{written.part or count_of(written.questions, 'question')}: {printable(written.file)}")
    if written.card:
        out.print(f"Dataset card: {printable(written.card)}")
    if written.protocol_note:
        err.print(printable(written.protocol_note))


def _show_logs(written: "OfficialExport") -> None:
    out.print(f"{count_of(written.answers, 'answer')}: {printable(written.hypotheses)}")
    for log in written.logs:
        out.print(f"Judged log: {printable(log)}")
    if written.part:
        err.print(f"Subset: {written.part}.")
    if written.unanswered:
        unanswered = count_of(len(written.unanswered), "question")
        err.print(f"{unanswered} without an answer; the official script does not count them.")
    if written.later_gradings:
        later = printable(", ".join(written.later_gradings))
        err.print(f"Not exported: later gradings, since the first is the score: {later}")
    for model in written.unofficial:
        err.print(f"print_qa_metrics.py accepts no log judged by {printable(model)}; it needs the official judge.")
