"""Filling one scope of a memory service: batch by batch, going on where an earlier attempt was stopped."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Literal

import msgspec
from filelock import FileLock, Timeout
from msgspec import Struct, structs

from longmemeval.core.files import write_atomic
from longmemeval.core.secrets.redaction import public_url
from longmemeval.llm.access import ModelAccess
from longmemeval.memory.external.ids import OpaqueIds
from longmemeval.memory.external.ingestion import under_way
from longmemeval.memory.external.ingestion.batches import batches
from longmemeval.memory.external.messages import Add, FailedBatch, HelloResult, Open, ReportedUsage
from longmemeval.memory.external.proxy.scope import ProxiedScope
from longmemeval.memory.external.transports.service import MemoryService
from longmemeval.memory.external.transports.transport import FINAL, ServiceError
from longmemeval.records import Message

_STATE, _RECORD = "state", "ingested.json"
PLACES = ".scopes"
"""The folder beside the fixtures where services work until all is done."""
_LOOK_AGAIN_S = 0.2


class OfferedModels(Struct, frozen=True):
    """By which models the service was answered; a search is answered by the same ones."""

    chat_model: str | None
    embedder: str
    api_base: str | None = None
    """Without user information."""


class Ingested(Struct, frozen=True):
    """`ingested.json`: what became of one history at a memory service."""

    told: HelloResult
    """Name, package versions and capabilities of the service as it was then."""
    batches: int
    """Sent, the failed ones included; 0 where the service keeps nothing."""
    failed: tuple[FailedBatch, ...] = ()
    refs: dict[str, tuple[str, ...]] = {}
    """What the service calls things it stored, by the opaque ids of the messages they were made from."""
    reference: str = ""
    """Where the service itself keeps the scope."""
    usage: ReportedUsage | None = None
    """As the service tells it."""
    models: OfferedModels | None = None
    """Which models were offered; None: none were."""
    lost: int = 0
    """Batches that the service took and, by its own count, cannot find."""

    @property
    def missing(self) -> int:
        """Batches that cannot be found."""
        return len(self.failed) + self.lost


class _Line(Struct, frozen=True):
    """A batch that was added, in the journal of an attempt."""

    batch_id: str
    refs: dict[str, tuple[str, ...]] = {}
    usage: ReportedUsage | None = None
    spoilt: bool = False
    """Whether no model could be called any more when it was added: the service may have kept it half done."""


class Scope(Struct, frozen=True):
    """One history on its way to a service."""

    scope: str
    folder: Path
    """What the part holds: the service's own directory, and beside it our record."""
    configuration: dict[str, Any]
    ids: OpaqueIds
    messages: Sequence[Message]
    part: str = ""
    """The name of the part."""
    models: ProxiedScope | None = None
    """The models that the service is offered."""

    def opened(self, directory: Path, mode: Literal["prepare", "read"], reference: str = "") -> Open:
        """What opens it; may take a moment."""
        fields = self.models.fields if self.models else {}
        return Open(self.scope, str(directory), mode, self.configuration, reference, **fields)

    @property
    def state(self) -> Path:
        """The service's directory in the part, when all is done."""
        return self.folder / _STATE

    @property
    def workplace(self) -> Path:
        """The service's directory until then, which it is told: the path of the fixture holds the haystack's id."""
        return self.folder.parent.parent / PLACES / self.scope

    @property
    def journal(self) -> Path:
        """What was added so far, beside the workplace."""
        return self.workplace.with_suffix(".jsonl")


async def ingest(service: MemoryService, scope: Scope) -> Ingested:
    """Add the whole history, wait until it can be found, and have it written.

    Where an earlier attempt came to its end but lost batches, those are tried again in a copy of what it kept; what it
    kept stays as it is if no more of them succeed.

    Raises:
        ServiceError: the service is gone, silent or broken, or could add nothing at all. What was added is kept for
            the next attempt as far as the service keeps it.
    """
    told = await service.hello()
    persist, before = told.capabilities.persist, recorded(scope)
    if before and not scope.workplace.exists():
        await asyncio.to_thread(shutil.copytree, scope.state, scope.workplace)
    scope.workplace.mkdir(parents=True, exist_ok=True)
    reference = before.reference if before else ""
    request = await asyncio.to_thread(scope.opened, scope.workplace, "prepare", reference)
    there = (await service.open(request)).batch_ids
    if persist == "none":
        ingested = Ingested(told, 0)
    else:
        if persist == "service" and not there:
            with suppress(ServiceError):  # It may have no reset; its scopes are new ones then.
                await service.reset(scope.scope)
        try:
            ingested = await _added(service, scope, told, there)
        finally:
            under_way.forget(scope.workplace)
    if scope.models:
        ingested = structs.replace(ingested, models=_offered(scope.models.access))
    if before and ingested.missing >= before.missing:
        await asyncio.to_thread(_forget, scope)
        return before
    await asyncio.to_thread(_write, scope, ingested)
    return ingested


def recorded(scope: Scope) -> Ingested | None:
    """What became of the history in an attempt that came to its end; None where there was none."""
    record = scope.folder / _RECORD
    return msgspec.json.decode(record.read_bytes(), type=Ingested) if record.exists() else None


