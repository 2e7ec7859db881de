"""The part of Ray that the harness uses (its own types leave most functions untyped)."""

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from ray import exceptions as exceptions
from ray import util as util

class ObjectRef:
    def future(self) -> Future[Any]: ...

class RemoteFunction:
    def options(self, *, num_cpus: float = ..., resources: dict[str, float] = ...) -> RemoteFunction: ...
    def remote(self, *given: object) -> ObjectRef: ...

class RuntimeContext:
    gcs_address: str

def init(
    address: str,
    *,
    num_cpus: int | None = None,
    object_store_memory: int | None = None,
    include_dashboard: bool | None = None,
    log_to_driver: bool = True,
    logging_level: int = ...,
) -> object: ...
def is_initialized() -> bool: ...
def shutdown() -> None: ...
def remote(function: Callable[..., object]) -> RemoteFunction: ...
def cluster_resources() -> dict[str, float]: ...
def get_runtime_context() -> RuntimeContext: ...
