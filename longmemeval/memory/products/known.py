"""Adapters by name: those of this package, each a folder beside this file, and those of other packages.

Another package registers its own in the group of all memory systems:

    [project.entry-points."longmemeval.memory"]
    my-product = "my_package:ADAPTER"     # ADAPTER = Adapter.read(Path(__file__).parent, "my-product")
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from longmemeval.errors import HarnessError
from longmemeval.memory.products.adapter import Adapter
from longmemeval.memory.products.profiles import deviations
from longmemeval.plugins import MEMORY, Registry

_HERE = Path(__file__).parent


@cache
def shipped_adapters() -> Mapping[str, str]:
    """Map the names of this package's adapters to `module:attribute`, in alphabetical order."""
    folders = sorted(file.parent.name for file in _HERE.glob("*/adapter.toml"))
    return {_name(folder): f"{__name__}:{folder}" for folder in folders}


def _name(folder: str) -> str:
    """Return the name after `--memory`; the folder's has no hyphen, since it holds code."""
    return folder.replace("_", "-")


def __getattr__(name: str) -> Adapter:
    """Return the adapter of a folder beside this file, as an attribute of that name."""
    if not (_HERE / name / "adapter.toml").is_file():
        raise AttributeError(name)
    return Adapter.read(_HERE / name, _name(name))


ADAPTERS: Registry[Adapter] = Registry(MEMORY, "memory adapter", Adapter, {}, further=shipped_adapters)
"""Adapters by name; of other packages' memory systems, those that are adapters."""


def adapter_of(spec: str) -> Adapter | None:
    """Return the adapter of `NAME` or `NAME:FILE`; None if there is none, or it takes no file."""
    name, _, file = spec.partition(":")
    if name not in ADAPTERS.further and (file or name not in ADAPTERS):
        return None
    adapter = ADAPTERS.get(name)
    if not file:
        return adapter
    return replace(adapter, given=Path(file)) if adapter.description.file else None


def product_deviations(preset: str, parameters: Mapping[str, Any]) -> tuple[str, ...]:
    """Return how a product was measured otherwise than its maker does; nothing for what is no product known here."""
    with suppress(HarnessError):
        if adapter := adapter_of(preset):
            return tuple(deviations(adapter.profiles, parameters))
    return ()


def all_adapters() -> list[Adapter]:
    """Return every adapter that can be read, those of this package first."""
    found = []
    for name in ADAPTERS.names():
        with suppress(
            HarnessError
        ):  # It is another kind of memory system, or `longmemeval plugins` says what is wrong.
            found.append(ADAPTERS.get(name))
    return found
