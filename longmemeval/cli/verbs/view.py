"""`longmemeval view`."""

from pathlib import Path
from typing import Annotated

import typer

from longmemeval.cli import options as shared
from longmemeval.cli.output import out, printable, warn
from longmemeval.core.installation import VIEW, install_command, missing
from longmemeval.core.options import OUTPUT, Flag
from longmemeval.errors import HarnessError
from longmemeval.results.options import JudgeId

EXAMPLE = "longmemeval view demo-hybrid demo-bm25"


def view(
    runs: shared.Runs,
    places: shared.Places,
    judge: JudgeId = None,
    port: Annotated[
        int | None, Flag(OUTPUT, "N", "Port to listen on [default: 8321, or a free one].", minimum=1, maximum=65535)
    ] = None,
    host: Annotated[str, Flag(metavar="ADDRESS", help="Address to listen on; anyone with the token has access.")] = (
        "127.0.0.1"
    ),
    no_open: Annotated[bool, Flag(OUTPUT, help="Do not open a browser.")] = False,
    export: Annotated[Path | None, Flag(OUTPUT, "DIR", "Folder for a static page of the named runs.")] = None,
) -> None:
    """View runs in a browser.

    The address is printed first; Ctrl-C ends the server.
    """
    folders = places.folders()
    named = runs.compared(folders) if runs.run_ids or runs.sweep is not None else []
    if export is not None:
        from longmemeval.report.write import ReportOptions, write_report

        if not named:
            raise typer.BadParameter("--export needs runs; the first is the baseline")
        written = write_report(named, export / "index.html", options=ReportOptions(judge=judge), folders=folders)
        out.print(printable(written.file))
        return
    if absent := missing(VIEW):
        raise HarnessError(
            f"The pages need a library that is not installed: {absent}", fix=f"Run: {install_command('view')}"
        )
    from longmemeval.view.app import serve

    serve(
        folders,
        named,
        judge or "",
        host=host,
        port=port,
        tell=lambda address: out.print(printable(address)),
        open_browser=not no_open,
        warn=warn,
    )
