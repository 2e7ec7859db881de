"""How progress is shown: an option of every verb that takes long."""

from dataclasses import dataclass
from typing import Annotated, Literal

from longmemeval.core.options import Flag


@dataclass(frozen=True, kw_only=True)
class Shown:
    """The way progress is shown."""

    progress: Annotated[Literal["auto", "json", "off"], Flag(metavar="STYLE")] = "auto"
    """auto (a bar in a terminal, else a line a minute), json (an event per line) or off."""

    def apply(self) -> None:
        """Show it so from now on."""
        from longmemeval.pipeline.progress import show_progress

        show_progress(self.progress)
