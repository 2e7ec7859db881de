"""Fill a scope of a memory service batch by batch, resuming where an earlier attempt stopped."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Literal

import msgspec
from filelock import FileLock, Timeout
from msgspec import Struct, field, structs

from longmemeval.core.files import write_atomic
from longmemeval.core.journal import append_shared, decode_shared
from longmemeval.core.secrets.redaction import public_url
from longmemeval.llm.registry import ModelAccess
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
"""The folder beside the fixtures in which services work until a history is complete."""
_LOOK_AGAIN_S = 0.2


class OfferedModels(Struct, frozen=True):
    """The models that the service was offered; a search is offered the same ones."""

    chat_model: str | None
    embedder: str
    api_base: str | None = None
    """The base URL, without user information."""


class Ingested(Struct, frozen=True):
    """`ingested.json`: the record of one history's ingestion by a memory service."""

    hello: HelloResult = field(name="told")
    """Name, package versions and capabilities of the service at that time."""
    batches: int
    """Batches sent, failed ones included; 0 if the service keeps nothing."""
    failed: tuple[FailedBatch, ...] = ()
    refs: dict[str, tuple[str, ...]] = {}
    """Opaque ids of messages, by the service's names for what it made from them."""
    reference: str = ""
    """The reference under which the service itself keeps the scope."""
    usage: ReportedUsage | None = None
    """The usage that the service reports."""
    models: OfferedModels | None = None
    """The models that were offered; None: none were."""
    scope: str = ""
    """The service's name for the history, if the service keeps it itself; 0.2.0 did not record it."""
    lost: int = 0
    """Batches that the service accepted and, by its own count, cannot find."""

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
    """True if no model could be called any more when it was added: the service may have stored it in part."""


class Scope(Struct, frozen=True):
    """One history on its way to a service."""

    scope: str
    folder: Path
    """The folder of the part: the service's own directory, and our record beside it."""
    configuration: dict[str, Any]
    ids: OpaqueIds
    messages: Sequence[Message]
    part: str = ""
    """The name of the part."""
    models: ProxiedScope | None = None
    """The models that the service is offered."""

    def opened(self, directory: Path, mode: Literal["prepare", "read"], reference: str = "") -> Open:
        """Return the request that opens the scope; may take a moment."""
        fields = self.models.fields if self.models else {}
        return Open(self.scope, str(directory), mode, self.configuration, reference, **fields)

    @property
    def state(self) -> Path:
        """The service's directory in the part, once it is complete."""
        return self.folder / _STATE

    @property
    def workplace(self) -> Path:
        """The service's directory until then. It is outside the fixture, whose path contains the haystack's id."""
        return self.folder.parent.parent / PLACES / self.scope

    @property
    def journal(self) -> Path:
        """The journal of the batches added so far, beside the workplace."""
        return self.workplace.with_suffix(".jsonl")


async def ingest(service: MemoryService, scope: Scope) -> Ingested:
    """Add the whole history, wait until it can be found, and have it saved.

    If an earlier attempt was completed but lost batches, these are retried in a copy of its result. The earlier result
    stays unless more batches succeed.

    Raises:
        ServiceError: the service is gone, silent or broken, or could add nothing at all. Batches that the service keeps
            are not added again by the next attempt.
    """
    hello = await service.hello()
    persist, before = hello.capabilities.persist, recorded(scope.folder)
    if before and not scope.workplace.exists():
        await asyncio.to_thread(shutil.copytree, scope.state, scope.workplace)
    scope.workplace.mkdir(parents=True, exist_ok=True)
    reference = before.reference if before else ""
    request = await asyncio.to_thread(scope.opened, scope.workplace, "prepare", reference)
    existing = (await service.open(request)).batch_ids
    if persist == "none":
        ingested = Ingested(hello, 0)
    else:
        if persist == "service" and not existing:
            with suppress(ServiceError):  # It may have no reset; its scopes are then new.
                await service.reset(scope.scope)
        try:
            ingested = await _add_history(service, scope, hello, existing)
        finally:
            under_way.forget(scope.workplace)
    if scope.models:
        ingested = structs.replace(ingested, models=_offered_models(scope.models.access))
    if before and ingested.missing >= before.missing:
        await asyncio.to_thread(_forget, scope)
        return before
    if persist == "service":
        ingested = structs.replace(ingested, scope=scope.scope)
    await asyncio.to_thread(_write, scope, ingested)
    return ingested


