"""Whether model calls go by batch."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from longmemeval.cli.options.panels import MODEL

if TYPE_CHECKING:
    from longmemeval.pipeline.batches.batches import BatchOptions


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Calls through a provider's batch endpoints."""

    batch: Annotated[
        bool,
        typer.Option("--batch", rich_help_panel=MODEL, help="Ask in batches: about half the price, within a day."),
    ] = False

    def options(self) -> "BatchOptions | None":
        """As the pipeline takes them; None: calls go directly."""
        from longmemeval.pipeline.batches.batches import BatchOptions

        return BatchOptions() if self.batch else None
