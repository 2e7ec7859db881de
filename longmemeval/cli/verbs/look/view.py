"""`longmemeval view`."""

from typing import Annotated

import typer

from longmemeval.cli.options import shared
from longmemeval.cli.options.groups import add_verb
from longmemeval.cli.output import err, out, printable
from longmemeval.core.options import OUTPUT, Flag


def register(app: typer.Typer) -> None:
    """Add the verb."""
    add_verb(app, "view", view, example="longmemeval view demo-hybrid demo-bm25")


def view(
    runs: shared.Runs,
    places: shared.Places,
    port: Annotated[
        int | None, Flag(OUTPUT, "N", "Listen at this port [default: 8321, or a free one].", minimum=1, maximum=65535)
    ] = None,
    host: Annotated[str, Flag(metavar="ADDRESS", help="Listen at this address; who knows the token may look.")] = (
        "127.0.0.1"
    ),
    no_open: Annotated[bool, Flag(OUTPUT, help="Open no browser.")] = False,
) -> None:
    """Look at runs in a browser.

    The address is printed first; Ctrl-C ends it.
    """
    from longmemeval.view.launch import serve

    where = places.folders()
    named = runs.named(where) if runs.run_ids or runs.sweep is not None else []
    serve(
        where,
        named,
        host=host,
        port=port,
        tell=lambda address: out.print(printable(address)),
        open_browser=not no_open,
        warn=lambda text: err.print(printable(text)),
    )
