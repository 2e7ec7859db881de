"""`longmemeval export`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from longmemeval.cli import options as shared
from longmemeval.cli.groups import add_verb
from longmemeval.cli.output import err, out, print_json, printable
from longmemeval.cli.panels import OUTPUT

if TYPE_CHECKING:
    from longmemeval.settings import Folders


def register(app: typer.Typer) -> None:
    """Add the verb."""
    add_verb(app, "export", export, example="longmemeval export my-run --format csv")


def export(
    run_id: shared.RunId,
    format: Annotated[
        Literal["official", "trec", "csv"],
        typer.Option("--format", metavar="FORMAT", rich_help_panel=OUTPUT, help="official, trec or csv."),
    ],
    places: shared.Places,
    output: Annotated[
        Path | None,
        typer.Option(metavar="DIR", rich_help_panel=OUTPUT, help="Folder for the files [default: the run's folder]."),
    ] = None,
    dataset: shared.MovedDataset = None,
    as_json: shared.Json = False,
) -> None:
    """Write a run in a format that other tools read.

    official: hypotheses and judged logs, in the form of the benchmark authors' own scripts.

    trec: the rankings of a `retrieval` run and the qrels, for trec_eval.

    csv: one row per question. Cells that a spreadsheet would run as a formula begin with an apostrophe.
    """
    where = places.folders()
    if format == "trec":
        _trec(run_id, output, dataset, where, as_json)
    elif format == "csv":
        _csv(run_id, output, dataset, where, as_json)
    else:
        _official(run_id, output, dataset, where, as_json)


def _trec(run_id: str, output: Path | None, dataset: str | None, where: "Folders", as_json: bool) -> None:
    from longmemeval.pipeline.exchange.export_trec import export_trec

    written = export_trec(run_id, output, dataset=dataset, where=where)
    if as_json:
        print_json(written)
        return
    out.print(f"Rankings of {written.questions:,} questions: {printable(written.run_file)}")
    out.print(f"Evidence: {printable(written.qrels_file)}")
    if written.without_gold:
        err.print(f"{written.without_gold:,} questions have no evidence: trec_eval passes them over.")


def _csv(run_id: str, output: Path | None, dataset: str | None, where: "Folders", as_json: bool) -> None:
    from longmemeval.pipeline.exchange.export_csv import export_csv

    written = export_csv(run_id, output, dataset=dataset, where=where)
    if as_json:
        print_json(written)
        return
    out.print(f"{written.part or f'{written.questions:,} questions'}: {printable(written.file)}")
    if written.protocol_note:
        err.print(printable(written.protocol_note))


def _official(run_id: str, output: Path | None, dataset: str | None, where: "Folders", as_json: bool) -> None:
    from longmemeval.pipeline.exchange.official_logs import export_official

    written = export_official(run_id, output, dataset=dataset, where=where)
    if as_json:
        print_json(written)
        return
    out.print(f"{written.answers:,} answers: {printable(written.hypotheses)}")
    for log in written.logs:
        out.print(f"Judged log: {printable(log)}")
    if written.part:
        err.print(f"Not the whole data set: {written.part}.")
    if written.unanswered:
        err.print(f"{len(written.unanswered):,} questions have no answer: the official script does not miss them.")
    if written.later_gradings:
        later = printable(", ".join(written.later_gradings))
        err.print(f"Left out are later gradings, as the first is the score: {later}")
    for model in written.unofficial:
        err.print(f"print_qa_metrics.py takes no log judged by {printable(model)}: it asks for the official judge.")
