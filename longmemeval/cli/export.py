"""`longmemeval export`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from longmemeval.cli import options as shared
from longmemeval.cli.output import err, out, print_json, printable

if TYPE_CHECKING:
    from longmemeval.settings import Folders


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("export")(export)


def export(
    run_id: Annotated[str, typer.Argument(help="A run.")],
    format: Annotated[
        Literal["official", "trec", "csv"],
        typer.Option(
            "--format",
            help="official: hypotheses and judged logs as the official scripts read them; trec: a run file and a qrels "
            "file of a `retrieval` run for trec_eval and the like; csv: one row per question; text that a spreadsheet "
            "would take for a formula begins with an apostrophe.",
        ),
    ],
    output: Annotated[Path | None, typer.Option(help="Folder for the files [default: inside the run's].")] = None,
    dataset: Annotated[str | None, typer.Option("--dataset", "-d", help="Where the run's data set is now.")] = None,
    data_dir: shared.DataDir = None,
    prepared_dir: shared.PreparedDir = None,
    results_dir: shared.ResultsDir = None,
    as_json: shared.Json = False,
) -> None:
    """Write a run in a format that other tools read."""
    from longmemeval.settings import folders

    where = folders(data_dir=data_dir, prepared_dir=prepared_dir, results_dir=results_dir)
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
