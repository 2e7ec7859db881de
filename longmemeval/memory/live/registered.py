"""Register a class of this process as a memory, under a name that holds the hash of its code."""

import inspect
from dataclasses import replace
from itertools import count
from os import getpid
from typing import Any

from longmemeval.errors import HarnessError
from longmemeval.memory.definition import MemoryDefinition
from longmemeval.memory.external.live_classes import LIVE, LIVE_CLASSES
from longmemeval.memory.live.code_hash import code_hash
from longmemeval.memory.registry import MEMORIES, class_memory

_SHOWN = 12
"""Hexadecimal digits of the hash in a name."""
_numbers = count(1)


def live_spec(loaded: type) -> str:
    """Return the name under which a class is a memory of this process: `class:Notes@3f2a91bc05d7`.

    Changed code has another name. A class that uses something that cannot be hashed, such as a model in a variable,
    gets a name that no other process has: nothing made by it is reused.

    Raises:
        HarnessError: it has neither `add` and `search` nor `recall`, or it has a part that is defined in this process.
    """
    hashed = code_hash(loaded)
    digest = hashed.sha256[:_SHOWN]
    if hashed.unknown:
        known = (spec for spec, live in LIVE_CLASSES.items() if live is loaded and "@unhashed" in spec)
        digest = next((spec.partition("@")[2] for spec in known), f"unhashed-{getpid()}-{next(_numbers)}")
    spec = f"{LIVE}{loaded.__name__}@{digest}"
    if LIVE_CLASSES.get(spec) is loaded:
        return spec
    definition = class_memory(loaded)
    _check_parts(loaded, definition)
    origin = {"source_sha256": hashed.sha256}
    if hashed.unknown:
        origin["unhashed"] = ", ".join(hashed.unknown)
    LIVE_CLASSES[spec] = loaded
    if not callable(getattr(loaded, "recall", None)):
        definition = class_memory(loaded, spec, origin)
    MEMORIES.give(spec, replace(definition, origin=origin, label=loaded.__name__))
    return spec


def unhashed(spec: str) -> str:
    """Return the values of a live class that could not be hashed; empty if there are none, and for other memories."""
    origin = MEMORIES.get(spec).origin if spec.startswith(LIVE) else None
    return (origin or {}).get("unhashed", "")


def _check_parts(loaded: type, definition: MemoryDefinition[Any]) -> None:
    """Raise an error if a part is made by code that its recipe does not cover."""
    for part in definition.all_parts().values():
        home = inspect.getmodule(type(part))
        if home is None or not home.__name__.startswith("longmemeval."):
            raise HarnessError(
                f"{loaded.__name__} has a part of its own, '{part.name}'",
                fix="Put the class and the part into a module and name it: Memory('module:Class')",
            )
