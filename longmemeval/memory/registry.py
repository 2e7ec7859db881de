"""The memory configurations by name: presets, classes, services at addresses, and products.

Names are listed without pydantic, which reads the entry points of all installed packages when it is imported and fails
where one of them is damaged.
"""

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from longmemeval.errors import HarnessError
from longmemeval.memory.definition import MemoryDefinition
from longmemeval.memory.products.adapter import Adapter
from longmemeval.memory.products.known import adapter_of, shipped_adapters
from longmemeval.memory.specs import is_memory_class, is_service
from longmemeval.plugins import MEMORY, Registry

if TYPE_CHECKING:
    from longmemeval.storage.parts import Part


def _from_class(loaded: object) -> object:
    """Turn a class or an adapter into a definition.

    A class with `recall` is defined by its `Parameters`, its `parts` and its docstring. A class with `add` and `search`
    is a memory service in this process, and an adapter is one in a process of its own.
    """
    if isinstance(loaded, Adapter):
        from longmemeval.memory.external.external_memory import adapter_definition

        return adapter_definition(loaded)
    return class_memory(loaded) if isinstance(loaded, type) else loaded


def class_memory(loaded: type, spec: str = "", source: dict[str, str] | None = None) -> MemoryDefinition[Any]:
    """Return the definition of a class with `add` and `search`, or with `recall`.

    Args:
        loaded: the class.
        spec: for a class with `add` and `search`: see `class_definition`.
        source: the hash of its code; None: the hash of its module.

    Raises:
        HarnessError: it has neither.
    """
    if is_memory_class(loaded) and not hasattr(loaded, "recall"):
        from longmemeval.memory.external.external_memory import class_definition

        return class_definition(loaded, spec, source)
    if not callable(getattr(loaded, "recall", None)):
        raise HarnessError(
            "This is not a class with add(session) and search(query, *, date, limit)",
            where=f"{loaded.__module__}:{loaded.__qualname__}",
            fix="Write an example with `longmemeval memory init mymem.py`",
        )
    from longmemeval.memory.parameters import Parameters
    from longmemeval.storage.messages_part import MESSAGES

    parameters: type[Parameters] = getattr(loaded, "Parameters", Parameters)
    parts = getattr(loaded, "parts", lambda parameters: (MESSAGES,))
    summary = (loaded.__doc__ or loaded.__name__).strip().splitlines()[0]
    definition: MemoryDefinition[Any] = MemoryDefinition(summary, parameters, parts, loaded)
    return definition


def _from_address(name: str) -> object:
    """Return the definition of a child process, an address or an adapter with a file; None for any other name."""
    adapter = None if is_service(name) else adapter_of(name) if ":" in name else None
    if not is_service(name) and adapter is None:
        return None
    from longmemeval.memory.external.external_memory import adapter_definition, address_definition

    return adapter_definition(adapter) if adapter else address_definition(name)


MEMORIES: Registry[MemoryDefinition[Any]] = Registry(
    MEMORY, "memory configuration", MemoryDefinition, None, _from_class, _from_address, shipped_adapters
)
"""Memory configurations by name; the built-in presets come from the `plugins.toml` of their folders."""


def known_parts() -> "dict[str, Part[Any]]":
    """Return the parts of all memories that can be loaded, by name."""
    found: dict[str, Part[Any]] = {}
    for name in MEMORIES.names():
        with suppress(HarnessError):  # `longmemeval plugins` reports the problem.
            found |= MEMORIES.get(name).all_parts()
    return found
