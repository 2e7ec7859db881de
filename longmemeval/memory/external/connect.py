"""From what stands behind `--memory` to a service: `process:COMMAND`, an address, or a class."""

from collections.abc import Callable
from typing import Any

from longmemeval.errors import HarnessError
from longmemeval.memory.external.carriers import Carrier, InProcess, OnProgress
from longmemeval.memory.external.child_process import ChildProcess
from longmemeval.memory.external.http_service import HttpService
from longmemeval.memory.external.serve import MemoryServer
from longmemeval.memory.external.service import MemoryService, Patience
from longmemeval.memory.external.spelling import HTTP, PROCESS, command_of, is_memory_class
from longmemeval.plugins import load_object


def connect(spec: str, patience: Patience | None = None) -> MemoryService:
    """The service that `spec` names. Nothing is begun before it is asked for something.

    Args:
        spec: `process:COMMAND`, `http://host:port` or `package.module:Class`.
        patience: how long to wait for it.

    Raises:
        HarnessError: the class cannot be loaded, or lacks `add` or `search`.
    """
    return MemoryService(_carrier(spec), patience)


def _carrier(spec: str) -> Callable[[OnProgress], Carrier]:
    if spec.startswith(PROCESS):
        return lambda on_progress: ChildProcess(command_of(spec), on_progress)
    if spec.startswith(HTTP):
        return lambda on_progress: HttpService(spec)
    loaded: Any = load_object(spec, "memory")
    if not is_memory_class(loaded):
        raise HarnessError(
            "This is no class with add(session) and search(query, *, date, limit)",
            where=spec,
            fix="Write an example with `longmemeval memory init mymem.py`",
        )
    return lambda on_progress: InProcess(MemoryServer(loaded, spec.rpartition(":")[2]))
