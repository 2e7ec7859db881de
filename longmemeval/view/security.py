"""Control who may see the pages, and what a browser may do with them.

The address contains a token. A visitor who opens it gets a cookie and a redirect to the same address without the
token, which therefore stays out of history, links and logs. A foreign `Host` (a name that was made to point here) and
a foreign `Origin` are refused, GET changes nothing, and pages may load and run only what this server serves.
"""

import secrets
import socket
from collections.abc import MutableMapping
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlencode, urlsplit

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from longmemeval.view.opened import problem

STATIC = "/static/"
"""The path of the style sheet and scripts. Nothing below it is private, and the page of a refusal needs it too."""
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-frame-options": "DENY",
    "x-content-type-options": "nosniff",
    # Not "no-referrer": browsers then send forms of our own pages with the origin "null", which is refused.
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
_READING = frozenset({"GET", "HEAD"})
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
_EVERYWHERE = frozenset({"0.0.0.0", "::"})


class Guard:
    """A middleware that checks every request first.

    Args:
        app: the application with the pages.
        token: the secret in the address; a visitor without it, or the cookie it was exchanged for, sees nothing.
        host: the address that the server listens on.
        port: the port that the server listens on; each server on a machine has its own cookie.
    """

    def __init__(self, app: ASGIApp, *, token: str, host: str = "127.0.0.1", port: int = 0) -> None:
        self._app = app
        self._token = token
        self._host = host
        self._cookie = f"longmemeval-view-{port}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it on to the application."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        request = Request(scope)

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                _add_headers(message, static=request.url.path.startswith(STATIC))
            await send(message)

        answer = self._refusal(request) or self._entry(request)
        await (answer or self._app)(scope, receive, send_with_headers)

    def _refusal(self, request: Request) -> Response | None:
        host = request.headers.get("host", "")
        if not self._is_own(host):
            return problem(request, 421, "This server does not answer to that name", "Open the address it printed")
        origin = request.headers.get("origin")
        if origin is not None and urlsplit(origin).netloc != host:
            return problem(request, 403, "Another page asked for this", "Pages of other origins are refused")
        if origin is None and request.method not in _READING:
            return problem(request, 403, "The origin of this change is unknown", "Make the change on the page itself")
        return None

    def _is_own(self, host: str) -> bool:
        """Return True if a `Host` is a name of this server; the port may be that of a tunnel."""
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        if name in _LOOPBACK or name == self._host:
            return True
        # A name could be made to point here; an address cannot.
        return self._host in _EVERYWHERE and (name == socket.gethostname().lower() or _is_address(name))

    def _entry(self, request: Request) -> Response | None:
        """Return a redirect for a request with the token, None for one with the cookie, a refusal for any other."""
        if request.url.path.startswith(STATIC):
            return None
        if (token := request.query_params.get("token")) is not None and self._is_token(token):
            left = urlencode([pair for pair in request.query_params.multi_items() if pair[0] != "token"])
            onward = RedirectResponse(request.url.path + (f"?{left}" if left else ""), status_code=303)
            onward.set_cookie(self._cookie, self._token, httponly=True, samesite="lax")
            return onward
        if self._is_token(request.cookies.get(self._cookie, "")):
            return None
        fix = (
            "If somebody sent you this link, ask for the address that their terminal shows now. "
            "If the pages are yours, open the address that `longmemeval view` printed when it started last"
        )
        return problem(request, 403, "This address has expired, or lacks its token", fix)

    def _is_token(self, given: str) -> bool:
        return secrets.compare_digest(given.encode(), self._token.encode())


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _add_headers(message: MutableMapping[str, Any], *, static: bool) -> None:
    own = HEADERS | {"cache-control": "no-cache" if static else "no-store"}
    others = [(name, value) for name, value in message.get("headers", []) if name.decode().lower() not in own]
    message["headers"] = [*others, *((name.encode(), value.encode()) for name, value in own.items())]
