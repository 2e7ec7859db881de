"""Redirects of calls: followed on one server, refused to another, which no record of a run would name."""

from typing import TYPE_CHECKING

from longmemeval.errors import FatalModelError

if TYPE_CHECKING:
    from httpx import URL, Request, Response


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
        target = asked.join(response.headers["location"])
        if _server(asked) != _server(target):
            raise FatalModelError(
                f"The server redirects calls to another server: {_server(asked)} to {_server(target)}",
                fix=f"If you trust {_server(target)}, give its address in place of the first",
            )


async def refuse_other_server_async(response: "Response") -> None:
    """Do the same as a hook of `httpx.AsyncClient`."""
    refuse_other_server(response)


def _server(url: "URL") -> str:
    """Return scheme, host and port, without user information, path and query."""
    port = url.port or {"http": 80, "https": 443}.get(url.scheme)
    host = f"[{url.host}]" if ":" in url.host else url.host
    return f"{url.scheme}://{host}:{port}"
