"""A memory for Python users: a preset, a class of theirs, a service or a product."""

from longmemeval.core.arguments import checked
from longmemeval.core.secrets.parameters import public
from longmemeval.errors import HarnessError
from longmemeval.memory.configuration import (
    MemoryConfiguration,
    chosen_parameters,
    configuration_of,
    definition_of,
    resolve_configuration,
)
from longmemeval.memory.external.connect import LIVE
from longmemeval.memory.live import live_spec, unhashed


class Memory:
    """A memory configuration: which memory, with which parameters.

    Args:
        source: what `--memory` takes (a preset, `module:Class`, `process:COMMAND`, an address, an installed product, a
            YAML file), or a class with `add(session)` and `search(query, *, date, limit)`, or with `recall`. A class
            runs in this process, and is another memory as soon as its code changes.
        label: the name in tables; empty: its own.
        parameters: parameters that differ from the defaults.

    Raises:
        HarnessError: there is no such memory or parameter (with the nearest name), or a value is invalid.
    """

    configuration: MemoryConfiguration
    """The configuration that runs record."""

    @checked()
    def __init__(self, source: "type | str", /, *, label: str = "", **parameters: object) -> None:
        if isinstance(source, type):
            self.configuration = configuration_of(live_spec(source), parameters, name=label)
            return
        if not isinstance(source, str):
            remedy = f"the class {type(source).__name__} itself, not an object of it"
            raise HarnessError(f"Memory({source!r:.60}) is no memory", fix=f"Give a name or {remedy}")
        found = resolve_configuration(source)
        if label or parameters:
            name = label or (found.name if found.name != found.preset else "")
            found = configuration_of(found.preset, chosen_parameters(found) | parameters, name=name)
        self.configuration = found

    def __repr__(self) -> str:
        defaults = definition_of(self.configuration).parameters().model_dump(mode="json")
        own = public(self.configuration.parameters).items()
        arguments = "".join(
            f", {name}={value!r}" for name, value in own if name not in defaults or defaults[name] != value
        )
        return f"Memory({self.configuration.name!r}{arguments})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Memory) and self.configuration == other.configuration

    def __hash__(self) -> int:
        return hash((self.configuration.preset, repr(self.configuration.parameters)))

    @property
    def name(self) -> str:
        """The name in tables."""
        return self.configuration.name

    @property
    def in_process(self) -> bool:
        """True if the memory is a class that was passed as an object."""
        return self.configuration.preset.startswith(LIVE)

    @property
    def unhashed(self) -> str:
        """The part of the code that cannot be hashed, so that its results are not reused; empty if there is none."""
        return unhashed(self.configuration.preset)


def as_memory(source: "Memory | MemoryConfiguration | type | str") -> Memory:
    """Return `source` as a `Memory`."""
    if isinstance(source, Memory):
        return source
    if isinstance(source, MemoryConfiguration):
        memory = Memory.__new__(Memory)
        memory.configuration = source
        return memory
    return Memory(source)
