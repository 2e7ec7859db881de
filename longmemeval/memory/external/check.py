"""Trying a memory system in seconds, on two small made-up histories: what works, and what tables will not show."""

import asyncio
import shutil
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from longmemeval.memory.external.batches import batches
from longmemeval.memory.external.carriers import ServiceError
from longmemeval.memory.external.ids import OpaqueIds, scope_id
from longmemeval.memory.external.messages import Add, HelloResult, Open, Search
from longmemeval.memory.external.recalled import provenance_of, recalled_items
from longmemeval.memory.external.service import MemoryService
from longmemeval.records import Haystack, Message, RecalledItem, Session, Turn
from longmemeval.storage.messages import haystack_messages


class Finding(Struct, frozen=True):
    """One thing that was tried. `missing` costs a column of a table or a comfort, `failed` makes results wrong."""

    what: str
    state: Literal["works", "missing", "failed"]
    told: str


_ASKED = datetime(2024, 3, 1, 18, 0)


def _haystack(name: str, *sessions: tuple[int, tuple[str, ...]]) -> Haystack:
    def turns(texts: Sequence[str]) -> tuple[Turn, ...]:
        return tuple(Turn("assistant" if place % 2 else "user", text) for place, text in enumerate(texts))

    made = (Session(f"{name}-{day}", datetime(2024, 2, day, 9, 0), "", turns(texts)) for day, texts in sessions)
    return Haystack(name, tuple(made))


FIRST = _haystack(
    "first",
    (1, ("I adopted a beagle and called her Pixel.", "Congratulations! Beagles need long walks.")),
    (5, ("My sister Alice in Lisbon wants to visit Pixel.", "Lovely. Does Alice like dogs?", "She does, very much.")),
    (9, ("I switched from coffee to green tea.", "Green tea has less caffeine than coffee.")),
)
SECOND = _haystack(
    "second",
    (2, ("My tortoise is called Euclid and sleeps all winter.", "Tortoises need a cool and quiet place.")),
    (7, ("I play the cello in an orchestra in Porto.", "What do you rehearse these days?")),
)
QUESTION, ANSWERED_BY = "What is the beagle called that I adopted?", "Pixel"
_WORDS = {"first": ("Pixel", "Alice", "tea"), "second": ("Euclid", "Tortoise", "cello")}
"""What only one of the histories speaks of."""


async def check(service: MemoryService, configuration: Mapping[str, Any], folder: Path) -> list[Finding]:
    """Try everything that can be tried; what fails early ends it early.

    Args:
        service: the memory.
        configuration: what the user has set.
        folder: empty, for what the memory writes.
    """
    trial = _Trial(service, dict(configuration), folder)
    found: list[Finding] = []
    try:
        found.append(await trial.begin())
        found.append(await trial.fill())
        hits = await trial.search()
    except ServiceError as error:
        return [*found, Finding(("begin", "add", "search")[len(found)], "failed", str(error))]
    found += [_finds(hits), _message_ids(hits), _dates(hits), _order(hits)]
    for name, attempt in trial.attempts.items():
        try:
            found.append(await attempt())
        except ServiceError as error:
            found.append(Finding(name, "failed", str(error)))
    return found


