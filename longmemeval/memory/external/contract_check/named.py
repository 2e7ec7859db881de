"""Find the service of a memory to check, which must be one that is added to and searched."""

from longmemeval.errors import HarnessError
from longmemeval.memory.configuration import MemoryConfiguration, parts_of
from longmemeval.memory.external.part import ServicePart


def part_behind_a_door(configuration: MemoryConfiguration) -> ServicePart | None:
    """Return the service of a configuration; None if it makes its own parts in `prepare`."""
    return next((part for part in parts_of(configuration) if isinstance(part, ServicePart)), None)


def service_part(configuration: MemoryConfiguration, name: str) -> ServicePart:
    """Return the service of a configuration.

    Args:
        configuration: of the memory.
        name: what the user called it, for errors.

    Raises:
        HarnessError: it makes its own parts in `prepare`.
    """
    if part := part_behind_a_door(configuration):
        return part
    raise HarnessError(
        "This memory cannot be checked: it has no add and search, but makes its own parts of fixtures",
        where=name,
        fix=f"Try it on the sample: longmemeval prepare --dataset sample --memory {name}",
    )
