"""Whether model calls go by batch."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from longmemeval.cli.options.panels import ADVANCED, MODEL

if TYPE_CHECKING:
    from longmemeval.pipeline.batches.batches import BatchOptions


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Calls through a provider's batch endpoints."""

    batch: Annotated[
        bool,
        typer.Option("--batch", rich_help_panel=MODEL, help="Ask in batches: about half the price, within a day."),
    ] = False

    batch_poll: Annotated[
        float | None,
        typer.Option(
            "--batch-poll",
            min=1.0,
            metavar="SECONDS",
            rich_help_panel=ADVANCED,
            help="Look at a batch every so often [default: 5 s at first, growing to a minute].",
            show_default=False,
        ),
    ] = None

    def options(self) -> "BatchOptions | None":
        """Return the options as the pipeline takes them; None: calls go directly."""
        from longmemeval.pipeline.batches.batches import BatchOptions

        if self.batch_poll is not None and not self.batch:
            raise typer.BadParameter("--batch-poll is for --batch")
        return BatchOptions(poll_s=self.batch_poll) if self.batch else None
