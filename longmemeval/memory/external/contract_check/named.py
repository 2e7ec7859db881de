"""Resolve a name to the memory to check, which must be one that is added to and searched."""

from collections.abc import Sequence

from longmemeval.errors import HarnessError
from longmemeval.memory.configuration import parts_of, resolve_configuration
from longmemeval.memory.external.part import ServicePart


def service_part(name: str, settings: Sequence[str]) -> ServicePart:
    """Return the service that `--memory` names, with its configuration.

    Args:
        name: a registered name, `module:Class`, `process:COMMAND`, an address or a YAML file.
        settings: `key=value` each.

    Raises:
        HarnessError: there is no such memory, or it makes its own parts in `prepare`.
    """
    for part in parts_of(resolve_configuration(name, settings)):
        if isinstance(part, ServicePart):
            return part
    raise HarnessError(
        "This memory cannot be checked: it has no add and search, but makes its own parts of fixtures",
        where=name,
        fix=f"Try it on the sample: longmemeval prepare --dataset sample --memory {name}",
    )