async def _added(service: MemoryService, scope: Scope, told: HelloResult, there: Sequence[str]) -> Ingested:
    todo = list(batches(scope.scope, scope.messages, scope.ids, told.capabilities.unit))
    if any(line.spoilt for line in _read(scope.journal) if line.batch_id in there):
        await service.reset(scope.scope)
        there = ()
    lines, failed = await _add_batches(service, scope, todo, there)
    on_the_way = under_way.UnderWay(scope.part, len(todo), len(todo))
    ready = await service.ready(
        scope.scope, lambda told: under_way.note(scope.workplace, structs.replace(on_the_way, ready=told.done))
    )
    _check_models(scope, [batch.batch_id for batch in todo])
    failed |= {one.batch_id: one for one in ready.failed}
    if todo and (len(failed) == len(todo) or (ready.state == "failed" and not ready.failed)):
        why = next(iter(failed.values())).error if failed else "it does not say why"
        raise ServiceError(f"The memory could add nothing: {why}")
    kept = await service.snapshot(scope.scope)
    before = recorded(scope)
    refs = {ref: ids for line in lines for ref, ids in line.refs.items()}
    usage = [line.usage for line in (before, *lines) if line and line.usage]
    return Ingested(
        told,
        len(todo),
        tuple(failed.values()),
        {**(before.refs if before else {}), **refs},
        kept.reference,
        _sum(usage) if usage else None,
        # A service that does not count says 0.
        lost=max(0, len(todo) - len(failed) - ready.done) if ready.done else 0,
    )


async def _add_batches(
    service: MemoryService, scope: Scope, todo: Sequence[Add], there: Sequence[str]
) -> tuple[list[_Line], dict[str, FailedBatch]]:
    """Add what is not there yet; what was added, by attempts that were stopped too, and what failed."""
    lines = {line.batch_id: line for line in _read(scope.journal) if line.batch_id in set(there)}
    failed: dict[str, FailedBatch] = {}
    with scope.journal.open("wb") as file:
        file.writelines(msgspec.json.encode(line) + b"\n" for line in lines.values())
        for number, batch in enumerate(todo):
            under_way.note(scope.workplace, under_way.UnderWay(scope.part, len(todo), number))
            if batch.batch_id in there:
                continue
            try:
                added = await service.add(batch)
                _check_models(scope, [batch.batch_id])
            except ServiceError as error:
                _check_models(scope, [batch.batch_id])
                if error.code in FINAL:
                    raise
                failed[batch.batch_id] = FailedBatch(batch.batch_id, str(error).rstrip("."))
                continue
            lines[batch.batch_id] = _Line(batch.batch_id, added.refs, added.usage)
            file.write(msgspec.json.encode(lines[batch.batch_id]) + b"\n")
            file.flush()
    return list(lines.values()), failed


def _check_models(scope: Scope, batch_ids: Sequence[str]) -> None:
    """Stop where no model can be called any more; what was added without them is added again another time.

    Raises:
        HarnessError: see `ProxiedScope.check`.
    """
    if scope.models and scope.models.stopped:
        with scope.journal.open("ab") as journal:
            journal.writelines(msgspec.json.encode(_Line(one, spoilt=True)) + b"\n" for one in batch_ids)
        scope.models.check()


def _offered(access: ModelAccess) -> OfferedModels:
    base = access.options.api_base
    return OfferedModels(access.chat_model, access.embedder, public_url(base) if base else None)


async def replay(service: MemoryService, scope: Scope) -> None:
    """Add the whole history to a scope that is open, where the service keeps nothing.

    Raises:
        ServiceError: a batch cannot be added.
    """
    unit = (await service.hello()).capabilities.unit
    for batch in batches(scope.scope, scope.messages, scope.ids, unit):
        await service.add(batch)
    await service.ready(scope.scope)


@asynccontextmanager
async def place(root: Path, name: str, count: int) -> AsyncIterator[None]:
    """Wait for one of `count` places that all processes share, and keep it.

    Args:
        root: a folder that all of them know.
        name: of the service.
        count: how many scopes may be worked on at once.
    """
    locks = [FileLock(root / f".{name}-{number}.lock", thread_local=False) for number in range(count)]
    while True:
        for lock in locks:
            with suppress(Timeout):
                lock.acquire(timeout=0)
                try:
                    yield
                finally:
                    lock.release()
                return
        await asyncio.sleep(_LOOK_AGAIN_S)


def _write(scope: Scope, ingested: Ingested) -> None:
    shutil.rmtree(scope.state, ignore_errors=True)
    scope.workplace.rename(scope.state)
    document = msgspec.json.format(msgspec.json.encode(ingested), indent=1)
    write_atomic(scope.folder / _RECORD, document + b"\n")
    _forget(scope)


def _forget(scope: Scope) -> None:
    """Nothing is under way any more."""
    shutil.rmtree(scope.workplace, ignore_errors=True)
    scope.journal.unlink(missing_ok=True)
    with suppress(OSError):  # Others may be at work there.
        scope.workplace.parent.rmdir()


def _read(journal: Path) -> list[_Line]:
    if not journal.exists():
        return []
    whole = journal.read_bytes().rpartition(b"\n")[0]  # The last line may be half written.
    return [msgspec.json.decode(line, type=_Line) for line in whole.splitlines()]


def _sum(usage: Sequence[ReportedUsage]) -> ReportedUsage:
    return ReportedUsage(
        sum(one.calls for one in usage),
        sum(one.prompt_tokens for one in usage),
        sum(one.completion_tokens for one in usage),
    )
