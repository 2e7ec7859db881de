"""HTTP servers: redirects to other hosts, proxies, this machine, and the time to wait before the next attempt."""

import logging
import math
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import mktime_tz, parsedate_tz
from ipaddress import ip_address
from time import localtime, monotonic, strftime, time
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from longmemeval.core.installation import install_command, missing
from longmemeval.core.secrets.redaction import public_url, redact
from longmemeval.core.text.figures import duration
from longmemeval.errors import EndpointDownError, FatalModelError, HarnessError

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


# Proxies: one rule for all calls, whatever library makes them.

_HERE = ("localhost", "127.0.0.1", "::1", "0.0.0.0", "host.docker.internal")
"""Names of this machine, the last one as seen from a container."""


def is_this_machine(address: str) -> bool:
    """Return whether an address is on this machine, for which no proxy is asked."""
    host = urlsplit(address).hostname or ""
    with suppress(ValueError):
        return ip_address(host).is_loopback or ip_address(host).is_unspecified
    return host in _HERE or host.endswith(".localhost")


THROUGH = " through the proxy "


class Proxy(NamedTuple):
    """The way to an address; both fields are empty if it is called directly."""

    url: str = ""
    variable: str = ""

    def __str__(self) -> str:
        return f"{THROUGH}{public_url(self.url)} ({self.variable})" if self.url else ""

    @property
    def is_socks(self) -> bool:
        """True if it speaks SOCKS, which httpx does with a package of its own, and aiohttp does not."""
        return self.url.startswith("socks")


def proxy_for(address: str, *, socks: bool = True) -> Proxy:
    """Return the proxy that the environment names for an address: HTTP(S)_PROXY, else ALL_PROXY, unless NO_PROXY.

    Args:
        socks: False if the client speaks no SOCKS, whatever is installed.

    Raises:
        HarnessError: no client can use it, or its package is not installed.
    """
    from urllib.request import getproxies, proxy_bypass

    parts, known = urlsplit(address), getproxies()
    kind = next((kind for kind in (parts.scheme, "all") if known.get(kind)), "")
    if not kind or is_this_machine(address) or proxy_bypass(parts.netloc.rpartition("@")[2]):
        return Proxy()
    names = (f"{kind}_proxy", f"{kind}_proxy".upper())
    variable = next((name for name in names if os.environ.get(name)), "the system's settings")
    scheme, _, rest = known[kind].strip().rpartition("://")
    # Desktops write `socks` for the version that all of its servers speak today.
    proxy = Proxy(f"{'socks5' if scheme == 'socks' else scheme or 'http'}://{rest}", variable)
    with suppress(ValueError):
        parts = urlsplit(proxy.url)
        if parts.hostname and parts.port != 0 and parts.scheme in ("http", "https", "socks5", "socks5h"):
            what = f"The proxy {public_url(proxy.url)} speaks SOCKS"
            if proxy.is_socks and not socks:
                fix = "Name a proxy that speaks HTTP, or exempt the server with NO_PROXY"
                raise HarnessError(f"{what}, which the client of {address} does not", where=variable, fix=fix)
            if proxy.is_socks and missing(["socksio"]):
                fix = f"Run: env -u {variable} {install_command('socks')}"
                raise HarnessError(f"{what}, for which a package is not installed", where=variable, fix=fix)
            return proxy
    raise HarnessError(
        f"The proxy '{public_url(proxy.url)}' cannot be used",
        where=variable,
        fix="Write it as http://HOST:PORT or socks5://HOST:PORT",
    )


