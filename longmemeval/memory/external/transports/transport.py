"""What carries messages to a memory service; the one inside this process."""

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
"""Bytes that a service may write for one call."""


FINAL = ("gone", "silent", "garbage")
"""Codes of our own for a service of which nothing more is to be expected."""


class ServiceError(RecallError):
    """A memory service failed at one thing; others may succeed.

    Args:
        what: as of every error, like `where`.
        code: of the protocol's `Fault`, or one of `FINAL`.
        retryable: whether the same call may succeed a little later.
    """

    def __init__(self, what: str, *, where: str = "", fix: str = "", code: str = "", retryable: bool = False) -> None:
        super().__init__(what, where=where, fix=fix)
        self.code, self.retryable = code, retryable


class Transport(Protocol):
    """Carries messages to one service and back. All methods are called in the loop for services."""

    async def call(self, method: str, params: bytes) -> bytes:
        """The result, both as JSON; calls may go on side by side.

        Raises:
            ServiceError: the service tells of a fault, is gone, or breaks the protocol.
        """
        ...

    @property
    def gone(self) -> bool:
        """Whether no call can succeed any more."""
        ...

    async def end(self) -> None:
        """End the service, as far as it is ours, without asking it."""
        ...


OnProgress = Callable[[Progress], None]


class InProcess:
    """Carries to an object in this process, as JSON too: it sees what every other service would see.

    Args:
        server: answers for the object's class.
    """

    gone = False

    def __init__(self, server: MemoryServer) -> None:
        self._server = server

    async def call(self, method: str, params: bytes) -> bytes:
        """The result; see `Transport`."""
        try:
            return encode(await self._server.call(method, msgspec.json.decode(params)))
        except ServedFault as fault:
            raise_fault(Fault(fault.code, str(fault), fault.retryable))

    async def end(self) -> None:
        """Let go of all objects."""
        while True:
            with suppress(ServedFault):  # Of one that cannot be closed; the others can.
                await self._server.call("shutdown", {})
                return


def encode(document: object) -> bytes:
    """JSON; what a user's class returned may hold things that have none.

    Raises:
        ServiceError: it does.
    """
    try:
        return msgspec.json.encode(document)
    except TypeError as error:
        raise ServiceError(f"What the memory returned cannot be written as JSON: {error}", code="garbage") from error


def raise_fault(fault: Fault) -> NoReturn:
    """The fault a service tells of, as an error.

    Raises:
        ServiceError: always.
    """
    raise ServiceError(redact(fault.message), code=fault.code, retryable=fault.retryable)
