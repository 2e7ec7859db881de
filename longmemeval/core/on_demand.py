"""Functions that are imported when they are first called, and loading much at once."""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from typing import Any


def on_demand(target: str) -> Callable[..., Any]:
    """Return a function that calls `target`, imported by the first call.

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
    found: Callable[..., object] = getattr(import_module(module), name)
    return found


@contextmanager
def without_collector(*, for_good: bool = False) -> Iterator[None]:
    """Suspend the garbage collector while many objects are made that stay: it would scan them again and again.

    Args:
        for_good: they stay as long as the process, and are never scanned.
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
