"""Options of what reads graded runs."""

from typing import Annotated

from longmemeval.core.options import MODEL, Flag

JudgeId = Annotated[str | None, Flag(MODEL, "JUDGE", "Id, its beginning, or model [default: official, else newest].")]
MovedDataset = Annotated[
    str | None, Flag(metavar="DATA", name="--dataset -d", help="The run's data set, if it has moved.")
]
