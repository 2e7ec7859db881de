"""Build the application from its pages.

To add a page:

1. A module in `pages/` whose docstring gives the grammar of its addresses, with `routes`: a list of `Route`s. An
   endpoint is a plain function (it runs in a thread of its own) that takes the request and returns `page(request,
   TEMPLATE, choice, **values)` or, for paths below `/data/`, `data(document)`. `site_of(request)` has the opened runs
   and the folders; `site_of(request).choice(request)` returns the runs that the address selects. A raised
   `HarnessError` becomes a page, or JSON, in its own words.
2. A template in `templates/` that extends `base.html.j2` and is readable without scripts. Texts are escaped and
   invisible characters shown; the content policy forbids inline styles and inline scripts. A script is a
   module in `static/` (`{% block script %}`) that imports `./ui.js` (Preact, htm, signals, keys, the address).
3. A line in `PAGES` below, and in `navigation.py` if pages link to it.

A request that changes something is a `POST` (`security.py` checks that it comes from one of these pages).
"""

import mimetypes
import secrets
import socket
import webbrowser
from collections.abc import Callable, Sequence
from threading import Thread

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from longmemeval.errors import HarnessError
from longmemeval.report.page.templates import page_file
from longmemeval.results.manifest import run_folder
from longmemeval.settings import Folders
from longmemeval.view.opened import Choice, problem, refusal
from longmemeval.view.pages import compare, explore, labels, live, question, questions, runs
from longmemeval.view.security import Guard
from longmemeval.view.site import Site, site_of

PAGES: tuple[Sequence[BaseRoute], ...] = (
    runs.routes,
    compare.routes,
    questions.routes,
    question.routes,
    explore.routes,
    labels.routes,
    live.routes,
)


def make_app(
    folders: Folders,
    run_ids: Sequence[str] = (),
    judge: str = "",
    *,
    token: str,
    host: str = "127.0.0.1",
    port: int = 0,
    ahead: bool = False,
) -> Guard:
    """Return the application.

    Args:
        folders: the folders.
        run_ids: the runs that pages show if their address names none.
        judge: the judge whose scores the pages show; empty: the official one if it graded, else the newest.
        token: the secret in the address.
        host: the address that the server listens on.
        port: the port that the server listens on.
        ahead: open the runs that pages show first before the first request.
    """
    mimetypes.add_type("text/javascript", ".js")
    app = Starlette(
        routes=[
            Route("/", _home),
            *(route for routes in PAGES for route in routes),
            Route("/static/palette.css", _palette),
            Mount("/static", StaticFiles(packages=[("longmemeval.view", "static")])),
        ],
        middleware=[Middleware(GZipMiddleware, minimum_size=1000, compresslevel=6)],
        exception_handlers={HarnessError: _error_page, HTTPException: _refused, Exception: _broken},
    )
    app.state.site = Site(folders, Choice(tuple(run_ids), judge))
    if ahead:
        Thread(target=app.state.site.open_ahead, daemon=True).start()
    return Guard(app, token=token, host=host, port=port)


def _palette(request: Request) -> Response:
    """Answer with the colours, which are those of the report."""
    return Response(page_file("palette.css"), media_type="text/css")


def _home(request: Request) -> Response:
    """Redirect to the comparison of the named runs, else to the list of runs."""
    named = site_of(request).named
    return RedirectResponse(named.address("/compare") if named.runs else "/runs", status_code=303)


def _error_page(request: Request, error: Exception) -> Response:
    return refusal(request, error) if isinstance(error, HarnessError) else _broken(request, error)


def _refused(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    words = {404: "Page not found", 405: "Not allowed here"}
    return problem(request, status, words.get(status, "The request cannot be answered"), "Go on from one of the links")


def _broken(request: Request, error: Exception) -> Response:
    what = f"The page could not be made: {type(error).__name__}"
    return problem(request, 500, what, "The terminal that runs `longmemeval view` shows where it happened")


# Start the server: bind a port, print the address, open a browser.

PORT = 8321
"""The default port; if it is in use, any free port is taken."""


def listening(host: str, port: int | None) -> socket.socket:
    """Return a listening socket.

    Args:
        host: an address of this machine, or the name of such an address.
        port: the port to listen on; None: `PORT`, or a free one if that is in use.

    Raises:
        HarnessError: the port is in use or not permitted, or the host is not an address of this machine.
    """
    try:
        family, _, _, _, _ = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0]
        ports = [PORT, 0] if port is None else [port]
        for number in ports:
            listener = socket.socket(family, socket.SOCK_STREAM)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                listener.bind((host, number))
                listener.listen(128)
                return listener
            except OSError:
                listener.close()
                if number == ports[-1]:
                    raise
    except OSError as error:
        what = f"Cannot listen at {host}" + (f", port {port}" if port is not None else "")
        fix = "Name another with --port, or leave it out: a free one is then taken" if port is not None else ""
        raise HarnessError(what, where=error.strerror or str(error), fix=fix or "Name another --host") from error
    raise AssertionError("a port was tried")


def serve(
    folders: Folders,
    run_ids: Sequence[str],
    judge: str = "",
    *,
    host: str,
    port: int | None,
    tell: Callable[[str], None],
    open_browser: bool,
    warn: Callable[[str], None],
) -> None:
    """Serve the pages until the process is interrupted.

    Args:
        run_ids: the runs that pages show first.
        judge: the judge whose scores the pages show; empty: the official one if it graded, else the newest.
        host: the address to listen on.
        port: the port to listen on; None: `PORT`, or a free one.
        tell: called with the address of the pages once the server listens.
        open_browser: open the address in a browser.
        warn: called with a message if no browser could be opened.

    Raises:
        HarnessError: a run is unknown, or the port is in use.
    """
    import uvicorn

    for run_id in run_ids:
        run_folder(folders.results_dir, run_id)
    bound = listening(host, port)
    number, token = bound.getsockname()[1], secrets.token_urlsafe(24)
    app = make_app(folders, run_ids, judge, token=token, host=host, port=number, ahead=True)
    # Requests are not logged as the address contains the token. A page that follows a run never ends by itself.
    config = uvicorn.Config(
        app, log_level="error", access_log=False, lifespan="off", ws="none", timeout_graceful_shutdown=1
    )
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    address = f"http://{shown}:{number}/?token={token}"
    tell(address)
    if open_browser:
        Thread(target=_open, args=(address, warn), daemon=True).start()
    uvicorn.Server(config).run(sockets=[bound])


def _open(address: str, warn: Callable[[str], None]) -> None:
    try:
        opened = webbrowser.open(address)
    except webbrowser.Error:
        opened = False
    if not opened:
        warn("No browser could be opened here: open the address yourself.")
