"""Options of model calls by batch."""

from dataclasses import dataclass
from typing import Annotated

import typer

from longmemeval.core.options import MODEL, Flag, Group
from longmemeval.pipeline.options import BatchOptions


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Calls through a provider's batch endpoints."""

    batch: Annotated[bool, Flag(MODEL)] = False
    """Ask in batches: about half the price, within a day."""
    details: Annotated[BatchOptions, Group()]

    def options(self) -> BatchOptions | None:
        """Return the options for the pipeline; None: calls are sent directly."""
        if self.details.poll_s is not None and not self.batch:
            raise typer.BadParameter("--batch-poll needs --batch")
        return self.details if self.batch else None
