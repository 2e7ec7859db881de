"""A memory service with typed methods: started when needed, and waited for only as long as it makes progress."""

import asyncio
import atexit
import os
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, TypeVar
from weakref import WeakSet

import msgspec
from msgspec import Struct, structs

from longmemeval.core.event_loop import paused
from longmemeval.core.http import proxy_for, refuse_other_server_async
from longmemeval.core.secrets.redaction import public_url
from longmemeval.errors import FatalModelError, HarnessError, nearest
from longmemeval.memory.external.background import complete_in_background, in_background
from longmemeval.memory.external.messages import (
    PROTOCOL,
    Add,
    AddResult,
    Delete,
    DeleteResult,
    Fault,
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
from longmemeval.memory.external.transports.transport import (
    LARGEST_MESSAGE,
    OnProgress,
    ServiceError,
    Transport,
    raise_fault,
)

if TYPE_CHECKING:
    from httpx import AsyncClient


# Timeouts of memory services by method, and their environment variable.

TIMEOUTS = "LONGMEMEVAL_MEMORY_TIMEOUTS"
"""The environment variable that changes timeouts: `add=1200,search=120`."""


class Timeouts(Struct, frozen=True):
    """Seconds a service may take for each method; a longer call fails, and a child process is killed."""

    hello: float = 180.0
    open: float = 180.0
    add: float = 600.0
    ready: float = 60.0
    search: float = 60.0
    delete: float = 600.0
    snapshot: float = 600.0
    list: float = 60.0
    reset: float = 60.0
    shutdown: float = 5.0
    no_progress: float = 600.0
    """Seconds a scope may be pending without progress."""
    attempts: int = 4
    """Attempts of a call that fails with a temporary error."""


def patience_of(text: str | None = None) -> Timeouts:
    """Return the default timeouts with the user's changes.

    Args:
        text: `method=seconds`, separated by commas; None: from the environment variable.

    Raises:
        HarnessError: a method does not exist, or its seconds are not a positive number.
    """
    changed: dict[str, float] = {}
    known = [name for name in Timeouts.__struct_fields__ if name != "attempts"]
    for setting in (os.environ.get(TIMEOUTS, "") if text is None else text).split(","):
        name, _, seconds = (word.strip() for word in setting.partition("="))
        if not setting.strip():
            continue
        if name not in known:
            raise HarnessError(f"Unknown timeout '{name}'", where=TIMEOUTS, fix=nearest(name, known))
        try:
            changed[name] = float(seconds)
        except ValueError:
            changed[name] = 0.0
        if not 0 < changed[name] < float("inf"):
            fix = f"Write seconds above 0, such as {TIMEOUTS}={name}=1200"
            raise HarnessError(f"The timeout '{setting.strip()}' needs a number of seconds", where=TIMEOUTS, fix=fix)
    return structs.replace(Timeouts(), **changed)


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
        with paused():
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


# A memory service over HTTP: `POST <address>/v1/<method>`, parameters and result as JSON bodies.

_CONNECTING_S = 10.0
_MAY_PASS = (429, 502, 503, 504)
"""Status codes after which the same call may succeed later."""


class _ErrorBody(msgspec.Struct, frozen=True):
    error: Fault


class HttpService:
    """A service that somebody else started; it is never stopped from here.

    Args:
        address: `http://host:port`, possibly with a path; user information in it is sent as a Basic header.

    Raises:
        HarnessError: the proxy before it cannot be used.
    """

    gone = False

    def __init__(self, address: str) -> None:
        self._address = address.rstrip("/")
        self._proxy = proxy_for(self._address)
        self._where = f"{public_url(self._address)}{self._proxy}"
        self._client: AsyncClient | None = None

    async def call(self, method: str, params: bytes) -> bytes:
        """Return the result of a call; see `Transport`."""
        import httpx

        if self._client is None:
            # The caller decides how long a call may take.
            hooks = {"response": [refuse_other_server_async]}
            self._client = httpx.AsyncClient(
                timeout=httpx.Timeout(None, connect=_CONNECTING_S),
                event_hooks=hooks,
                transport=httpx.AsyncHTTPTransport(proxy=self._proxy.url or None),
            )
        url = f"{self._address}/v1/{method}"
        headers = {"Content-Type": "application/json"}
        try:
            async with self._client.stream("POST", url, content=params, headers=headers) as response:
                body = bytearray()
                async for chunk in response.aiter_bytes():
                    body += chunk
                    if len(body) > LARGEST_MESSAGE:
                        raise self._error(f"sent more than {LARGEST_MESSAGE // 2**20} MB", "garbage")
        except FatalModelError as error:
            raise ServiceError(error.what, where=self._where, fix=error.fix, code="garbage") from error
        except (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError) as error:
            raise self._error(f"closed the connection instead of answering {method}", "gone", retryable=True) from error
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            why = str(error) or type(error).__name__
            raise self._error(f"cannot be reached: {why}", "gone", retryable=True) from error
        if response.status_code == httpx.codes.OK:
            return bytes(body)
        try:
            fault = msgspec.json.decode(body, type=_ErrorBody).error
        except (msgspec.DecodeError, UnicodeDecodeError):
            fault = None
        if fault:
            raise_fault(fault)
        status = response.status_code
        raise self._error(f"replied {status} to {method}", "garbage", retryable=status in _MAY_PASS)

    def _error(self, what: str, code: str, *, retryable: bool = False) -> ServiceError:
        return ServiceError(f"The memory service {what}", where=self._where, code=code, retryable=retryable)

    def peak_resident_bytes(self) -> int | None:
        """Return None: it may run anywhere."""
        return None

    async def end(self) -> None:
        """Close the connections."""
        if self._client:
            await self._client.aclose()
            self._client = None
