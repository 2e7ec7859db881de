"""`longmemeval board`: one verb so far, `build`."""

from pathlib import Path
from typing import Annotated

import typer

from longmemeval.cli import options as shared
from longmemeval.cli.options import add_verb
from longmemeval.cli.output import err, out, print_json, printable, warn
from longmemeval.cli.panels import Verbs
from longmemeval.core.options import OUTPUT, WHAT, Flag
from longmemeval.core.text.figures import count_of

app = typer.Typer(
    cls=Verbs,
    help="Build a leaderboard of verified runs.",
    epilog="longmemeval board build results -o board",
)


@app.callback()
def _group() -> None:
    """Make `build` a separate verb, although it is the only one."""


def build(
    folders: Annotated[list[Path], Flag(metavar="FOLDER", help="Folders to search for runs.", argument=True)],
    places: shared.Places,
    output: Annotated[Path, Flag(OUTPUT, "DIR", "Folder to write.", name="--output -o")],
    dataset: Annotated[
        list[str] | None,
        Flag(WHAT, "DATA", "Dataset outside the catalogue; repeatable.", name="--dataset -d"),
    ] = None,
    keys: Annotated[Path | None, Flag(WHAT, "DIR", "Folder of public keys (*.pub, *.pem) to check signatures.")] = None,
    as_json: shared.Json = False,
) -> None:
    """Verify all runs below the folders, and write a static page and JSON of those that hold.

    It lists runs that do not verify, are unfinished or ungraded separately, with the reason. See docs/board.md.
    """
    from longmemeval.report.board import write_board

    written = write_board(folders, output, datasets=dataset or (), keys=keys, folders=places.folders())
    if as_json:
        print_json(written.board)
    else:
        out.print(
            printable(
                f"{written.folder}: {count_of(written.ranked, 'ranked run')}, {written.shown} without a rank, "
                f"{written.apart} listed separately"
            )
        )
    for entry in written.board.apart:
        warn(f"{entry.submission}: {entry.reason}")
    if not written.ranked and not written.shown:
        err.print("The board has no runs; the reasons are listed above.")
        raise typer.Exit(1)


add_verb(app, "build", build, example="longmemeval board build results -o board")
