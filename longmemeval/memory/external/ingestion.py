"""Filling memory services with histories."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, Literal

import msgspec
from filelock import FileLock, Timeout
from msgspec import Struct, field, structs

from longmemeval.core.files import write_atomic
from longmemeval.core.journal import append_shared, decode_shared
from longmemeval.core.secrets.redaction import public_url
from longmemeval.llm.model_calls import CallSums, ModelCall, sums
from longmemeval.llm.registry import ModelAccess
from longmemeval.memory.external.messages import (
    Add,
    FailedBatch,
    HelloResult,
    Open,
    ReportedUsage,
    SentMessage,
    SentSession,
)
from longmemeval.memory.external.proxy.server import ProxiedScope
from longmemeval.memory.external.recalled import OpaqueIds
from longmemeval.memory.external.transports.service import MemoryService
from longmemeval.memory.external.transports.transport import FINAL, ServiceError
from longmemeval.records import Message, Usage
from longmemeval.storage.parts import PartOutput

__path__: list[str] = []
"""Names of version 0.2 below this one are found (`core/moved.py`)."""


# Progress of the scopes that are being filled: small files that any process of the machine can read.

_SUFFIX = ".progress"


class UnderWay(Struct, frozen=True):
    """One scope that is being filled."""

    part: str
    """The part it belongs to."""
    total: int
    """Number of batches."""
    added: int = 0
    ready: int = 0
    """Batches that can be found, once all were added."""


def note(place: Path, progress: UnderWay) -> None:
    """Record the progress of the scope whose state is at `place`."""
    with suppress(OSError):  # It is for display only.
        place.with_suffix(_SUFFIX).write_bytes(msgspec.json.encode(progress))


def forget(place: Path) -> None:
    """Delete the record of a scope that is no longer being filled."""
    place.with_suffix(_SUFFIX).unlink(missing_ok=True)


def shown(places: Path, part: str, label: str, since: float) -> str:
    """Return a line about all scopes of a part that are being filled; empty if there are none.

    Args:
        places: the folder with the states of scopes.
        part: the part's name.
        label: the name of the service.
        since: seconds as in file times; older files are leftovers of processes that died.
    """
    found = []
    for file in sorted(places.glob(f"*{_SUFFIX}")):
        with suppress(OSError, msgspec.DecodeError):  # The file may be incomplete, or gone.
            progress = msgspec.json.decode(file.read_bytes(), type=UnderWay)
            if progress.part == part and file.stat().st_mtime >= since:
                found.append(progress)
    if not found:
        return ""
    added, total = sum(scope.added for scope in found), sum(scope.total for scope in found)
    ready = sum(scope.ready for scope in found)
    waiting = f", {ready} ready" if any(scope.added == scope.total for scope in found) else ""
    return f"{label}: {added} of {total} batches{waiting}"


# Split a history into the batches that a memory service gets: sessions, pairs of messages or single messages.

Unit = Literal["session", "pair", "turn"]


def batches(scope: str, messages: Sequence[Message], ids: OpaqueIds, unit: Unit) -> Iterator[Add]:
    """Yield all messages in time order, in batches that never span two sessions.

    The id of a batch is that of the session, followed by its number there if the unit is smaller.

    Args:
        scope: the scope to add to.
        messages: the whole history, oldest first.
        ids: the ids of this history.
        unit: the contents of one batch; a pair is a user's message with the messages up to the user's next one.
    """
    for thread_id, group in groupby(messages, key=lambda message: message.thread_id):
        session_id = ids.sessions[thread_id]
        for number, part in enumerate(_parts(list(group), unit)):
            sent = tuple(
                SentMessage(ids.messages[message.message_id], message.role, message.speaker, message.content)
                for message in part
            )
            batch_id = session_id if unit == "session" else f"{session_id}.{number}"
            yield Add(scope, batch_id, SentSession(session_id, part[0].created_at, sent))


def _parts(session: list[Message], unit: Unit) -> list[list[Message]]:
    if unit == "session":
        return [session]
    parts: list[list[Message]] = []
    for message in session:
        if parts and unit == "pair" and message.role != "user":
            parts[-1].append(message)
        else:
            parts.append([message])
    return parts


# Fill a scope of a memory service batch by batch, resuming where an earlier attempt stopped.

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
            forget(scope.workplace)
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
    progress = UnderWay(scope.part, len(todo), len(todo))
    ready = await service.ready(
        scope.scope, lambda state: note(scope.workplace, structs.replace(progress, ready=state.done))
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
            note(scope.workplace, UnderWay(scope.part, len(todo), number))
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


# Summarise the ingestion of a history for its part: versions, models, usage and losses.


@dataclass(frozen=True)
class Outcome:
    """The outcome of an attempt to ingest a history.

    Args:
        before: the record of an earlier attempt that lost batches.
        ingested: the record of this attempt; None: it failed.
        why: the error, if it failed.
        models: the models that were offered.
        calls: the model calls of all attempts.
        messages: number of messages of the history.
        elsewhere: True if the user has configured addresses of models, whose calls cannot be counted.
        remark: a caveat to show under tables.
    """

    before: Ingested | None
    ingested: Ingested | None
    why: str
    models: ProxiedScope | None
    calls: Sequence[ModelCall]
    messages: int
    elsewhere: bool = False
    remark: str = ""


def part_output(outcome: Outcome) -> PartOutput:
    """Return the output of the part: usage, notes, statistics and what is missing."""
    before, ingested, models, counted = outcome.before, outcome.ingested, outcome.models, sums(outcome.calls)
    paid = models.usage if models else Usage()
    wrong = models.failures if models else []
    notes = [f"{len(wrong)} model calls of the memory failed: {wrong[0]}"] if wrong else []
    result = ingested or before
    if result is None:
        return PartOutput(usage=paid, notes=tuple(notes), failed=outcome.why)
    missing = _missing(result)
    if ingested is None:
        # The result of an earlier attempt stays valid.
        notes.insert(0, f"the failed batches were tried again, but {outcome.why[:1].lower()}{outcome.why[1:]}")
    elif missing:
        notes.insert(0, f"{missing}. The next prepare tries again")
    all_counted = models is not None and not outcome.elsewhere and _is_counted(result, counted)
    if ingested and not all_counted:
        paid += _reported(ingested) - (_reported(before) if before else Usage())
    stats = _service(result) | {"messages": outcome.messages}
    stats |= {"remark": outcome.remark} if outcome.remark else {}
    stats |= _calls(result, models, counted) if models and all_counted else {}
    return PartOutput(usage=paid, notes=tuple(notes), stats=stats, incomplete=missing)


def _missing(ingested: Ingested) -> str:
    """Describe how much of the history cannot be found, and why; empty if nothing is missing."""
    if not ingested.missing:
        return ""
    why = ingested.failed[0].error if ingested.failed else "the memory took them and does not count them as ready"
    return f"{ingested.missing} of {ingested.batches} batches failed: {why}"


def _service(ingested: Ingested) -> dict[str, Any]:
    """Return the facts about the service that are shown under tables."""
    hello = ingested.hello
    capabilities = hello.capabilities
    return {
        "service": hello.name,
        "packages": dict(sorted(hello.packages.items())),
        "capabilities": {
            "usual provenance": capabilities.provenance,
            "dates": capabilities.dates,
            "signals": " + ".join(capabilities.signals) or "not told",
            "telemetry": capabilities.telemetry,
            "persistence": capabilities.persist,
        },
        "batches": ingested.batches,
        "failed_batches": ingested.missing,
    }


def _calls(ingested: Ingested, models: ProxiedScope, counted: CallSums) -> dict[str, Any]:
    """Return the calls and tokens of ingestion, as counted by the proxy and as the service reports them."""
    called = {"chat": models.access.chat_model} if counted.calls else {}
    called |= {"embeddings": models.access.embedder} if counted.embedding_calls else {}
    stats: dict[str, Any] = {
        "models": called,
        "model_calls": counted.calls,
        "cached_model_calls": counted.cached_calls,
        "failed_model_calls": counted.failed_calls,
        "cut_model_calls": counted.cut_calls,
        "prompt_tokens": counted.prompt_tokens,
        "completion_tokens": counted.completion_tokens,
        "embedding_calls": counted.embedding_calls,
        "embedding_texts": counted.embedding_texts,
        "embedding_tokens": counted.embedding_tokens,
    }
    if reported := ingested.usage:
        stats |= {
            "reported_calls": reported.calls,
            "reported_prompt_tokens": reported.prompt_tokens,
            "reported_completion_tokens": reported.completion_tokens,
        }
    return stats


def _is_counted(ingested: Ingested, counted: CallSums) -> bool:
    """Return whether all model calls of the service are known to have been counted."""
    models = ingested.hello.capabilities.models
    return models in ("none", "offered") or (models == "unknown" and counted.calls + counted.embedding_calls > 0)


def _reported(ingested: Ingested) -> Usage:
    """Return the usage that the service reports. Its price is unknown."""
    reported = ingested.usage
    if reported is None:
        return Usage(unpriced_calls=1)
    return Usage(
        calls=reported.calls,
        prompt_tokens=reported.prompt_tokens,
        completion_tokens=reported.completion_tokens,
        unpriced_calls=reported.calls,
    )
