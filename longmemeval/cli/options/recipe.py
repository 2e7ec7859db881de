"""A run that is made again by its recipe."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from longmemeval.cli.options.panels import ADVANCED

_BESIDE = (
    *("recipe", "strict", "run_id", "resume", "dry_run", "as_json", "progress"),
    *("dataset", "embedder", "data_dir", "prepared_dir", "results_dir"),
    *("concurrency", "max_cost", "timeout", "max_attempts", "give_up_after", "rpm", "tpm", "limits"),
)
"""What may be given beside a recipe: where things are, which run it becomes, and limits."""


@dataclass(frozen=True, kw_only=True)
class FromRecipe:
    """Where everything that is run comes from, if not from options."""

    recipe: Annotated[
        Path | None,
        typer.Option(
            "--recipe",
            metavar="FILE",
            rich_help_panel=ADVANCED,
            help="Make the run again that `longmemeval recipe` wrote.",
        ),
    ] = None
    strict: Annotated[
        bool, typer.Option("--strict", rich_help_panel=ADVANCED, help="Refuse to begin where the recipe differs.")
    ] = False

    def check(self, context: typer.Context) -> None:
        """Refuse options that say what is run beside a recipe, and their absence without one."""
        options = {name: one.opts for one in context.command.params if (name := one.name)}
        if self.recipe is None:
            if self.strict:
                context.fail("--strict is for --recipe FILE")
            for name in ("dataset", "memory", "model"):
                if context.params[name] is None:
                    context.fail(f"Missing option {' / '.join(map(repr, options[name]))}.")
            return
        sources = {name: context.get_parameter_source(name) for name in options.keys() - set(_BESIDE)}
        given = [options[name][0] for name, source in sources.items() if source and source.name == "COMMANDLINE"]
        if given:
            named = ", ".join(sorted(given))
            context.fail(f"{named} cannot be given beside --recipe: the file says what is run")
