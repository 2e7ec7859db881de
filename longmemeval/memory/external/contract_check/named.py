"""Check a memory by its name on the command line; it must have `add` and `search`."""

from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from longmemeval.core.event_loop import complete
from longmemeval.core.part_options import PartOptions
from longmemeval.errors import HarnessError
from longmemeval.llm.options import ModelOptions
from longmemeval.llm.registry import ModelAccess
from longmemeval.memory.configuration import MemoryConfiguration, parts_of
from longmemeval.memory.external.connect import connect
from longmemeval.memory.external.contract_check.check import check
from longmemeval.memory.external.contract_check.findings import Finding
from longmemeval.memory.external.part import ServicePart


class CheckedMemory(Struct, frozen=True):
    """The result of checking a memory."""

    findings: tuple[Finding, ...]
    failed_calls: tuple[str, ...]
    """The errors of calls to the models it was offered, each once."""

    @property
    def failed(self) -> bool:
        """True if its results would be wrong."""
        return any(finding.state == "failed" for finding in self.findings)


class MemoryCheck:
    """A memory to check, with the models it may call.

    Args:
        name: the name the user gave, for errors.
        models: chat model and embedder that it is offered.
        reached: connection options for these; a call is attempted twice.

    Raises:
        HarnessError: it makes its own parts in `prepare`, or cannot be reached.
    """

    def __init__(
        self,
        configuration: MemoryConfiguration,
        name: str,
        models: PartOptions = PartOptions(),
        reached: ModelOptions = ModelOptions(),
    ) -> None:
        self._part = service_part(configuration, name)
        self._service = connect(self._part.spec, keys=models.memory_model is None)
        self._access = ModelAccess(models.memory_model, models.embedder, replace(reached, max_attempts=2))

    def check(self, tell: Callable[[Finding], None] = lambda finding: None) -> CheckedMemory:
        """Add two made-up histories to the memory, search them, and leave it empty and closed.

        Args:
            tell: called with each finding as it is known.
        """
        with (
            TemporaryDirectory(prefix="longmemeval-check-") as folder,
            self._part.offered("check", "prepare", self._access, None) as models,
        ):
            findings = complete(self._findings(Path(folder), models.fields if models else {}, tell))
            return CheckedMemory(findings, tuple(dict.fromkeys(models.failures)) if models else ())

    async def _findings(
        self, folder: Path, models: Mapping[str, Any], tell: Callable[[Finding], None]
    ) -> tuple[Finding, ...]:
        findings = []
        try:
            async for finding in check(self._service, self._part.given(), folder, models):
                findings.append(finding)
                tell(finding)
        finally:
            await self._service.close()
        return tuple(findings)


def part_behind_a_door(configuration: MemoryConfiguration) -> ServicePart | None:
    """Return the service of a configuration; None if it makes its own parts in `prepare`."""
    return next((part for part in parts_of(configuration) if isinstance(part, ServicePart)), None)


def service_part(configuration: MemoryConfiguration, name: str) -> ServicePart:
    """Return the service of a configuration.

    Args:
        name: the name the user gave, for errors.

    Raises:
        HarnessError: it makes its own parts in `prepare`.
    """
    if part := part_behind_a_door(configuration):
        return part
    raise HarnessError(
        "This memory cannot be checked: it has no add and search, and makes its own fixture parts",
        where=name,
        fix=f"Try it on the sample: longmemeval prepare --dataset sample --memory {name}",
    )
