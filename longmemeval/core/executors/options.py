"""Options of workers."""

from typing import Annotated

from longmemeval.core.options import LIMITS, Flag

Jobs = Annotated[int | None, Flag(LIMITS, "N", "Workers [default: one per core when it pays].", minimum=1)]
ExecutorName = Annotated[
    str | None,
    Flag(
        metavar="NAME",
        name="--executor",
        help="What runs the workers: processes, threads, dask, ray or another package's [default: processes when it "
        "pays].",
    ),
]
