"""A run that is made again as another one was made."""

from dataclasses import dataclass
from typing import Annotated

import typer

from longmemeval.core.options import Flag

_BESIDE = (
    *("like", "strict", "run_id", "resume", "dry_run", "as_json", "progress"),
    *("dataset", "embedder", "data_dir", "prepared_dir", "results_dir"),
    *("concurrency", "max_cost", "timeout", "max_attempts", "give_up_after", "rpm", "tpm", "limits"),
)
"""Options that may be given beside --like: places, the id of the new run, and limits."""


@dataclass(frozen=True, kw_only=True)
class LikeAnother:
    """Where everything that is run comes from, if not from options."""

    like: Annotated[str | None, Flag(metavar="RUN")] = None
    """Make a run again with all its settings: its id, or the path of a run.json."""
    recipe: Annotated[str | None, Flag(hidden=True)] = None
    strict: Annotated[bool, Flag()] = False
    """With --like: refuse to begin where anything differs."""

    def check(self, context: typer.Context) -> None:
        """Refuse options that say what is run beside --like, and their absence without it."""
        if self.recipe is not None:
            context.fail("--recipe is now --like: give the run.json of the run, which holds all that a recipe held")
        options = {name: one.opts for one in context.command.params if (name := one.name)}
        if self.like is None:
            if self.strict:
                context.fail("--strict is for --like RUN")
            for name in ("dataset", "memory", "model"):
                if context.params[name] is None:
                    context.fail(f"Missing option {' / '.join(map(repr, options[name]))}.")
            return
        sources = {name: context.get_parameter_source(name) for name in options.keys() - set(_BESIDE)}
        given = [options[name][0] for name, source in sources.items() if source and source.name == "COMMANDLINE"]
        if given:
            named = ", ".join(sorted(given))
            context.fail(f"{named} cannot be given beside --like: that run says what is run")
