"""Where the cluster is that does the work."""

from typing import Annotated

import typer

from longmemeval.cli.options.panels import ADVANCED
from longmemeval.errors import HarnessError

Scheduler = Annotated[
    str | None,
    typer.Option(
        "--scheduler",
        metavar="ADDRESS",
        rich_help_panel=ADVANCED,
        help="With --executor dask: the scheduler, like tcp://host:8786 [default: LONGMEMEVAL_DASK_SCHEDULER, else "
        "local workers].",
    ),
]


def executor_spec(executor: str | None, scheduler: str | None) -> str | None:
    """The executor with its address, as the pipeline takes it.

    Raises:
        HarnessError: an address is given for another executor.
    """
    if scheduler is None:
        return executor
    if executor != "dask":
        raise HarnessError("--scheduler is the address of a Dask cluster", fix="Add --executor dask")
    return f"dask@{scheduler}"
