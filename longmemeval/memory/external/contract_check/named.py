"""From a name to what is tried: memories that are added to and searched, however they are named."""

from collections.abc import Sequence

from longmemeval.errors import HarnessError
from longmemeval.memory.configuration import parts_of, resolve_configuration
from longmemeval.memory.external.part import ServicePart


def service_part(name: str, settings: Sequence[str]) -> ServicePart:
    """The service behind whatever stands behind `--memory`, with its configuration.

    Args:
        name: a registered name, `module:Class`, `process:COMMAND`, an address or a YAML file.
        settings: `key=value` each.

    Raises:
        HarnessError: there is no such memory, or it takes part in `prepare` itself.
    """
    for part in parts_of(resolve_configuration(name, settings)):
        if isinstance(part, ServicePart):
            return part
    raise HarnessError(
        "This memory has no add and search to be tried: it makes its own parts of fixtures",
        where=name,
        fix=f"Try it on the sample: longmemeval prepare --dataset sample --memory {name}",
    )
