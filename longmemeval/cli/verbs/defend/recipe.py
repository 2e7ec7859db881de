"""`longmemeval recipe`."""

from pathlib import Path
from typing import Annotated

import typer

from longmemeval.cli import next_step
from longmemeval.cli.options import shared
from longmemeval.cli.options.completion import complete_run
from longmemeval.cli.options.groups import add_verb
from longmemeval.cli.options.panels import OUTPUT
from longmemeval.cli.output import out, printable


def register(app: typer.Typer) -> None:
    """Add the verb."""
    add_verb(app, "recipe", recipe, example="longmemeval recipe demo-hybrid --output recipe.yaml")


def recipe(
    places: shared.Places,
    run: Annotated[str, typer.Argument(metavar="RUN", autocompletion=complete_run, help="The run.")],
    dataset: shared.MovedDataset = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", rich_help_panel=OUTPUT, help="Write it there."),
    ] = None,
) -> None:
    """Print the YAML that makes a run again, with hashes of all it depends on.

    longmemeval run --recipe FILE --strict makes the run, and does not begin where anything differs.
    """
    from longmemeval.core.files import write_atomic
    from longmemeval.pipeline.recipe.write import recipe_text

    text = recipe_text(run, dataset=dataset, where=places.folders())
    if output is None:
        out.file.write(text)
        return
    write_atomic(output, text.encode())
    out.print(printable(f"Written: {output}"))
    out.next(next_step.command_line("run", "--recipe", str(output), "--strict", places=places))
