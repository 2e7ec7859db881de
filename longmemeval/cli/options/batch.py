"""Whether model calls go by batch."""

from dataclasses import dataclass
from typing import Annotated

import typer

from longmemeval.core.options import MODEL, Flag, Group
from longmemeval.pipeline.batches.options import BatchOptions


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Calls through a provider's batch endpoints."""

    batch: Annotated[bool, Flag(MODEL)] = False
    """Ask in batches: about half the price, within a day."""
    given: Annotated[BatchOptions, Group()]

    def options(self) -> BatchOptions | None:
        """Return the options as the pipeline takes them; None: calls go directly."""
        if self.given.poll_s is not None and not self.batch:
            raise typer.BadParameter("--batch-poll is for --batch")
        return self.given if self.batch else None
