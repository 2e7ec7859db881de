"""What a memory configuration is: what can be set, what the fixtures must hold, how the system is built.

Names are listed without pydantic, which reads the entry points of all installed packages when it is imported and fails
where one of them is damaged.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from longmemeval.memory.protocol import MemorySystem, MemoryTools, Need
from longmemeval.plugins import MEMORY, Registry

if TYPE_CHECKING:
    from longmemeval.memory.parameters import Parameters

P = TypeVar("P", bound="Parameters")


@dataclass(frozen=True)
class MemoryDefinition(Generic[P]):
    """One memory system with what may be set on it."""

    summary: str
    """What the answering model sees, for help texts and docs."""
    parameters: type[P]
    needs: frozenset[Need]
    build: Callable[[P, MemoryTools], MemorySystem]
    reads_gold: bool = False
    """May see which sessions are the evidence. Tables say so."""


def _from_class(loaded: object) -> object:
    """A class that recalls is a definition by itself: of its `Parameters`, its `needs` and its docstring."""
    if not (isinstance(loaded, type) and callable(getattr(loaded, "recall", None))):
        return loaded
    from longmemeval.memory.parameters import Parameters

    parameters: type[Parameters] = getattr(loaded, "Parameters", Parameters)
    needs = frozenset(getattr(loaded, "needs", {"messages"}))
    summary = (loaded.__doc__ or loaded.__name__).strip().splitlines()[0]
    definition: MemoryDefinition[Any] = MemoryDefinition(summary, parameters, needs, loaded)
    return definition


_BUILT_IN = {
    "none": "NONE",
    "oracle": "ORACLE",
    "full-history": "FULL_HISTORY",
    "last-k": "LAST_K",
    "semantic-recall": "SEMANTIC_RECALL",
    "working-memory": "WORKING_MEMORY",
    "combined": "COMBINED",
    "bm25": "BM25",
    "hybrid": "HYBRID",
}

MEMORIES: Registry[MemoryDefinition[Any]] = Registry(
    MEMORY,
    "memory configuration",
    MemoryDefinition,
    {name: f"longmemeval.memory.presets:{attribute}" for name, attribute in _BUILT_IN.items()},
    _from_class,
)
"""Memory configurations by name; the built-in ones are the presets."""
