"""`longmemeval report`."""

from pathlib import Path
from typing import Annotated

import typer

from longmemeval.cli import options as shared
from longmemeval.cli.output import out, printable
from longmemeval.cli.panels import Published
from longmemeval.core.options import OUTPUT, Flag
from longmemeval.core.text.figures import count_of
from longmemeval.report.options import ReportOptions

EXAMPLE = "longmemeval report demo-hybrid demo-bm25 -o report.html"


def report(
    runs: shared.Runs,
    options: ReportOptions,
    places: shared.Places,
    output: Annotated[
        Path | None,
        Flag(
            OUTPUT,
            "FILE",
            "File to write; - is standard output [default: report.html, .md or .tex].",
            name="--output -o",
        ),
    ] = None,
    published: Published = None,
    force: Annotated[bool, Flag(OUTPUT, help="Replace a file that is not a report.")] = False,
) -> None:
    """Write an HTML, Markdown or LaTeX report.

    Scores, significance, charts, and every question in detail.
    """
    from msgspec import structs

    from longmemeval.report.write import render_report, write_report

    options = structs.replace(options, published="all" if published == "all" else published is not None)
    if options.across and (published or options.full or options.audit or options.format in ("bibtex", "figures")):
        raise typer.BadParameter("--across takes no --published, --full, --audit, --format bibtex or figures")
    folders = places.folders()
    run_ids = runs.compared(folders, options.baseline)
    if output == Path("-"):
        if options.format in ("html", "figures"):
            raise typer.BadParameter(
                f"a {'page' if options.format == 'html' else 'folder of figures'} needs a file: --output FILE"
            )
        out.file.write(render_report(run_ids, options=options, folders=folders))
        return
    written = write_report(run_ids, output, options=options, folders=folders, force=force)
    size = f"{written.bytes / 1e6:.1f} MB" if written.bytes >= 100_000 else f"{written.bytes / 1e3:.1f} KB"
    out.print(f"{printable(written.file)}: {size}, {count_of(written.questions, 'question')}, runs: {written.runs}")
