"""Options of a run that repeats another one."""

from dataclasses import dataclass
from typing import Annotated

import typer

from longmemeval.core.options import Flag

_BESIDE = (
    *("like", "strict", "run_id", "resume", "dry_run", "as_json", "progress"),
    *("dataset", "embedder", "data_dir", "prepared_dir", "results_dir"),
    *("concurrency", "max_cost", "timeout", "max_attempts", "give_up_after", "rpm", "tpm", "limits"),
)
"""Options that may be combined with --like: folders, the id of the new run, and limits."""


@dataclass(frozen=True, kw_only=True)
class LikeAnother:
    """The run that provides all settings, if options do not."""

    like: Annotated[str | None, Flag(metavar="RUN")] = None
    """Repeat a run with all its settings: its id, or the path of a run.json."""
    recipe: Annotated[str | None, Flag(hidden=True)] = None
    strict: Annotated[bool, Flag()] = False
    """With --like: refuse to start if anything differs."""

    def check(self, context: typer.Context) -> None:
        """Refuse options that --like determines, and without --like require them."""
        if self.recipe is not None:
            context.fail(
                "--recipe is now --like: give the run.json of the run, which holds everything that a recipe did"
            )
        options = {name: parameter.opts for parameter in context.command.params if (name := parameter.name)}
        if self.like is None:
            if self.strict:
                context.fail("--strict needs --like RUN")
            for name in ("dataset", "memory", "model"):
                if context.params[name] is None:
                    context.fail(f"Missing option {' / '.join(map(repr, options[name]))}.")
            return
        sources = {name: context.get_parameter_source(name) for name in options.keys() - set(_BESIDE)}
        conflicting = [options[name][0] for name, source in sources.items() if source and source.name == "COMMANDLINE"]
        if conflicting:
            named = ", ".join(sorted(conflicting))
            context.fail(f"{named} cannot be combined with --like: that run determines the settings")
