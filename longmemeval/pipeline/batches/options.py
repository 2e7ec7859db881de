"""Options of a stage whose calls go by batch."""

from typing import Annotated

from longmemeval.core.arguments import Options
from longmemeval.core.options import Flag


class BatchOptions(Options, frozen=True):
    """Options of a stage whose calls go by batch."""

    poll_s: Annotated[float | None, Flag(metavar="SECONDS", name="--batch-poll", minimum=1.0)] = None
    """Seconds between looks at a batch [default: 5 s at first, growing to a minute]."""
