"""An ingested history, open at its service as a scratch copy, so that reading it changes nothing."""

import asyncio
import shutil
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from weakref import finalize

from longmemeval.core.event_loop import not_its_own_time
from longmemeval.memory.external.background import in_background
from longmemeval.memory.external.ingestion.filling import Ingested, Scope, replay
from longmemeval.memory.external.messages import Search
from longmemeval.memory.external.recalled import recalled_items
from longmemeval.memory.external.transports.service import MemoryService
from longmemeval.records import Question, RecalledItem


class OpenedHistory:
    """One history; opened at the first search, and again after the service was restarted.

    Args:
        service: the service that holds the history.
        scope: the scope of the history; its folder is only read.
        ingested: the record of its ingestion.
        closing: closed together with this object.
        warms_up: True: search the service once after each start before a search is timed, since products load what they
            need at the first search.
    """

    def __init__(
        self, service: MemoryService, scope: Scope, ingested: Ingested, closing: ExitStack, *, warms_up: bool = False
    ) -> None:
        finalize(self, closing.close)
        self._warms_up = warms_up
        self._service, self._scope, self._ingested = service, scope, ingested
        self._opening: asyncio.Lock | None = None
        self._opened_in = 0
        self._scratch: TemporaryDirectory[str] | None = None

    async def search(self, question: Question, limit: int, budget: int | None) -> Sequence[RecalledItem]:
        """Return what the service finds, best first, with our ids.

        Raises:
            ServiceError: the service failed, or returned an id that it was never given.
            SpendingLimitError, EndpointDownError, FatalModelError: no model can be called any more.
        """
        models = self._scope.models
        try:
            with not_its_own_time():
                await in_background(self._open())
                if self._warms_up:
                    await in_background(self._service.warm_up(self._scope.scope, question.date))
            request = Search(self._scope.scope, question.text, question.date, limit, budget)
            found = await self._service.search(request)
        finally:
            if models:
                models.check()
        return recalled_items(found.items, self._scope.ids, self._ingested.refs)

    @property
    def failed_calls(self) -> Sequence[str]:
        """The errors of model calls so far."""
        return self._scope.models.failures if self._scope.models else ()

    async def _open(self) -> None:
        self._opening = self._opening or asyncio.Lock()
        async with self._opening:
            await self._service.hello()
            if self._opened_in == self._service.beginnings:
                return
            self._scratch = TemporaryDirectory(prefix="longmemeval-", ignore_cleanup_errors=True)
            copy = Path(self._scratch.name) / "state"
            await asyncio.to_thread(shutil.copytree, self._scope.state, copy)
            scope, persist = self._scope, self._ingested.hello.capabilities.persist
            request = await asyncio.to_thread(scope.opened, copy, "read", self._ingested.reference)
            await self._service.open(request)
            if persist == "none":
                await replay(self._service, scope)
            self._opened_in = self._service.beginnings
