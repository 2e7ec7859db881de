"""Starting the server: a port, the address, a browser."""

import secrets
import socket
import webbrowser
from collections.abc import Callable, Sequence
from threading import Thread

from longmemeval.errors import HarnessError
from longmemeval.settings import Folders

PORT = 8321
"""Where no port is named and this one is used, any free one is taken."""


def need_view_libraries() -> None:
    """See that the extra `view` is installed.

    Raises:
        HarnessError: it is not.
    """
    try:
        import jinja2  # imported to see that it is there
        import starlette
        import uvicorn

        del jinja2, starlette, uvicorn
    except ImportError as error:
        raise HarnessError(
            f"The pages need a library that is not installed: {error.name}", fix="pip install 'longmemeval[view]'"
        ) from error


def listening(host: str, port: int | None) -> socket.socket:
    """Return a socket that listens.

    Args:
        host: an address of this machine, or a name of one.
        port: to listen at; None: `PORT`, or any other where that is used.

    Raises:
        HarnessError: the port is used or may not be, or the host is none of this machine.
    """
    try:
        family, _, _, _, _ = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0]
        wanted = [PORT, 0] if port is None else [port]
        for number in wanted:
            made = socket.socket(family, socket.SOCK_STREAM)
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                made.bind((host, number))
                made.listen(128)
                return made
            except OSError:
                made.close()
                if number == wanted[-1]:
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
        folders: the folders.
        run_ids: the runs that pages show first.
        judge: by whom they are graded there; empty: the official one where it graded, else the newest.
        host: the address to listen at.
        port: None: `PORT`, or a free one.
        tell: called with the address, once it answers.
        open_browser: whether to open it.
        warn: called with what stands in the way of opening it.

    Raises:
        HarnessError: a library is missing, or the port is used.
    """
    need_view_libraries()
    import uvicorn

    from longmemeval.view.app import make_app

    bound = listening(host, port)
    number, token = bound.getsockname()[1], secrets.token_urlsafe(24)
    app = make_app(folders, run_ids, judge, token=token, host=host, port=number, ahead=True)
    # The address has the token: requests are not logged. A page that follows a run never ends by itself.
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
