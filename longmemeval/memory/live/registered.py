"""Register a class of this process as a memory, under a name that holds the hash of its code."""

import inspect
from dataclasses import replace
from itertools import count
from os import getpid
from typing import Any

from longmemeval.errors import HarnessError
from longmemeval.memory.definition import MEMORIES, MemoryDefinition, class_memory
from longmemeval.memory.external.live_classes import LIVE, LIVE_CLASSES
from longmemeval.memory.live.code_hash import code_hash

_SHOWN = 12
"""Hexadecimal digits of the hash in a name."""
_numbers = count(1)


def live_spec(loaded: type) -> str:
    """Return the name under which a class is a memory of this process: `class:Notes@3f2a91bc05d7`.

    Changed code has another name. A class that uses something that cannot be hashed, such as a model in a variable,
    gets a name that no other process has: nothing made by it is used again.

    Raises:
        HarnessError: it has neither `add` and `search` nor `recall`, or keeps parts of its own that are defined here.
    """
    found = code_hash(loaded)
    digest = found.sha256[:_SHOWN]
    if found.unknown:
        known = (spec for spec, one in LIVE_CLASSES.items() if one is loaded and "@unhashed" in spec)
        digest = next((spec.partition("@")[2] for spec in known), f"unhashed-{getpid()}-{next(_numbers)}")
    spec = f"{LIVE}{loaded.__name__}@{digest}"
    if LIVE_CLASSES.get(spec) is loaded:
        return spec
    definition = class_memory(loaded)
    _check_parts(loaded, definition)
    unhashed = {"unhashed": ", ".join(found.unknown)} if found.unknown else {}
    origin = {"source_sha256": found.sha256, **unhashed}
    LIVE_CLASSES[spec] = loaded
    if not callable(getattr(loaded, "recall", None)):
        definition = class_memory(loaded, spec, origin)
    MEMORIES.give(spec, replace(definition, origin=origin, label=loaded.__name__))
    return spec


def unhashed(spec: str) -> str:
    """Return what of a live class could not be hashed; empty if everything could, and for other memories."""
    origin = MEMORIES.get(spec).origin if spec.startswith(LIVE) else None
    return (origin or {}).get("unhashed", "")


def _check_parts(loaded: type, definition: MemoryDefinition[Any]) -> None:
    """Raise if a part is made by code that its recipe does not cover."""
    for part in definition.all_parts().values():
        home = inspect.getmodule(type(part))
        if home is None or not home.__name__.startswith("longmemeval."):
            raise HarnessError(
                f"{loaded.__name__} keeps a part '{part.name}' of its own",
                fix="Put class and part into a module and name it: Memory('module:Class')",
            )
