"""The option for the style of progress, which every long-running verb has."""

from dataclasses import dataclass
from typing import Annotated, Literal

from longmemeval.core.options import Flag


@dataclass(frozen=True, kw_only=True)
class Shown:
    """The way progress is shown."""

    progress: Annotated[Literal["auto", "json", "off"], Flag(metavar="STYLE")] = "auto"
    """auto (a bar in a terminal, else a line a minute), json (an event per line) or off."""

    def apply(self) -> None:
        """Show progress in this style from now on."""
        from longmemeval.pipeline.progress import show_progress

        show_progress(self.progress)
