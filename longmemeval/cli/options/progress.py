"""How progress is shown: an option of every verb that takes long."""

from dataclasses import dataclass
from typing import Annotated, Literal

import typer

from longmemeval.cli.options.panels import ADVANCED


@dataclass(frozen=True, kw_only=True)
class Shown:
    """The way progress is shown."""

    progress: Annotated[
        Literal["auto", "json", "off"],
        typer.Option(
            "--progress",
            metavar="STYLE",
            rich_help_panel=ADVANCED,
            help="auto (a bar in a terminal, else a line a minute), json (an event per line) or off.",
        ),
    ] = "auto"

    def apply(self) -> None:
        """Show it so from now on."""
        from longmemeval.pipeline.progress import show_progress

        show_progress(self.progress)
