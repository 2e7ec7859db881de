"""What a fixture keeps of a memory service: its closed directory, or where the service itself keeps the history."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from longmemeval.files import safe_name, sha256_text
from longmemeval.memory.external import under_way
from longmemeval.memory.external.carriers import ServiceError
from longmemeval.memory.external.connect import connect
from longmemeval.memory.external.ids import OpaqueIds, scope_id
from longmemeval.memory.external.ingestion import PLACES, Ingested, Scope, ingest, place, recorded
from longmemeval.memory.external.service import MemoryService
from longmemeval.records import Message, Usage
from longmemeval.storage.parts import Made, Part, PartTools, Source, Stored

_ADAPTER = 1
"""Version of how histories are handed over; another one makes other parts."""


@cache
def shared_service(spec: str) -> MemoryService:
    """The service of that name in this process, for all who use it."""
    return connect(spec)


class ServicePart(Part[Ingested]):
    """The histories of one memory service under one configuration.

    Args:
        label: what the service is called.
        spec: see `connect`.
        configuration: what the user has set.
        source: `source_sha256` of the code, and of an adapter what is installed; None where that cannot be told.
    """

    directory = True
    resumable = True
    reproducible = False
    """Another attempt may give other bytes: their ids are random, and models are asked."""
    asks = True

    def __init__(
        self, label: str, spec: str, configuration: Mapping[str, Any], source: Mapping[str, str] | None = None
    ) -> None:
        self.label, self.spec, self.configuration, self._source = label, spec, dict(configuration), source
        told = msgspec.json.encode([spec, self.configuration], order="deterministic").decode()
        # Differs from one configuration to the next: several may be prepared side by side.
        self.name = f"{safe_name(label)}-{sha256_text(told)[:8]}"

    def recipe(self, tools: PartTools) -> dict[str, Any]:
        """The spec, what is set, and what is known of the code."""
        made = {"version": _ADAPTER, "service": self.spec, "configuration": self.configuration}
        return {**made, **(self._source or {})}

    def scope(self, haystack_id: str, messages: list[Message], folder: Path) -> Scope:
        """The scope of a history.

        Args:
            haystack_id: of the history.
            messages: all of them, oldest first.
            folder: the part's.
        """
        content = sha256_text("\0".join(message.content for message in messages))
        ids = OpaqueIds(haystack_id, messages)
        return Scope(scope_id(self.name, haystack_id, content), folder, self.configuration, ids, messages, self.name)

    def under_way(self, preparation: Path, since: float) -> str:
        """How many batches of how many were added, over all histories that are being filled."""
        return under_way.shown(preparation / PLACES, self.name, self.label, since)

    async def make(self, source: Source, tools: PartTools) -> Made:
        """Hand the history over. What fails fails for this haystack alone."""
        service = shared_service(self.spec)
        scope = self.scope(source.haystack.haystack_id, source.messages, source.folder)
        preparation, before = source.folder.parent.parent, recorded(scope)
        try:
            most = (await service.hello()).capabilities.max_parallel
            async with place(preparation, self.name, most):
                ingested = await ingest(service, scope)
        except ServiceError as error:
            why = str(error).rstrip(".")
            if before is None:
                return Made(failed=why)
            # What an earlier attempt kept is as good as it was.
            tried = f"the failed batches were tried again, but {why[:1].lower()}{why[1:]}"
            return Made(notes=(tried,), told=_told(before), incomplete=_missing(before))
        usage, missing = _usage(ingested), _missing(ingested)
        if before:
            usage -= _usage(before)
        notes = (f"{missing}. The next prepare tries again",) if missing else ()
        return Made(usage=usage, notes=notes, told=_told(ingested), incomplete=missing)

    def open(self, stored: Stored) -> Ingested:
        """What became of the history."""
        return msgspec.json.decode((stored.folder() / "ingested.json").read_bytes(), type=Ingested)


def _missing(ingested: Ingested) -> str:
    """What of the history cannot be found, and why; empty where all can."""
    if not ingested.missing:
        return ""
    why = ingested.failed[0].error if ingested.failed else "the memory took them and does not count them as ready"
    return f"{ingested.missing} of {ingested.batches} batches failed: {why}"


def _told(ingested: Ingested) -> dict[str, Any]:
    """What stands under tables."""
    hello = ingested.told
    can = hello.capabilities
    return {
        "service": hello.name,
        "packages": dict(sorted(hello.packages.items())),
        "capabilities": {
            "provenance": can.provenance,
            "dates": can.dates,
            "signals": " + ".join(can.signals) or "not told",
            "telemetry": can.telemetry,
            "persistence": can.persist,
        },
        "batches": ingested.batches,
        "failed_batches": ingested.missing,
    }


def _usage(ingested: Ingested) -> Usage:
    """What the service says of itself. What it cost nobody knows."""
    told = ingested.usage
    if told is None:
        return Usage(unpriced_calls=1)
    return Usage(
        calls=told.calls,
        prompt_tokens=told.prompt_tokens,
        completion_tokens=told.completion_tokens,
        unpriced_calls=told.calls,
    )
