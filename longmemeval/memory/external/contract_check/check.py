"""Check a memory system: find out what works, and what tables will not be able to show."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from longmemeval.memory.external.contract_check.findings import (
    ASKED,
    FIRST,
    OTHER,
    QUESTION,
    SECOND,
    Finding,
    begins,
    dates,
    finds,
    holds,
    message_ids,
    order,
    stray,
)
from longmemeval.memory.external.contract_check.scope import TriedScope
from longmemeval.memory.external.messages import HelloResult
from longmemeval.memory.external.transports.service import MemoryService
from longmemeval.memory.external.transports.transport import ServiceError
from longmemeval.records import Message, RecalledItem
from longmemeval.storage.messages import haystack_messages


async def check(
    service: MemoryService, configuration: Mapping[str, Any], folder: Path, models: Mapping[str, Any] | None = None
) -> AsyncIterator[Finding]:
    """Check everything that can be checked, and yield each finding as it is known; an early failure ends the check.

    The service is left empty.

    Args:
        service: the memory.
        configuration: the user's parameters of the memory.
        folder: an empty folder for the memory's files.
        models: the fields of `open` about models; see `ProxiedScope.fields`.
    """
    trial = _Trial(service, dict(configuration), folder, dict(models or {}))
    try:
        async for finding in _findings(trial):
            yield finding
    finally:
        await trial.clean_up()


async def _findings(trial: "_Trial") -> AsyncIterator[Finding]:
    under_way = "begin"
    try:
        yield await trial.begin()
        under_way = "add"
        yield await trial.fill()
        under_way = "search"
        hits = await trial.search()
        yield finds(hits) if hits else await trial.find_anything()
    except ServiceError as error:
        yield Finding(under_way, "failed", str(error))
        return
    for finding in (message_ids(hits), dates(hits), order(hits)):
        yield finding
    for name, attempt in trial.attempts.items():
        try:
            yield await attempt()
        except ServiceError as error:
            yield Finding(name, "failed", str(error))


class _Trial:
    """The two histories at the service: one memory with two scopes."""

    def __init__(
        self, service: MemoryService, configuration: dict[str, Any], folder: Path, models: dict[str, Any]
    ) -> None:
        self._service, self._configuration, self._folder, self._models = service, configuration, folder, models
        self._hello = HelloResult(0, "")
        self._histories = {haystack.haystack_id: haystack_messages(haystack) for haystack in (FIRST, SECOND)}
        self._scopes = {
            name: TriedScope(service, name, messages, "check", name, str(folder))
            for name, messages in self._histories.items()
        }
        self._open_in: dict[str, int] = {}
        """The number of the service's start at which each scope was opened."""
        self._left = False
        """True if something may be left at the service."""
        # `restart` ends the service and `reset` empties it, so the order matters.
        self.attempts: dict[str, Callable[[], Awaitable[Finding]]] = {
            "same question, same hits": self._repeat,
            "limit": self._limit,
            "histories apart": self._apart,
            "what it holds": self._holds,
            "same batch twice": self._twice,
            "eight questions at once": self._at_once,
            "restart": self._restart,
            "reset": self._reset,
        }

    async def _open(self, name: str, mode: Literal["prepare", "read"], folder: Path, reference: str = "") -> None:
        await self._scopes[name].open(folder, self._configuration, self._models, reference, mode)
        self._open_in[name] = self._service.beginnings

    async def _add(self, name: str) -> None:
        self._left = True
        scope = self._scopes[name]
        for batch in await scope.batches():
            await scope.add(batch)
        ready = await self._service.ready(scope.id)
        if ready.state == "failed" or ready.failed:
            why = ready.failed[0].error if ready.failed else "it does not say why"
            raise ServiceError(f"The memory says that adding failed: {why}")

    async def begin(self) -> Finding:
        self._hello = await self._service.hello()
        return begins(self._hello)

    async def fill(self) -> Finding:
        """Add both histories, concurrently if the service can."""

        async def fill(name: str) -> None:
            await self._open(name, "prepare", self._folder / name)
            await self._add(name)

        if self._hello.capabilities.max_parallel > 1:
            # Wait for both even if one fails: a history that is still being added cannot be cleaned up.
            results = await asyncio.gather(*map(fill, self._histories), return_exceptions=True)
            for error in filter(None, results):
                raise error
            return Finding("add", "works", f"two histories at once; up to {self._hello.capabilities.max_parallel}")
        for name in self._histories:
            await fill(name)
        return Finding("add", "works", "two histories, one after the other")

    async def search(self, query: str = QUESTION, name: str = "first", limit: int = 5) -> tuple[RecalledItem, ...]:
        return await self._scopes[name].search(query, ASKED, limit)

    async def find_anything(self) -> Finding:
        """Search by the words of each message, after the question found nothing."""
        for text in _texts(self._histories["first"]):
            if await self.search(text, limit=50):
                return finds(())
        why = "not even by the words of a message that was added; does `search` return its hits?"
        return Finding("search", "failed", f"nothing is ever found, {why}")

    async def _found_or_held(self) -> list[tuple[str, tuple[str, ...]]]:
        """Return the items that the first history lists or finds, sorted."""
        held = await self._scopes["first"].held() if self._hello.capabilities.list else ()
        return sorted(_shown([*held, *await self.search(limit=50)]))

    async def _repeat(self) -> Finding:
        what = "same question, same hits"
        if _shown(await self.search()) == _shown(await self.search()):
            return Finding(what, "works", "")
        return Finding(what, "missing", "two equal searches find different hits: runs cannot be repeated exactly")

    async def _limit(self) -> Finding:
        found = len(await self.search(" ".join(_texts(self._histories["first"])), limit=1))
        if found <= 1:
            return Finding("limit", "works", "")
        return Finding("limit", "failed", f"{found} items found with limit 1")

    async def _apart(self) -> Finding:
        for name, other in OTHER.items():
            found = await self.search(" ".join(_texts(self._histories[other])), name, limit=50)
            if problem := stray(name, found):
                return Finding("histories apart", "failed", problem)
        return Finding("histories apart", "works", "")

    async def _holds(self) -> Finding:
        if not self._hello.capabilities.list:
            return Finding("what it holds", "missing", "no list: lost and duplicate items cannot be detected")
        shown = [holds(name, await self._scopes[name].held(), messages) for name, messages in self._histories.items()]
        return next((finding for finding in shown if finding.state != "works"), shown[0])

    async def _twice(self) -> Finding:
        before = await self._found_or_held()
        await self._scopes["first"].add((await self._scopes["first"].batches())[0])
        await self._service.ready(self._scopes["first"].id)
        if await self._found_or_held() == before:
            return Finding("same batch twice", "works", "a killed prepare can be resumed")
        return Finding("same batch twice", "failed", "a batch that is sent twice is stored twice")

    async def _at_once(self) -> Finding:
        what, questions = "eight questions at once", _texts(self._histories["first"])
        questions = [*questions, QUESTION][:8]
        alone = [_shown(await self.search(question)) for question in questions]
        together = await asyncio.gather(*map(self.search, questions))
        if [sorted(_shown(hits)) for hits in together] == list(map(sorted, alone)):
            return Finding(what, "works", "")
        return Finding(what, "failed", "the hits differ from those of the same questions one after the other")

    async def _restart(self) -> Finding:
        before, persist = _shown(await self.search()), self._hello.capabilities.persist
        if persist == "none":
            return Finding("restart", "missing", "no save and load: every run adds and pays for all sessions again")
        # Save both: an unsaved scope that a memory keeps in a database server could not be removed after the restart.
        references = {name: (await self._service.snapshot(self._scopes[name].id)).reference for name in self._histories}
        await self._service.close()
        copy = self._folder / "copy"
        await asyncio.to_thread(shutil.copytree, self._folder / "first", copy)
        await self._open("first", "read", copy, references["first"])
        if sorted(_shown(await self.search())) == sorted(before):
            return Finding("restart", "works", f"kept in its {persist}: prepare once, run often")
        return Finding("restart", "failed", "the hits are different after a restart")

    async def _reset(self) -> Finding:
        for name in self._histories:
            try:
                await self._empty(name)
            except ServiceError as error:
                if error.code != "unknown_method":
                    raise
                return Finding("reset", "missing", "no reset: everything that was added stays there")
            left = len(await self.search(name=name, limit=50))
            left = left or (len(await self._scopes[name].held()) if self._hello.capabilities.list else 0)
            if left:
                return Finding("reset", "failed", f"{left} items are still found after a reset")
        self._left = False
        return Finding("reset", "works", "nothing is left" if self._hello.capabilities.persist == "service" else "")

    async def _empty(self, name: str) -> None:
        if self._open_in.get(name) != self._service.beginnings:
            await self._open(name, "prepare", self._folder / name)
        await self._service.reset(self._scopes[name].id)

    async def clean_up(self) -> None:
        """Empty the scopes at the service, wherever the trial ended."""
        for name in self._histories if self._left else ():
            with suppress(ServiceError):
                await self._empty(name)


def _texts(messages: Sequence[Message]) -> list[str]:
    return [message.content for message in messages]


def _shown(items: Sequence[RecalledItem]) -> list[tuple[str, tuple[str, ...]]]:
    return [(item.text, item.message_ids) for item in items]
