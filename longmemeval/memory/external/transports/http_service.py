"""A memory service over HTTP: `POST <address>/v1/<method>`, parameters and result as JSON bodies."""

from typing import TYPE_CHECKING

import msgspec

from longmemeval.core.http import refuse_other_server_async
from longmemeval.core.secrets.redaction import public_url
from longmemeval.errors import FatalModelError
from longmemeval.memory.external.messages import Fault
from longmemeval.memory.external.transports.transport import LARGEST_MESSAGE, ServiceError, raise_fault

if TYPE_CHECKING:
    from httpx import AsyncClient

_CONNECTING_S = 10.0
_MAY_PASS = (429, 502, 503, 504)
"""Status codes after which the same call may succeed later."""


class _ErrorBody(msgspec.Struct, frozen=True):
    error: Fault


class HttpService:
    """A service that somebody else started; it is never stopped from here.

    Args:
        address: `http://host:port`, possibly with a path; user information in it is sent as a Basic header.
    """

    gone = False

    def __init__(self, address: str) -> None:
        self._address = address.rstrip("/")
        self._client: AsyncClient | None = None

    async def call(self, method: str, params: bytes) -> bytes:
        """Return the result of a call; see `Transport`."""
        import httpx

        if self._client is None:
            # The caller decides how long a call may take.
            hooks = {"response": [refuse_other_server_async]}
            self._client = httpx.AsyncClient(timeout=httpx.Timeout(None, connect=_CONNECTING_S), event_hooks=hooks)
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
            raise ServiceError(error.what, where=public_url(self._address), fix=error.fix, code="garbage") from error
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
        return ServiceError(
            f"The memory service {what}", where=public_url(self._address), code=code, retryable=retryable
        )

    def peak_resident_bytes(self) -> int | None:
        """Return None: it may run anywhere."""
        return None

    async def end(self) -> None:
        """Close the connections."""
        if self._client:
            await self._client.aclose()
            self._client = None
