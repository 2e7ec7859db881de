"""`longmemeval report`."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from longmemeval.cli.options import shared
from longmemeval.cli.options.groups import add_verb
from longmemeval.cli.options.panels import OUTPUT
from longmemeval.cli.output import out, printable
from longmemeval.cli.published import Published
from longmemeval.core.text.plural import count_of


def register(app: typer.Typer) -> None:
    """Add the verb."""
    add_verb(app, "report", report, example="longmemeval report demo-hybrid demo-bm25 -o report.html")


def report(
    runs: shared.Runs,
    places: shared.Places,
    judge: shared.JudgeId = None,
    dataset: shared.MovedDataset = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            rich_help_panel=OUTPUT,
            help="- is standard output [default: report.html, .md or .tex].",
        ),
    ] = None,
    format: Annotated[
        Literal["html", "md", "latex"],
        typer.Option(
            "--format", metavar="FORMAT", rich_help_panel=OUTPUT, help="html (one page), md or latex (tables)."
        ),
    ] = "html",
    full: Annotated[
        bool, typer.Option("--full", rich_help_panel=OUTPUT, help="Cut no text in the page, whatever its size.")
    ] = False,
    published: Published = None,
    force: Annotated[
        bool, typer.Option("--force", rich_help_panel=OUTPUT, help="Replace a file that is no report.")
    ] = False,
    across: Annotated[
        bool,
        typer.Option("--across", rich_help_panel=OUTPUT, help="One table by ability, for runs on different data sets."),
    ] = False,
) -> None:
    """Write a report on graded runs.

    Scores, significance, charts, and every question in detail.
    """
    from longmemeval.report.write import ReportOptions, render_report, write_report

    options = ReportOptions(
        format=format,
        judge=judge,
        dataset=dataset,
        full=full,
        published="all" if published == "all" else published is not None,
        across=across,
    )
    if across and (published or full):
        raise typer.BadParameter("--across takes neither --published nor --full")
    where = places.folders()
    run_ids = runs.named(where)
    if output == Path("-"):
        if format == "html":
            raise typer.BadParameter("a page needs a file: --output FILE")
        out.file.write(render_report(run_ids, options=options, where=where))
        return
    written = write_report(run_ids, output, options=options, where=where, force=force)
    size = f"{written.bytes / 1e6:.1f} MB" if written.bytes >= 100_000 else f"{written.bytes / 1e3:.1f} KB"
    out.print(f"{printable(written.file)}: {size}, {count_of(written.questions, 'question')}, runs: {written.runs}")
