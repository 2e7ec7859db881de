"""Start the server: bind a port, print the address, open a browser."""

import secrets
import socket
import webbrowser
from collections.abc import Callable, Sequence
from threading import Thread

from longmemeval.errors import HarnessError
from longmemeval.settings import Folders

PORT = 8321
"""The default port; if it is in use, any free port is taken."""


def need_view_libraries() -> None:
    """Check that the extra `view` is installed.

    Raises:
        HarnessError: it is not installed.
    """
    try:
        import jinja2  # imported only to check that it is installed
        import starlette
        import uvicorn

        del jinja2, starlette, uvicorn
    except ImportError as error:
        raise HarnessError(
            f"The pages need a library that is not installed: {error.name}", fix="pip install 'longmemeval[view]'"
        ) from error


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
        HarnessError: a library is missing, or the port is in use.
    """
    need_view_libraries()
    import uvicorn

    from longmemeval.view.app import make_app

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
