"""HTTP servers: redirects to other hosts, this machine, and the time to wait before the next attempt."""

import math
from contextlib import suppress
from email.utils import mktime_tz, parsedate_tz
from ipaddress import ip_address
from time import time
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from longmemeval.errors import FatalModelError

if TYPE_CHECKING:
    from httpx import Request, Response


# Redirects of calls: followed on one server, refused to another, which no record of a run would name.


def refuse_other_server(response: "Response", request: "Request | None" = None) -> None:
    """Raise an error if a reply redirects its call to another scheme, host or port; a hook of `httpx.Client`.

    Args:
        response: the reply, before a redirect is followed.
        request: the call; None: the reply knows it.

    Raises:
        FatalModelError: the reply redirects to another server; the error names both.
    """
    if response.has_redirect_location:
        asked = (request or response.request).url
        refuse_other_address(str(asked), str(asked.join(response.headers["location"])))


def refuse_other_address(asked: str, target: str) -> None:
    """Raise the error if `target` has another scheme, host or port than `asked`."""
    if _server(asked) != _server(target):
        raise FatalModelError(
            f"The server redirects calls to another server: {_server(asked)} to {_server(target)}",
            fix=f"If you trust {_server(target)}, give its address in place of the first",
        )


async def refuse_other_server_async(response: "Response") -> None:
    """Do the same as a hook of `httpx.AsyncClient`."""
    refuse_other_server(response)


def _server(address: str) -> str:
    """Return scheme, host and port, without user information, path and query."""
    url = urlsplit(address)
    port = url.port or {"http": 80, "https": 443}.get(url.scheme)
    host = f"[{url.hostname}]" if ":" in (url.hostname or "") else url.hostname
    return f"{url.scheme}://{host}:{port}"


def is_this_machine(address: str) -> bool:
    """Return whether an address is on the loopback, which no proxy is asked for."""
    host = urlsplit(address).hostname or ""
    with suppress(ValueError):
        return ip_address(host).is_loopback
    return host == "localhost"


# Waiting times requested by servers.

LONGEST_REQUESTED_WAIT_S = 600.0
"""Longest `Retry-After` of a server that is honoured, whatever our own limit."""


def retry_after_seconds(value: str | None) -> float | None:
    """Return the seconds to wait by a `Retry-After` header: seconds or an HTTP date (RFC 9110, section 10.2.3).

    Returns:
        At least 0; None if the header is missing or malformed.
    """
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        parsed = parsedate_tz(value)
        if parsed is None:
            return None
        seconds = mktime_tz(parsed) - time()
    return None if math.isnan(seconds) else max(0.0, seconds)
