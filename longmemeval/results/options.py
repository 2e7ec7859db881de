"""Options of commands that read runs."""

from typing import Annotated, Literal

from longmemeval.core.options import MODEL, OUTPUT, WHAT, Flag

ExportFormat = Literal["official", "trec", "csv", "jsonl", "parquet", "inspect", "inspect-json"]
JudgeId = Annotated[
    str | None, Flag(MODEL, "JUDGE", "Judge: id, its beginning, or model [default: official, else newest].")
]
BaselineRun = Annotated[
    str | None,
    Flag(
        WHAT,
        "RUN",
        "Run to compare the others with [default: the run named first; for a pattern or sweep, the full history, "
        "else the oldest that is not a control].",
    ),
]
AUDIT = Flag(OUTPUT, "AUDIT", "Score without disputed gold labels (name or file).", name="--audit")
MovedDataset = Annotated[
    str | None, Flag(metavar="DATA", name="--dataset -d", help="Dataset of the run, if it has moved.")
]
