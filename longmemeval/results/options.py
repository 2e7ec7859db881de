"""Options of what reads runs."""

from typing import Annotated, Literal

from longmemeval.core.options import MODEL, WHAT, Flag

ExportFormat = Literal["official", "trec", "csv", "jsonl", "parquet", "inspect", "inspect-json"]
JudgeId = Annotated[str | None, Flag(MODEL, "JUDGE", "Id, its beginning, or model [default: official, else newest].")]
BaselineRun = Annotated[
    str | None,
    Flag(
        WHAT,
        "RUN",
        "What the others are compared with [default: the run named first; of a pattern or sweep, the full history, "
        "else the oldest that is no control].",
    ),
]
MovedDataset = Annotated[
    str | None, Flag(metavar="DATA", name="--dataset -d", help="The run's data set, if it has moved.")
]
