"""Options with the address of the cluster that does the work."""

from typing import Annotated

from longmemeval.core.options import Flag
from longmemeval.errors import HarnessError

ClusterAddress = Annotated[
    str | None,
    Flag(
        metavar="ADDRESS",
        name="--address --scheduler",
        help="With --executor dask: the scheduler, like tcp://host:8786 [default: LONGMEMEVAL_DASK_SCHEDULER]; with "
        "ray: the head, like host:6379 [default: RAY_ADDRESS]. Without one: local workers.",
    ),
]


def executor_spec(executor: str | None, address: str | None) -> str | None:
    """Return the executor with its address, for the pipeline.

    Raises:
        HarnessError: an address is given, but no executor.
    """
    if address is None:
        return executor
    if executor is None:
        raise HarnessError("--address is the address of a cluster", fix="Add --executor dask or --executor ray")
    return f"{executor}@{address}"