class _Trial:
    """The two histories at the service, the same memory in two scopes."""

    def __init__(self, service: MemoryService, configuration: dict[str, Any], folder: Path) -> None:
        self._service, self._configuration, self._folder = service, configuration, folder
        self.told = HelloResult(0, "")
        self._histories = {one.haystack_id: haystack_messages(one) for one in (FIRST, SECOND)}
        self._refs: dict[str, dict[str, tuple[str, ...]]] = {name: {} for name in self._histories}
        # A service that keeps its scopes has those of the last trial: each trial has its own.
        self._scopes = {name: scope_id("check", name, str(folder)) for name in self._histories}
        self.attempts: dict[str, Callable[[], Awaitable[Finding]]] = {
            "same question, same hits": self._repeat,
            "limit": self._limit,
            "histories apart": self._apart,
            "same batch twice": self._twice,
            "eight questions at once": self._at_once,
            "restart": self._restart,
        }

    def _ids(self, name: str) -> OpaqueIds:
        return OpaqueIds(name, self._histories[name])

    def _batches(self, name: str) -> list[Add]:
        return list(batches(self._scopes[name], self._histories[name], self._ids(name), self.told.capabilities.unit))

    async def _open(self, name: str, mode: Literal["prepare", "read"], folder: Path, reference: str = "") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        await self._service.open(Open(self._scopes[name], str(folder), mode, self._configuration, reference))

    async def _add(self, name: str) -> None:
        for batch in self._batches(name):
            self._refs[name] |= (await self._service.add(batch)).refs
        ready = await self._service.ready(self._scopes[name])
        if ready.state == "failed" or ready.failed:
            why = ready.failed[0].error if ready.failed else "it does not say why"
            raise ServiceError(f"The memory says that adding failed: {why}")

    async def begin(self) -> Finding:
        self.told = await self._service.hello()
        return Finding("begin", "works", f"{self.told.name}{_packages(self.told)}")

    async def fill(self) -> Finding:
        """Both histories, side by side where the service can."""

        async def fill(name: str) -> None:
            await self._open(name, "prepare", self._folder / name)
            await self._add(name)

        if self.told.capabilities.max_parallel > 1:
            await asyncio.gather(*map(fill, self._histories))
            return Finding("add", "works", f"two histories at once; up to {self.told.capabilities.max_parallel}")
        for name in self._histories:
            await fill(name)
        return Finding("add", "works", "two histories, one after the other")

    async def search(self, query: str = QUESTION, name: str = "first", limit: int = 5) -> tuple[RecalledItem, ...]:
        found = await self._service.search(Search(self._scopes[name], query, _ASKED, limit))
        return recalled_items(found.items, self._ids(name), self._refs[name])

    async def _repeat(self) -> Finding:
        what = "same question, same hits"
        if _shown(await self.search()) == _shown(await self.search()):
            return Finding(what, "works", "")
        return Finding(what, "missing", "two searches differ: runs of it cannot be repeated exactly")

    async def _limit(self) -> Finding:
        found = len(await self.search(" ".join(_texts(self._histories["first"])), limit=1))
        if found <= 1:
            return Finding("limit", "works", "")
        return Finding("limit", "failed", f"{found} items where one was asked for")

    async def _apart(self) -> Finding:
        for name, other in (("first", "second"), ("second", "first")):
            for item in await self.search(" ".join(_texts(self._histories[other])), name, limit=50):
                if any(word in item.text for word in _WORDS[other]):
                    told = f"one history is found in another: “{item.text[:60]}”"
                    return Finding("histories apart", "failed", told)
        return Finding("histories apart", "works", "")

    async def _twice(self) -> Finding:
        before = sorted(_shown(await self.search(limit=50)))
        await self._service.add(self._batches("first")[0])
        await self._service.ready(self._scopes["first"])
        if sorted(_shown(await self.search(limit=50))) == before:
            return Finding("same batch twice", "works", "a killed prepare can go on")
        return Finding("same batch twice", "failed", "a batch that comes again is stored again")

    async def _at_once(self) -> Finding:
        what, questions = "eight questions at once", _texts(self._histories["first"])
        questions = [*questions, QUESTION][:8]
        alone = [_shown(await self.search(question)) for question in questions]
        together = await asyncio.gather(*map(self.search, questions))
        if [sorted(_shown(hits)) for hits in together] == list(map(sorted, alone)):
            return Finding(what, "works", "")
        return Finding(what, "failed", "hits are others than one after the other")

    async def _restart(self) -> Finding:
        before, persist = _shown(await self.search()), self.told.capabilities.persist
        if persist == "none":
            return Finding("restart", "missing", "no save and load: every run adds all sessions again, and pays again")
        reference = (await self._service.snapshot(self._scopes["first"])).reference
        await self._service.close()
        copy = self._folder / "copy"
        await asyncio.to_thread(shutil.copytree, self._folder / "first", copy)
        await self._open("first", "read", copy, reference)
        if sorted(_shown(await self.search())) == sorted(before):
            return Finding("restart", "works", f"kept in its {persist}: prepare once, run often")
        return Finding("restart", "failed", "after a restart the hits are others")


def _texts(messages: Sequence[Message]) -> list[str]:
    return [message.content for message in messages]


def _shown(items: Sequence[RecalledItem]) -> list[tuple[str, tuple[str, ...]]]:
    return [(item.text, item.message_ids) for item in items]


def _packages(told: HelloResult) -> str:
    return "".join(f", {name} {version}" for name, version in told.packages.items())


def _finds(hits: Sequence[RecalledItem]) -> Finding:
    if any(ANSWERED_BY in hit.text for hit in hits):
        return Finding("search", "works", f"“{QUESTION}” finds “{ANSWERED_BY}”")
    found = f"the best of {len(hits)} hits is “{hits[0].text[:60]}”" if hits else "nothing is found"
    return Finding("search", "missing", f"“{QUESTION}” does not find “{ANSWERED_BY}”: {found}")


def _message_ids(hits: Sequence[RecalledItem]) -> Finding:
    what = "message ids"
    match provenance_of(hits):
        case "message":
            return Finding(what, "works", "evidence recall by message and by session")
        case "session":
            return Finding(what, "missing", "hits name sessions only: recall is scored by session, and marked")
        case _:
            return Finding(what, "missing", "hits do not say where they are from: tables show no recall")


def _dates(hits: Sequence[RecalledItem]) -> Finding:
    dates = {session.session_id: session.date for session in FIRST.sessions}
    if not hits or any(hit.date is None for hit in hits):
        return Finding("dates", "missing", "hits without a date: the answering model cannot tell old from new")
    moved = [hit for hit in hits if hit.kind == "message" and hit.date not in map(dates.get, hit.thread_ids)]
    if hits[0].thread_ids and moved:
        return Finding("dates", "failed", f"a hit has the date {moved[0].date}, its session has another")
    return Finding("dates", "works", "")


def _order(hits: Sequence[RecalledItem]) -> Finding:
    scores = [hit.score for hit in hits if hit.score is not None]
    if len(scores) < len(hits) or not hits:
        return Finding("order", "missing", "hits without a score: no threshold for abstaining can be found")
    if scores != sorted(scores, reverse=True):
        return Finding("order", "failed", "hits are not in the order of their scores, the best first")
    return Finding("order", "works", "best first, with scores")
