"""Functions that are imported on their first call, and loading many objects at once."""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from typing import Any


def on_demand(target: str) -> Callable[..., Any]:
    """Return a function that calls `target` and imports it on the first call.

    A specification names many functions of which a command needs few, and their imports can take longer than the work.

    Args:
        target: `module:attribute` of a function or class.
    """

    def call(*args: object, **kwargs: object) -> object:
        return _function(target)(*args, **kwargs)

    return call


@cache
def _function(target: str) -> Callable[..., object]:
    module, _, name = target.partition(":")
    function: Callable[..., object] = getattr(import_module(module), name)
    return function


@contextmanager
def without_collector(*, for_good: bool = False) -> Iterator[None]:
    """Suspend the garbage collector while many lasting objects are made, which it would scan again and again.

    Args:
        for_good: True if they last as long as the process, and need never be scanned.
    """
    usual = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if for_good:
            gc.freeze()
        if usual:
            gc.enable()
