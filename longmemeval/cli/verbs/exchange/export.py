"""`longmemeval export`."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from longmemeval.cli.options import shared
from longmemeval.cli.options.groups import add_verb
from longmemeval.cli.output import err, out, print_json, printable
from longmemeval.core.options import OUTPUT, Flag
from longmemeval.core.text.figures import count_of
from longmemeval.results.options import MovedDataset

if TYPE_CHECKING:
    from longmemeval.results.formats.export_inspect import InspectFormat
    from longmemeval.results.formats.export_questions import TableFormat
    from longmemeval.settings import Folders


def register(app: typer.Typer) -> None:
    """Add the verb."""
    add_verb(app, "export", export, example="longmemeval export my-run --format csv")


def export(
    runs: shared.Runs,
    format: Annotated[
        Literal["official", "trec", "csv", "jsonl", "parquet", "inspect", "inspect-json"],
        Flag(OUTPUT, "FORMAT", "official, trec, csv, jsonl, parquet, inspect or inspect-json."),
    ],
    places: shared.Places,
    output: Annotated[Path | None, Flag(OUTPUT, "DIR", "Folder for the files [default: the run's folder].")] = None,
    dataset: MovedDataset = None,
    as_json: shared.Json = False,
) -> None:
    """Write a run in a format that other tools read.

    official: hypotheses and judged logs, in the form of the benchmark authors' own scripts.

    trec: the rankings of a `retrieval` run and the qrels, for trec_eval.

    csv: one row per question. Cells that a spreadsheet would run as a formula begin with an apostrophe.

    jsonl, parquet: the same rows for data frames and data set hubs, with a data set card beside them.

    inspect, inspect-json: a log of Inspect, `.eval` or `.json`. Runs that repeat each other are the epochs of one log.
    """
    where = places.folders()
    if format == "inspect" or format == "inspect-json":
        _inspect(format, runs.named(where), output, dataset, where, as_json)
        return
    write: dict[str, Callable[[str, Path | None, str | None, Folders, bool], object]] = {
        "trec": _trec,
        "official": _official,
        "csv": partial(_table, "csv"),
        "jsonl": partial(_table, "jsonl"),
        "parquet": partial(_table, "parquet"),
    }
    run_ids = runs.named(where, rankings=format == "trec")
    # Files of several runs do not take each other's place.
    several = output is not None and len(run_ids) > 1
    written = [
        write[format](run_id, output / run_id if output and several else output, dataset, where, as_json)
        for run_id in run_ids
    ]
    if as_json:
        print_json(written[0] if len(written) == 1 else {"runs": written})


def _trec(run_id: str, output: Path | None, dataset: str | None, where: "Folders", as_json: bool) -> object:
    from longmemeval.results.formats.export_trec import export_trec

    written = export_trec(run_id, output, dataset=dataset, where=where)
    if as_json:
        return written
    out.print(f"Rankings of {count_of(written.questions, 'question')}: {printable(written.run_file)}")
    out.print(f"Evidence: {printable(written.qrels_file)}")
    if written.without_gold:
        err.print(f"{count_of(written.without_gold, 'question')} without evidence: trec_eval skips them.")
    return written


def _table(
    format: "TableFormat", run_id: str, output: Path | None, dataset: str | None, where: "Folders", as_json: bool
) -> object:
    from longmemeval.results.formats.export_questions import export_questions

    written = export_questions(run_id, output, format=format, dataset=dataset, where=where)
    if as_json:
        return written
    out.print(f"{written.part or count_of(written.questions, 'question')}: {printable(written.file)}")
    if written.card:
        out.print(f"Data set card: {printable(written.card)}")
    if written.protocol_note:
        err.print(printable(written.protocol_note))
    return written


def _inspect(
    format: "InspectFormat",
    run_ids: Sequence[str],
    output: Path | None,
    dataset: str | None,
    where: "Folders",
    as_json: bool,
) -> None:
    from longmemeval.results.formats.export_inspect import export_inspect

    written = export_inspect(run_ids, output, format=format, dataset=dataset, where=where)
    if as_json:
        print_json(written[0] if len(written) == 1 else {"runs": written})
        return
    for one in written:
        judges, epochs = count_of(len(one.judges), "judge"), len(one.runs)
        repeats = f", {count_of(epochs, 'repeat')}" if epochs > 1 else ""
        out.print(f"{count_of(one.questions, 'question')}{repeats}, {judges}: {printable(one.file)}")


def _official(run_id: str, output: Path | None, dataset: str | None, where: "Folders", as_json: bool) -> object:
    from longmemeval.results.formats.official_logs import export_official

    written = export_official(run_id, output, dataset=dataset, where=where)
    if as_json:
        return written
    out.print(f"{count_of(written.answers, 'answer')}: {printable(written.hypotheses)}")
    for log in written.logs:
        out.print(f"Judged log: {printable(log)}")
    if written.part:
        err.print(f"Not the whole data set: {written.part}.")
    if written.unanswered:
        unanswered = count_of(len(written.unanswered), "question")
        err.print(f"{unanswered} without an answer; the official script does not count them.")
    if written.later_gradings:
        later = printable(", ".join(written.later_gradings))
        err.print(f"Not exported: later gradings, as the first is the score: {later}")
    for model in written.unofficial:
        err.print(f"print_qa_metrics.py accepts no log judged by {printable(model)}; it needs the official judge.")
    return written