def recorded(folder: Path) -> Ingested | None:
    """Return the record of a completed attempt from the folder of a part; None if there is none."""
    record = folder / _RECORD
    return msgspec.json.decode(record.read_bytes(), type=Ingested) if record.exists() else None


async def _add_history(service: MemoryService, scope: Scope, hello: HelloResult, existing: Sequence[str]) -> Ingested:
    todo = list(batches(scope.scope, scope.messages, scope.ids, hello.capabilities.unit))
    if any(line.spoilt for line in _read(scope.journal) if line.batch_id in existing):
        await service.reset(scope.scope)
        existing = ()
    lines, failed = await _add_batches(service, scope, todo, existing)
    progress = under_way.UnderWay(scope.part, len(todo), len(todo))
    ready = await service.ready(
        scope.scope, lambda state: under_way.note(scope.workplace, structs.replace(progress, ready=state.done))
    )
    _check_models(scope, [batch.batch_id for batch in todo])
    failed |= {batch.batch_id: batch for batch in ready.failed}
    if todo and (len(failed) == len(todo) or (ready.state == "failed" and not ready.failed)):
        why = next(iter(failed.values())).error if failed else "it does not say why"
        raise ServiceError(f"The memory could add nothing: {why}")
    snapshot = await service.snapshot(scope.scope)
    before = recorded(scope.folder)
    refs = {ref: ids for line in lines for ref, ids in line.refs.items()}
    usage = [line.usage for line in (before, *lines) if line and line.usage]
    return Ingested(
        hello,
        len(todo),
        tuple(failed.values()),
        {**(before.refs if before else {}), **refs},
        snapshot.reference,
        _sum(usage) if usage else None,
        # A service that does not count batches reports 0.
        lost=max(0, len(todo) - len(failed) - ready.done) if ready.done else 0,
    )


async def _add_batches(
    service: MemoryService, scope: Scope, todo: Sequence[Add], existing: Sequence[str]
) -> tuple[list[_Line], dict[str, FailedBatch]]:
    """Add the missing batches; return those added, including those of stopped attempts, and those that failed."""
    lines = {line.batch_id: line for line in _read(scope.journal) if line.batch_id in set(existing)}
    failed: dict[str, FailedBatch] = {}
    scope.journal.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines.values()))
    with scope.journal.open("a+b", buffering=0) as file:
        for number, batch in enumerate(todo):
            under_way.note(scope.workplace, under_way.UnderWay(scope.part, len(todo), number))
            if batch.batch_id in existing:
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
            append_shared(file, lines[batch.batch_id])
    return list(lines.values()), failed


def _check_models(scope: Scope, batch_ids: Sequence[str]) -> None:
    """Stop if no model can be called any more; batches added without models are added again later.

    Raises:
        HarnessError: see `ProxiedScope.check`.
    """
    if scope.models and scope.models.stopped:
        with scope.journal.open("a+b", buffering=0) as journal:
            for batch_id in batch_ids:
                append_shared(journal, _Line(batch_id, spoilt=True))
        scope.models.check()


def _offered_models(access: ModelAccess) -> OfferedModels:
    base = access.options.api_base
    return OfferedModels(access.chat_model, access.embedder, public_url(base) if base else None)


async def replay(service: MemoryService, scope: Scope) -> None:
    """Add the whole history to an open scope of a service that keeps nothing.

    Raises:
        ServiceError: a batch cannot be added.
    """
    unit = (await service.hello()).capabilities.unit
    for batch in batches(scope.scope, scope.messages, scope.ids, unit):
        await service.add(batch)
    await service.ready(scope.scope)


@asynccontextmanager
async def place(root: Path, name: str, count: int) -> AsyncIterator[None]:
    """Wait for one of `count` places that all processes share, and occupy it.

    Args:
        root: a folder that all processes share.
        name: the name of the service.
        count: number of scopes that may be worked on at once.
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
    """Delete the workplace and the journal."""
    shutil.rmtree(scope.workplace, ignore_errors=True)
    scope.journal.unlink(missing_ok=True)
    with suppress(OSError):  # Other processes may be at work there.
        scope.workplace.parent.rmdir()


def _read(journal: Path) -> list[_Line]:
    return list(decode_shared(journal.read_bytes(), _Line)) if journal.exists() else []


def _sum(usage: Sequence[ReportedUsage]) -> ReportedUsage:
    return ReportedUsage(*map(sum, zip(*map(structs.astuple, usage), strict=True)))
