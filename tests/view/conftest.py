"""A real browser at a real server of the pages."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from threading import Thread
from typing import Literal

import pytest
import uvicorn
from playwright.sync_api import Browser, Page

from longmemeval.settings import Folders
from longmemeval.view.app import listening, make_app
from tests.browser import chromium as system_chromium
from tests.view.client import TOKEN

Scheme = Literal["light", "dark"]


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with system_chromium() as started:
        yield started


def served(folders: Folders, stack: ExitStack) -> str:
    """Serve the pages of these folders until the stack is closed; return the address without a path."""
    bound = listening("127.0.0.1", 0)
    port = bound.getsockname()[1]
    app = make_app(folders, token=TOKEN, port=port)
    config = uvicorn.Config(app, log_level="error", lifespan="off", ws="none", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    thread = Thread(target=server.run, kwargs={"sockets": [bound]}, daemon=True)
    thread.start()

    def end() -> None:
        server.should_exit = True
        thread.join(10)

    stack.callback(end)
    return f"http://127.0.0.1:{port}"


Visit = Callable[..., Page]


@pytest.fixture
def visit(chromium: Browser) -> Iterator[Visit]:
    """Open a page of `where`; whatever goes wrong in it, and whatever is asked of elsewhere, fails the test."""
    troubles: list[str] = []
    addresses: dict[str, str] = {}
    with ExitStack() as stack:

        def open_page(
            folders: Folders, path: str, *, width: int = 1280, scheme: Scheme = "light", scripts: bool = True
        ) -> Page:
            key = str(folders.results_dir)
            if key not in addresses:
                addresses[key] = served(folders, stack)
            own = addresses[key]
            context = chromium.new_context(
                viewport={"width": width, "height": 900}, color_scheme=scheme, java_script_enabled=scripts
            )
            stack.callback(context.close)
            page = context.new_page()
            page.on("console", lambda message: troubles.append(f"console: {message.text}"))
            page.on("pageerror", lambda error: troubles.append(f"error: {error}"))
            context.on("request", lambda request: None if request.url.startswith(own) else troubles.append(request.url))
            page.goto(f"{own}{path}{'&' if '?' in path else '?'}token={TOKEN}")
            return page

        yield open_page
    assert troubles == []
