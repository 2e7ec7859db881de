"""`longmemeval verify`."""

from typing import Annotated

import typer

from longmemeval.cli import options as shared
from longmemeval.cli.completion import complete_run
from longmemeval.cli.groups import add_verb
from longmemeval.cli.output import err, out, print_json, printable


def register(app: typer.Typer) -> None:
    """Add the verb."""
    add_verb(app, "verify", verify, example="longmemeval verify demo-hybrid")


def verify(
    subject: Annotated[
        str,
        typer.Argument(metavar="RUN|DATA[/NAME]", autocompletion=complete_run, help="A run or a preparation."),
    ],
    places: shared.Places,
    dataset: shared.MovedDataset = None,
    as_json: shared.Json = False,
) -> None:
    """Check all hashes, and recompute every number from the files.

    The exit code is 3 if a check fails.
    """
    from longmemeval.pipeline.verify.verify import verify as check

    where = places.folders()
    verification = check(subject, dataset=dataset, where=where)
    if as_json:
        print_json(verification)
    elif not verification.problems:
        out.print(f"{printable(subject)}: all {verification.checked} checks hold")
    for problem in verification.problems:
        err.print(f"{printable(problem)}")
    if verification.problems:
        err.print(f"{printable(subject)}: {len(verification.problems)} of {verification.checked} checks do not hold")
        raise typer.Exit(3)
