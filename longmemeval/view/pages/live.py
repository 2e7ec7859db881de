"""Serve work in progress: `/live`, and updates at `/live/events` (server-sent events, one JSON document each).

The figures are those of `longmemeval runs --watch`, from the files of runs and preparations alone.
"""

import asyncio
from collections.abc import AsyncIterator

import msgspec
from msgspec import Struct
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from longmemeval.core.tables.table import Table
from longmemeval.pipeline.status import UnderWay, Watching
from longmemeval.report.tables.status import status_table
from longmemeval.view.opened import page
from longmemeval.view.site import site_of

_EVERY_S = 1.0


class Under(Struct, frozen=True):
    """All work in progress, as shown on the page."""

    titles: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    ended: tuple[str, ...]
    """Runs that were in progress when the page was opened, and have been completed since."""


def _shown(found: UnderWay) -> Under:
    table: Table = status_table(found.runs, found.preparations)
    return Under(
        tuple(column.title for column in table.columns),
        tuple(map(tuple, table.rows)),
        tuple(run.run for run in found.runs if run.state == "completed"),
    )


def show(request: Request) -> Response:
    """Answer with the work in progress."""
    watch = Watching(joining=site_of(request).folders)
    return page(request, "live.html.j2", site_of(request).choice(request), now=_shown(watch.look()))


def events(request: Request) -> Response:
    """Answer with the work in progress, again whenever it has changed, until the page is closed."""
    watch = Watching(joining=site_of(request).folders)

    async def stream() -> AsyncIterator[bytes]:
        before = b""
        while not await request.is_disconnected():
            now = msgspec.json.encode(_shown(await run_in_threadpool(watch.look)))
            yield b": still here\n\n" if now == before else b"data: " + now + b"\n\n"
            before = now
            await asyncio.sleep(_EVERY_S)

    return StreamingResponse(stream(), media_type="text/event-stream")


routes: list[BaseRoute] = [Route("/live", show), Route("/live/events", events)]
