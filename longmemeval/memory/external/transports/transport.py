"""The protocol of transports, and the transport inside this process."""

from collections.abc import Callable
from contextlib import suppress
from typing import NoReturn, Protocol

import msgspec

from longmemeval.core.secrets.redaction import redact
from longmemeval.errors import RecallError
from longmemeval.memory.external.messages import Fault, Progress
from longmemeval.memory.external.serve import Fault as ServedFault
from longmemeval.memory.external.serve import MemoryServer

LARGEST_MESSAGE = 16 * 1024 * 1024
"""Maximum bytes that a service may write for one call."""


FINAL = ("gone", "silent", "garbage")
"""Our own codes for a service that is not expected to answer again."""


class ServiceError(RecallError):
    """A memory service failed at one call; others may succeed.

    Args:
        code: the protocol's `Fault.code`, or one of `FINAL`.
        retryable: True if the same call may succeed a little later.
    """

    def __init__(self, what: str, *, where: str = "", fix: str = "", code: str = "", retryable: bool = False) -> None:
        super().__init__(what, where=where, fix=fix)
        self.code, self.retryable = code, retryable


class Transport(Protocol):
    """Carries messages to one service and back. All methods are called in the loop for services."""

    async def call(self, method: str, params: bytes) -> bytes:
        """Return the result of a method, both as JSON; calls may run concurrently.

        Raises:
            ServiceError: the service reports a fault, is gone, or breaks the protocol.
        """
        ...

    @property
    def gone(self) -> bool:
        """True if no call can succeed any more."""
        ...

    def peak_resident_bytes(self) -> int | None:
        """Return the peak memory of its own processes; None if it has none, or if it is unknown."""
        ...

    async def end(self) -> None:
        """End the service by force, if it is ours."""
        ...


OnProgress = Callable[[Progress], None]


class InProcess:
    """Passes messages to an object in this process, also as JSON, so that it sees what any other service would.

    Args:
        server: answers for the object's class.
        raised: called with each exception of the class.
    """

    gone = False

    def __init__(self, server: MemoryServer, raised: Callable[[BaseException], None] = lambda error: None) -> None:
        self._server, self._raised = server, raised

    async def call(self, method: str, params: bytes) -> bytes:
        """Return the result of a call; see `Transport`."""
        try:
            return encode(await self._server.call(method, msgspec.json.decode(params)))
        except ServedFault as fault:
            if fault.__cause__:
                self._raised(fault.__cause__)
            raise error_of(Fault(fault.code, str(fault), fault.retryable)) from fault.__cause__

    def peak_resident_bytes(self) -> int | None:
        """Return None: it has no process of its own."""
        return None

    async def end(self) -> None:
        """Close all objects."""
        while True:
            with suppress(ServedFault):  # If one object cannot be closed, close the others.
                await self._server.call("shutdown", {})
                return


def encode(document: object) -> bytes:
    """Encode a document as JSON.

    Raises:
        ServiceError: a user's class returned something that cannot be written as JSON.
    """
    try:
        return msgspec.json.encode(document)
    except TypeError as error:
        raise ServiceError(f"What the memory returned cannot be written as JSON: {error}", code="garbage") from error


def raise_fault(fault: Fault) -> NoReturn:
    """Raise the fault that a service reports.

    Raises:
        ServiceError: always.
    """
    raise error_of(fault)


def error_of(fault: Fault) -> ServiceError:
    """Return the error that stands for a fault that a service reports."""
    return ServiceError(redact(fault.message), code=fault.code, retryable=fault.retryable)
