"""Connect to the service that `--memory` names: `process:COMMAND`, an address, a class, or an adapter's name."""

import os
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from longmemeval.core.secrets.parameters import resolved_words
from longmemeval.llm.providers import without_keys
from longmemeval.memory.definition import HTTP, PROCESS, command_of, is_service, source_of
from longmemeval.memory.external.serve import MemoryServer, defined
from longmemeval.memory.external.transports.child_process import ChildProcess
from longmemeval.memory.external.transports.service import HttpService, MemoryService, Timeouts, patience_of
from longmemeval.memory.external.transports.transport import InProcess, OnProgress, Transport
from longmemeval.memory.products.installed import place_of
from longmemeval.memory.products.known import adapter_of
from longmemeval.plugins import load_object, source_sha256

# Classes that were passed as objects, by their names as memories.

LIVE = "class:"
LIVE_CLASSES: dict[str, type] = {}


RAISED: dict[str, BaseException] = {}
"""The last exception that each class of this process has raised, by the name of its service."""
LOADED_CODE: dict[str, Mapping[str, str]] = {}
"""The origin of the code behind each service, from when this process loaded it: files may change afterwards."""


def connect(spec: str, timeouts: Timeouts | None = None, *, keys: bool = True) -> MemoryService:
    """Return the service that `spec` names. Nothing is started before the first request.

    Args:
        spec: `process:COMMAND`, `http://host:port`, `package.module:Class` or the name of an adapter.
        timeouts: how long to wait for it; None: from the environment.
        keys: True: a child process gets the keys of model providers in its environment.

    Raises:
        HarnessError: the class cannot be loaded, there is no such adapter, its product is not installed, or the
            environment's timeouts, or a secret of the command, cannot be read.
    """
    return MemoryService(_transport(spec, keys=keys), timeouts or patience_of())


def _transport(spec: str, *, keys: bool) -> Callable[[OnProgress], Transport]:
    if spec.startswith(PROCESS):
        environment = None if keys else without_keys(os.environ)
        command = resolved_words(command_of(spec))
        return lambda on_progress: ChildProcess(command, on_progress, environment)
    if spec.startswith(HTTP):
        return lambda on_progress: HttpService(spec)
    if adapter := adapter_of(spec):
        place = place_of(adapter).required()
        own = place.environment if keys else without_keys(place.environment)
        return lambda on_progress: ChildProcess(place.command, on_progress, own)
    loaded: Any = LIVE_CLASSES.get(spec) or load_object(spec, "memory")
    server = MemoryServer(loaded, loaded.__name__)
    return lambda on_progress: InProcess(server, partial(RAISED.__setitem__, spec))


def place_of_method(spec: str, method: str) -> str:
    """Return the file and line where a class of this process defines a method; empty for other services."""
    if is_service(spec) or adapter_of(spec) is not None:
        return ""
    loaded: Any = LIVE_CLASSES.get(spec) or load_object(spec, "memory")
    return defined(loaded, method).removesuffix(": ")


def code_of(spec: str) -> Mapping[str, str]:
    """Return the origin of the code behind a service as this process loaded it; empty if it names none.

    Raises:
        HarnessError: the class cannot be loaded.
    """
    if spec not in LOADED_CODE:
        adapter = None if is_service(spec) else adapter_of(spec)
        if is_service(spec):
            origin: Mapping[str, str] = source_of(spec) or {}
        elif adapter:
            origin = adapter.origin
        else:
            origin = {"source_sha256": source_sha256(load_object(spec, "memory").__module__)}
        LOADED_CODE[spec] = origin
    return LOADED_CODE[spec]
