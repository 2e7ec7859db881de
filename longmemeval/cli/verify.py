"""`longmemeval verify`."""

from typing import Annotated

import typer

from longmemeval.cli import options as shared
from longmemeval.cli.output import err, out, print_json, printable


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("verify")(verify)


def verify(
    subject: Annotated[str, typer.Argument(help="A run id, or a preparation: DATASET or DATASET/NAME.")],
    dataset: Annotated[str | None, typer.Option("--dataset", "-d", help="Where a run's data set is now.")] = None,
    data_dir: shared.DataDir = None,
    prepared_dir: shared.PreparedDir = None,
    results_dir: shared.ResultsDir = None,
    as_json: shared.Json = False,
) -> None:
    """Check that all hashes hold and that every number recomputes from the files; exit code 3 if not."""
    from longmemeval.pipeline.verify.verify import verify as check
    from longmemeval.settings import folders

    where = folders(data_dir=data_dir, prepared_dir=prepared_dir, results_dir=results_dir)
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