def without_proxy_here(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables by which libraries and other programs call this machine directly too."""
    exempt = environment.get("no_proxy") or environment.get("NO_PROXY") or ""
    if exempt.strip() == "*" or not any(name.lower().endswith("_proxy") for name in environment):
        return {}
    names = [*filter(None, map(str.strip, exempt.split(",")))]
    return dict.fromkeys(("no_proxy", "NO_PROXY"), ",".join(dict.fromkeys((*names, *_HERE))))


# Waiting times requested by servers: what they can mean, and what is said of them.

_LONGEST_BELIEVED_S = 31 * 86400.0
"""Quotas are counted by minute, day or month: a longer wait is a server's mistake."""
_WORTH_SAYING_S = 5.0
_UNITS = {"ms": 0.001, "milli": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SPAN = r"\d+(?:\.\d+)?\s*(?:ms|milli|[dhms])[a-z]*"
_SPANS = re.compile(rf"(?:{_SPAN}[\s,]*)+", re.I)
_SAID = re.compile(rf"(?:try again|retry) (?:in|after) ((?:{_SPAN}\s*)+)", re.I)
_LIMITS = (
    *("x-ratelimit-{}-requests", "x-ratelimit-{}-tokens"),
    *("anthropic-ratelimit-requests-{}", "anthropic-ratelimit-tokens-{}", "x-ratelimit-{}"),
)
_LOG = logging.getLogger(__name__)
_ignored = set[str]()
_waits: dict[str, float] = {}


def retry_after_seconds(value: str | None) -> float | None:
    """Return the seconds to wait by a header such as `Retry-After` (RFC 9110, section 10.2.3).

    Args:
        value: seconds, an HTTP date, or what servers send in their place: `6m0s`, `158ms`, an RFC 3339 date, seconds or
            milliseconds since 1970, or several of them, of which the first that can be meant counts.

    Returns:
        At least 0; None if the header is missing or cannot be meant.
    """
    text = value or ""
    waits = (_seconds(part.strip()) for part in (text, *text.split(",")))
    return next((max(0.0, wait) for wait in waits if wait is not None and wait <= _LONGEST_BELIEVED_S), None)


def _seconds(text: str) -> float | None:
    with suppress(ValueError):
        seconds = float(text)
        if seconds > _LONGEST_BELIEVED_S:
            seconds = (seconds / 1000 if seconds > 1e11 else seconds) - time()
        return seconds if abs(seconds) <= _LONGEST_BELIEVED_S else None
    if _SPANS.fullmatch(text):
        spans = re.findall(r"([\d.]+)\s*(ms|milli|[dhms])", text.lower())
        return sum(float(number) * _UNITS[unit] for number, unit in spans)
    with suppress(ValueError, OverflowError):
        if parsed := parsedate_tz(text):
            return mktime_tz(parsed) - time()
        date = datetime.fromisoformat(text)
        return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp() - time()
    return None


def requested_wait(headers: Mapping[str, str], message: str) -> float | None:
    """Return the seconds that a refusal asks to wait; None if it does not say.

    The server's wait counts, else its sentence ("try again in 7h12m"), else the time when a used-up limit is whole.

    Args:
        headers: headers of the reply; their names in any case.
        message: what the server says.
    """
    milliseconds, said = headers.get("retry-after-ms"), _SAID.search(message)
    used_up = [name for name in _LIMITS if headers.get(name.format("remaining"), "0").strip() == "0"]
    values = {"retry-after-ms": milliseconds and f"{milliseconds}ms", "retry-after": headers.get("retry-after")}
    values |= {"try again in": said and said[1]} | {
        (reset := name.format("reset")): headers.get(reset) for name in used_up
    }
    for name, value in values.items():
        if value and (wait := retry_after_seconds(value)) is not None:
            return wait
        if value:
            ignore(name, value)
    return None


def ignore(name: str, value: object) -> None:
    """Say, once for each name, that a number of a server is ignored."""
    if name not in _ignored:
        _ignored.add(name)
        _LOG.warning("A server sent %s: %s, which is not plausible and is ignored", name, redact(repr(value))[:80])


def too_long_a_wait(where: str, seconds: float, patience_s: float, what: str) -> EndpointDownError:
    """Return the error for a server that asks for a longer wait than the user allows; `what` is its own sentence."""
    span, until = duration(seconds), strftime("%Y-%m-%d %H:%M", localtime(time() + seconds))
    what = f"{where} asks to wait {span}, longer than --give-up-after ({duration(patience_s)}). {what.rstrip('.')}"
    fix = f"Rerun the same command in {span} ({until}), or wait with --give-up-after {math.ceil(seconds)}"
    return EndpointDownError(what, fix=fix)


def note_wait(where: str, seconds: float) -> None:
    """Record that calls wait for a server, for the progress line."""
    if seconds >= _WORTH_SAYING_S:
        _waits[where] = monotonic() + seconds


def current_wait() -> str:
    """Return for which server calls wait now, and until when; empty if for none."""
    where = max(list(_waits), key=lambda name: _waits[name], default="")
    left = _waits.get(where, 0.0) - monotonic()
    return f"waiting until {strftime('%H:%M:%S', localtime(time() + left))} for {where}" if left > 0 else ""
