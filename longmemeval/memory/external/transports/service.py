"""A memory service with typed methods: started when needed, and waited for only as long as it makes progress."""

import asyncio
import atexit
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from typing import TypeVar
from weakref import WeakSet

import msgspec
from msgspec import Struct

from longmemeval.core.event_loop import not_its_own_time
from longmemeval.memory.external.background import complete_in_background, in_background
from longmemeval.memory.external.messages import (
    PROTOCOL,
    Add,
    AddResult,
    Delete,
    DeleteResult,
    Hello,
    HelloResult,
    List,
    ListResult,
    Open,
    OpenResult,
    Progress,
    Ready,
    ReadyResult,
    Reset,
    ResetResult,
    Search,
    SearchResult,
    Shutdown,
    ShutdownResult,
    Snapshot,
    SnapshotResult,
)
from longmemeval.memory.external.transports.timeouts import TIMEOUTS, Timeouts
from longmemeval.memory.external.transports.transport import OnProgress, ServiceError, Transport

R = TypeVar("R", bound=Struct)

_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.02, 2.0
"""Seconds between two polls for a scope to be ready, and between two attempts of a call."""


class MemoryService:
    """One service; its methods are those of the protocol and may be called from any event loop, concurrently.

    If the service is gone, the next call restarts it. It then has no open scope.

    Args:
        connect: makes the transport, given a callback for progress.
        timeouts: how long to wait.
    """

    def __init__(self, connect: Callable[[OnProgress], Transport], timeouts: Timeouts | None = None) -> None:
        self._connect, self._timeouts = connect, timeouts or Timeouts()
        self._transport: Transport | None = None
        self._hello_result: HelloResult | None = None
        self._connecting: asyncio.Lock | None = None
        self._places: asyncio.Semaphore | None = None
        self._progress: dict[str, tuple[int, float]] = {}
        self._warming: asyncio.Lock | None = None
        self._warm_in = 0
        self.beginnings = 0
        """Number of starts of the service; scopes that were opened before the last start are no longer open."""
        _services.add(self)

    async def hello(self) -> HelloResult:
        """Return the service's name, versions and capabilities."""
        return await in_background(self._hello())

    async def open(self, request: Open) -> OpenResult:
        """Make a scope ready."""
        return await self._ask("open", request, OpenResult)

    async def add(self, request: Add) -> AddResult:
        """Add a session."""
        return await self._ask("add", request, AddResult)

    async def ready(self, scope: str, notify: Callable[[ReadyResult], None] = lambda state: None) -> ReadyResult:
        """Wait until everything that was added can be found or has failed.

        Args:
            scope: the scope that was added to.
            notify: called with the progress after each poll.

        Raises:
            ServiceError: there was no progress for too long.
        """
        best, since, wait = -1, time.monotonic(), _FIRST_WAIT_S
        while True:
            progress = await self._ask("ready", Ready(scope), ReadyResult)
            now = time.monotonic()
            notify(progress)
            if progress.state != "pending":
                return progress
            if progress.done > best:
                best, since, wait = progress.done, now, _FIRST_WAIT_S
            elif now - since > self._timeouts.no_progress:
                raise ServiceError(
                    f"The memory made no progress for {self._timeouts.no_progress:g} s: "
                    f"{progress.done} batches are done, {progress.pending} are not",
                    fix=_more_time("no_progress", self._timeouts.no_progress),
                    code="silent",
                )
            await asyncio.sleep(wait)
            wait = min(wait * 1.5, _LONGEST_WAIT_S)

    async def search(self, request: Search) -> SearchResult:
        """Search a scope, with as many searches at once as the service allows."""
        return await in_background(self._search(request))

    async def _search(self, request: Search) -> SearchResult:
        hello = await self._hello()
        self._places = self._places or asyncio.Semaphore(hello.capabilities.max_parallel)
        with not_its_own_time():
            await self._places.acquire()
        try:
            return await self._retried("search", request, SearchResult)
        finally:
            self._places.release()

    async def warm_up(self, scope: str, date: datetime) -> None:
        """Search a scope once with an arbitrary query, unless that was done since the service started."""
        self._warming = self._warming or asyncio.Lock()
        async with self._warming:
            if self._warm_in != self.beginnings:
                await self._search(Search(scope, "hello", date, 1))
                self._warm_in = self.beginnings

    async def delete(self, scope: str, subject: str) -> None:
        """Delete everything about a subject, and return when it can no longer be found."""
        await self._ask("delete", Delete(scope, subject), DeleteResult)

    async def snapshot(self, scope: str) -> SnapshotResult:
        """Write everything and close the scope."""
        return await self._ask("snapshot", Snapshot(scope), SnapshotResult)

    async def list(self, scope: str) -> ListResult:
        """Return everything that a scope contains."""
        return await self._ask("list", List(scope), ListResult)

    async def reset(self, scope: str) -> None:
        """Empty a scope."""
        await self._ask("reset", Reset(scope), ResetResult)

    def peak_resident_bytes(self) -> int | None:
        """Return the peak memory of its processes since they started; None if unknown, or if it has none."""
        return self._transport.peak_resident_bytes() if self._transport else None

    async def close(self) -> None:
        """Have the service close everything; a child process ends by itself or is killed."""
        await in_background(self._close())

    async def _close(self) -> None:
        transport, self._transport = self._transport, None
        if transport is None:
            return
        with suppress(ServiceError):
            await self._attempt(transport, "shutdown", Shutdown(), ShutdownResult)
        await transport.end()

    async def _ask(self, method: str, request: Struct, kind: type[R]) -> R:
        return await in_background(self._retried(method, request, kind))

    async def _retried(self, method: str, request: Struct, kind: type[R]) -> R:
        wait = _FIRST_WAIT_S
        for attempt in range(1, self._timeouts.attempts + 1):
            await self._hello()
            transport = self._transport
            try:
                if transport is None:
                    raise ServiceError("The memory service was closed", code="gone")
                return await self._attempt(transport, method, request, kind)
            except ServiceError as error:
                if not error.retryable or attempt == self._timeouts.attempts:
                    raise
            await asyncio.sleep(wait)
            wait = min(wait * 5, _LONGEST_WAIT_S)
        raise AssertionError("the last attempt returns or raises")

    async def _hello(self) -> HelloResult:
        self._connecting = self._connecting or asyncio.Lock()
        async with self._connecting:
            if self._transport and not self._transport.gone and self._hello_result:
                return self._hello_result
            transport = self._connect(self._note_progress)
            self.beginnings += 1
            hello = await self._attempt(transport, "hello", Hello(), HelloResult)
            if hello.protocol != PROTOCOL:
                await transport.end()
                raise ServiceError(
                    f"The memory speaks version {hello.protocol} of the protocol, this is version {PROTOCOL}",
                    fix="Use a longmemeval and a service of the same version",
                )
            self._transport, self._hello_result = transport, hello
            return hello

    async def _attempt(self, transport: Transport, method: str, request: Struct, kind: type[R]) -> R:
        """Make one attempt at a call.

        Raises:
            ServiceError: it failed, took too long, or the result does not follow the protocol.
        """
        scope = str(getattr(request, "scope", ""))
        allowed: float = getattr(self._timeouts, method)
        call = asyncio.ensure_future(transport.call(method, msgspec.json.encode(request)))
        started = time.monotonic()
        try:
            while not call.done():
                left = max(started, self._progress.get(scope, (0, 0.0))[1]) + allowed - time.monotonic()
                if left <= 0:
                    await transport.end()
                    what = f"The memory did not answer {method} within {allowed:g} s"
                    raise ServiceError(what, fix=_more_time(method, allowed), code="silent")
                await asyncio.wait({call}, timeout=left)
            if call.cancelled():
                raise ServiceError(f"The memory cancelled its own {method}", code="failed")
            return msgspec.json.decode(call.result(), type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            what = f"The memory's result of {method} does not follow the protocol: {error}"
            raise ServiceError(what, fix="See docs/memory-protocol.schema.json", code="garbage") from error
        finally:
            self._progress.pop(scope, None)
            if not call.done():
                call.cancel()
            elif not call.cancelled():
                call.exception()  # Retrieve the error of an abandoned call so that asyncio does not log it.

    def _note_progress(self, progress: Progress) -> None:
        if progress.done > self._progress.get(progress.scope, (0, 0.0))[0]:
            self._progress[progress.scope] = (progress.done, time.monotonic())


def _more_time(what: str, seconds: float) -> str:
    return f"Give it more time with {TIMEOUTS}={what}={2 * seconds:g} in the environment"


_services: WeakSet[MemoryService] = WeakSet()


@atexit.register
def close_services() -> None:
    """Close open services: no child outlives the process that started it."""

    async def close() -> None:
        await asyncio.gather(*(service._close() for service in _services), return_exceptions=True)

    if any(service._transport for service in _services):
        with suppress(TimeoutError):
            complete_in_background(close(), 2 * Timeouts().shutdown)
