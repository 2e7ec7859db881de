"""Functions that are imported when they are first called."""

from collections.abc import Callable
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
