"""The definition of a memory configuration: its parameters, the fixture parts it needs, and how the system is built.

Names are listed without pydantic, which reads the entry points of all installed packages when it is imported and fails
where one of them is damaged.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from longmemeval.errors import HarnessError
from longmemeval.memory.products.adapter import Adapter
from longmemeval.memory.products.known import adapter_of, shipped_adapters
from longmemeval.memory.protocol import MemorySystem, MemoryTools
from longmemeval.memory.specs import is_memory_class, is_service
from longmemeval.plugins import MEMORY, Registry, load_object

if TYPE_CHECKING:
    from longmemeval.memory.parameters import Parameters
    from longmemeval.reading.options import ReadingMethod
    from longmemeval.storage.parts import Part

P = TypeVar("P", bound="Parameters")
Control = Literal["floor", "reference"]
"""The role of a configuration that is not a memory system under test: a `floor` sees no history or understands no
question, a `reference` has everything that a memory could find.
"""


@dataclass(frozen=True)
class MemoryDefinition(Generic[P]):
    """One memory system with its parameters."""

    summary: str
    """A summary of what the answering model sees, for help texts and docs."""
    parameters: type[P]
    parts: Callable[[P], "Iterable[Part[Any]]"]
    """Function that returns the fixture parts that the system reads under the parameters."""
    build: Callable[[P, MemoryTools], MemorySystem]
    reads_gold: bool = False
    """True if the system may see which sessions are the evidence; tables say so."""
    control: Control | None = None
    """The role in a comparison, for a configuration that is not a memory system."""
    label: str = ""
    """The name in tables; empty for the registered name."""
    recalls_everything: bool = False
    """True if every message is recalled, so that the length of prompts follows from the data alone."""
    reading: "ReadingMethod | None" = None
    """The only reading method that the memory supports; None: any."""
    origin: Mapping[str, str] | None = None
    """The origin recorded with the name; None: derived from its module."""
    require: Callable[[], object] = lambda: None
    """Function that raises a `HarnessError` if something must be installed before use."""
    profiled: Callable[[Mapping[str, Any]], Mapping[str, Any]] = lambda parameters: {}
    """Function that returns the settings of the profile named in the parameters; explicit parameters override them."""
    may_read: "tuple[Part[Any], ...]" = ()
    """Parts read only under non-default parameters, so that `verify` and `inspect` know them."""

    def all_parts(self) -> "dict[str, Part[Any]]":
        """Return every part that the system may read, by name."""
        return {part.name: part for part in (*self.parts(self.parameters()), *self.may_read)}


def _from_class(loaded: object) -> object:
    """Turn a class or an adapter into a definition.

    A class with `recall` is defined by its `Parameters`, its `parts` and its docstring. A class with `add` and `search`
    is a memory service in this process, and an adapter is one in a process of its own.
    """
    if isinstance(loaded, Adapter):
        return _defined_outside("adapter_definition", loaded)
    return class_memory(loaded) if isinstance(loaded, type) else loaded


def class_memory(loaded: type, *names: object) -> "MemoryDefinition[Any]":
    """Return the definition of a class with `add` and `search`, or with `recall`.

    Args:
        names: for a class with `add` and `search`: see `class_definition`.

    Raises:
        HarnessError: it has neither.
    """
    if is_memory_class(loaded) and not hasattr(loaded, "recall"):
        return _defined_outside("class_definition", loaded, *names)
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
    if is_service(name):
        return _defined_outside("address_definition", name)
    adapter = adapter_of(name) if ":" in name else None
    return _defined_outside("adapter_definition", adapter) if adapter else None


def _defined_outside(function: str, *arguments: object) -> "MemoryDefinition[Any]":
    """Build a definition with `longmemeval.memory.external`, loaded at run time because it imports this module."""
    define: Any = load_object(f"longmemeval.memory.external.external_memory:{function}", "memory")
    definition: MemoryDefinition[Any] = define(*arguments)
    return definition


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
