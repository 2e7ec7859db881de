"""The definition of a memory configuration: its parameters, the fixture parts it needs, and how the system is built."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from longmemeval.memory.protocol import MemorySystem, MemoryTools

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
