"""Work under way: `/live`, and as it goes on `/live/events` (server-sent events, one JSON document each).

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
from longmemeval.pipeline.status.preparations import unfinished_preparations
from longmemeval.pipeline.status.runs import RunWatch, is_unfinished
from longmemeval.report.tables.status import status_table
from longmemeval.results.manifest import run_ids
from longmemeval.settings import Folders
from longmemeval.view.answers import page
from longmemeval.view.site import site_of

_EVERY_S = 1.0


class Under(Struct, frozen=True):
    """All work under way, as it is shown."""

    titles: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    ended: tuple[str, ...]
    """Runs that were under way when this was first asked, and are no longer."""


class Watch:
    """Runs and preparations observed for one page: each line of their journals is read once.

    Args:
        where: the folders.
    """

    def __init__(self, where: Folders) -> None:
        self._where = where
        self._runs: dict[str, RunWatch] = {}

    def look(self) -> Under:
        """Return what is under way now; a run that ends stays with its last state."""
        results = self._where.results_dir
        for run in run_ids(results):
            if run not in self._runs and is_unfinished(results / run):
                self._runs[run] = RunWatch(results / run)
        states = [watch.look() for watch in self._runs.values()]
        table: Table = status_table(states, [one.look() for one in unfinished_preparations(self._where.prepared_dir)])
        return Under(
            tuple(column.title for column in table.columns),
            tuple(map(tuple, table.rows)),
            tuple(one.run for one in states if one.state == "completed"),
        )


def show(request: Request) -> Response:
    """Answer with what is under way now."""
    return page(request, "live.html.j2", site_of(request).choice(request), now=Watch(site_of(request).where).look())


def events(request: Request) -> Response:
    """Answer with what is under way, again whenever it has changed, until the page is left."""
    watch = Watch(site_of(request).where)

    async def stream() -> AsyncIterator[bytes]:
        before = b""
        while not await request.is_disconnected():
            now = msgspec.json.encode(await run_in_threadpool(watch.look))
            yield b": still here\n\n" if now == before else b"data: " + now + b"\n\n"
            before = now
            await asyncio.sleep(_EVERY_S)

    return StreamingResponse(stream(), media_type="text/event-stream")


routes: list[BaseRoute] = [Route("/live", show), Route("/live/events", events)]
