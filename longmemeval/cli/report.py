"""`longmemeval report`."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from longmemeval.cli import options as shared
from longmemeval.cli.output import out, printable


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("report")(report)


def report(
    run_ids: Annotated[list[str], typer.Argument(metavar="RUN_ID", help="Graded runs over the same questions.")],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="The file; `-`: standard output [default: report.html, .md or .tex, here]."
        ),
    ] = None,
    format: Annotated[
        Literal["html", "md", "latex"],
        typer.Option(
            "--format", help="html: one page that needs nothing else; md, latex: tables for notes and papers."
        ),
    ] = "html",
    judge: Annotated[
        str | None,
        typer.Option(
            help="Id of the judge, a beginning of it or its model [default: the official one, else the newest]."
        ),
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Cut no text in the page, whatever its size.")] = False,
    published: Annotated[bool, typer.Option("--published", help="Show published figures too.")] = False,
    dataset: Annotated[str | None, typer.Option("--dataset", "-d", help="The runs' data set, if it moved.")] = None,
    data_dir: shared.DataDir = None,
    prepared_dir: shared.PreparedDir = None,
    results_dir: shared.ResultsDir = None,
) -> None:
    """Write graded runs as a page: scores, what differs by more than noise, charts, and every question in detail."""
    from longmemeval.report.write import ReportOptions, render_report, write_report
    from longmemeval.settings import folders

    options = ReportOptions(format=format, judge=judge, dataset=dataset, full=full, published=published)
    where = folders(data_dir=data_dir, prepared_dir=prepared_dir, results_dir=results_dir)
    if output == Path("-"):
        if format == "html":
            raise typer.BadParameter("a page is not for standard output: name a file by --output")
        out.file.write(render_report(run_ids, options=options, where=where))
        return
    written = write_report(run_ids, output, options=options, where=where)
    size = f"{written.bytes / 1e6:.1f} MB" if written.bytes >= 100_000 else f"{written.bytes / 1e3:.1f} KB"
    out.print(f"{printable(written.file)}: {size}, {written.questions:,} questions, runs: {written.runs}")
