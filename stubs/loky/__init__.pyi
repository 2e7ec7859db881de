from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

class ProcessPoolExecutor:
    _processes: dict[int, object]

    def __init__(
        self,
        max_workers: int | None = ...,
        *,
        initializer: Callable[..., object] | None = ...,
        initargs: tuple[Any, ...] = ...,
    ) -> None: ...
    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]: ...
    def shutdown(self, wait: bool = ...) -> None: ...

def cpu_count(only_physical_cores: bool = ...) -> int: ...
