"""Check a memory system in seconds, on two small made-up histories."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from importlib import resources
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

from msgspec import Struct, field
from msgspec.structs import replace

from longmemeval.core.event_loop import complete
from longmemeval.core.part_options import PartOptions
from longmemeval.errors import HarnessError
from longmemeval.llm.options import ModelOptions
from longmemeval.llm.registry import ModelAccess
from longmemeval.memory.configuration import MemoryConfiguration, parts_of
from longmemeval.memory.external.connect import connect
from longmemeval.memory.external.ingestion import batches
from longmemeval.memory.external.messages import Add, HelloResult, Open, Search
from longmemeval.memory.external.part import ServicePart
from longmemeval.memory.external.recalled import OpaqueIds, provenance_of, recalled_items, scope_id
from longmemeval.memory.external.transports.service import MemoryService
from longmemeval.memory.external.transports.transport import ServiceError
from longmemeval.records import Haystack, Message, RecalledItem, Session, Turn
from longmemeval.storage.messages import haystack_messages

__path__: list[str] = []
"""Names of version 0.2 below this one are found (`core/moved.py`)."""


# Findings on a memory system from the hits of a trial.


def _haystack(name: str, *sessions: tuple[int, tuple[str, ...]]) -> Haystack:
    def turns(texts: Sequence[str]) -> tuple[Turn, ...]:
        return tuple(Turn("assistant" if place % 2 else "user", text) for place, text in enumerate(texts))

    dated = (Session(f"{name}-{day}", datetime(2024, 2, day, 9, 0), "", turns(texts)) for day, texts in sessions)
    return Haystack(name, tuple(dated))


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
ASKED = datetime(2024, 3, 1, 18, 0)
QUESTION, ANSWERED_BY = "What is the beagle called that I adopted?", "Pixel"
OTHER = {"first": "second", "second": "first"}
WORDS = {"first": ("Pixel", "Alice", "tea"), "second": ("Euclid", "Tortoise", "cello")}
"""Words that occur in one of the histories only."""


class Finding(Struct, frozen=True):
    """The outcome of one check. `missing`: a table column or a convenience is lost; `failed`: results are wrong."""

    what: str
    state: Literal["works", "missing", "failed"]
    details: str = field(name="told")


def begins(hello: HelloResult) -> Finding:
    """Report which memory answered."""
    packages = "".join(f", {name} {version}" for name, version in hello.packages.items())
    return Finding("begin", "works", f"{hello.name}{packages}")


def finds(hits: Sequence[RecalledItem]) -> Finding:
    """Report whether the question finds its answer."""
    if any(ANSWERED_BY in hit.text for hit in hits):
        return Finding("search", "works", f"“{QUESTION}” finds “{ANSWERED_BY}”")
    found = f"the best of {len(hits)} hits is “{hits[0].text[:60]}”" if hits else "nothing is found"
    return Finding("search", "missing", f"“{QUESTION}” does not find “{ANSWERED_BY}”: {found}")


def message_ids(hits: Sequence[RecalledItem]) -> Finding:
    """Report on which level recall can be scored."""
    what = "message ids"
    match provenance_of(hits):
        case "message":
            return Finding(what, "works", "evidence recall by message and by session")
        case "session":
            return Finding(what, "missing", "hits name only sessions: recall is scored by session, and marked as such")
        case _:
            return Finding(what, "missing", "hits do not name their sources: tables show no recall")


def dates(hits: Sequence[RecalledItem]) -> Finding:
    """Report whether hits have the dates of their sessions."""
    dates = {session.session_id: session.date for session in FIRST.sessions}
    if not hits or any(hit.date is None for hit in hits):
        return Finding("dates", "missing", "hits without a date: the answering model cannot tell old from new")
    moved = [hit for hit in hits if hit.kind == "message" and hit.date not in map(dates.get, hit.thread_ids)]
    if hits[0].thread_ids and moved:
        return Finding("dates", "failed", f"a hit has the date {moved[0].date}, but its session has another")
    return Finding("dates", "works", "")


def order(hits: Sequence[RecalledItem]) -> Finding:
    """Report whether the best hits come first."""
    scores = [hit.score for hit in hits if hit.score is not None]
    if len(scores) < len(hits) or not hits:
        return Finding("order", "missing", "hits without a score: no threshold for abstention can be found")
    if scores != sorted(scores, reverse=True):
        return Finding("order", "failed", "hits are not sorted by score, best first")
    return Finding("order", "works", "best first, with scores")


def stray(name: str, items: Sequence[RecalledItem]) -> str:
    """Return a complaint about items in the history `name` that belong to the other one; empty if there are none."""
    found = (item.text for item in items if any(word in item.text for word in WORDS[OTHER[name]]))
    return next((f"one history is found in another: “{text[:60]}”" for text in found), "")


def holds(name: str, items: Sequence[RecalledItem], messages: Sequence[Message]) -> Finding:
    """Report whether exactly what was added is stored."""
    what = "what it holds"
    if problem := stray(name, items):
        return Finding(what, "failed", problem)
    threads = {message.thread_id for message in messages}
    if provenance_of(items) in ("message", "session"):
        lost = len(threads - {thread for item in items for thread in item.thread_ids})
    else:
        lost = 0 if items else len(threads)
    if lost and items and all(item.kind != "message" for item in items):
        return Finding(what, "missing", f"nothing was kept from {lost} of {len(threads)} sessions")
    if lost:
        return Finding(what, "failed", f"{lost} of {len(threads)} sessions are lost: nothing from them is stored")
    return Finding(what, "works", f"{len(items)} items of {len(messages)} messages")


# One history at a memory service, opened, filled and searched by a trial.


class TriedScope:
    """A scope for a trial, with the ids that were sent and the refs that came back.

    Args:
        name: the name of the history.
        messages: all messages of the history, oldest first.
        distinct: texts that distinguish the scope from those of other trials, which the service may still have.
    """

    def __init__(self, service: MemoryService, name: str, messages: Sequence[Message], *distinct: str) -> None:
        self.service, self.messages = service, messages
        self.id = scope_id(*distinct)
        self.ids = OpaqueIds(name, messages)
        self._refs: dict[str, tuple[str, ...]] = {}

    async def open(
        self,
        folder: Path,
        configuration: Mapping[str, Any],
        models: Mapping[str, Any],
        reference: str = "",
        mode: Literal["prepare", "read"] = "prepare",
    ) -> tuple[str, ...]:
        """Open the scope and return the ids of the batches it has; for `models` see `ProxiedScope.fields`."""
        folder.mkdir(parents=True, exist_ok=True)
        request = Open(self.id, str(folder), mode, dict(configuration), reference, **models)
        return (await self.service.open(request)).batch_ids

    async def batches(self) -> list[Add]:
        """Return the history in batches of the service's unit."""
        return list(batches(self.id, self.messages, self.ids, (await self.service.hello()).capabilities.unit))

    async def add(self, batch: Add) -> None:
        """Add a batch."""
        self._refs |= (await self.service.add(batch)).refs

    async def search(self, query: str, date: datetime, limit: int) -> tuple[RecalledItem, ...]:
        """Return the items found, best first."""
        found = await self.service.search(Search(self.id, query, date, limit))
        return recalled_items(found.items, self.ids, self._refs)

    async def held(self) -> tuple[RecalledItem, ...]:
        """Return all items that the service lists."""
        return recalled_items((await self.service.list(self.id)).items, self.ids, self._refs)


# Check a memory system: find out what works, and what tables will not be able to show.


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


# Check a memory by its name on the command line; it must have `add` and `search`.


class CheckedMemory(Struct, frozen=True):
    """The result of checking a memory."""

    findings: tuple[Finding, ...]
    failed_calls: tuple[str, ...]
    """The errors of calls to the models it was offered, each once."""

    @property
    def failed(self) -> bool:
        """True if its results would be wrong."""
        return any(finding.state == "failed" for finding in self.findings)


class MemoryCheck:
    """A memory to check, with the models it may call.

    Args:
        name: the name the user gave, for errors.
        models: chat model and embedder that it is offered.
        reached: connection options for these; a call is attempted twice.

    Raises:
        HarnessError: it makes its own parts in `prepare`, or cannot be reached.
    """

    def __init__(
        self,
        configuration: MemoryConfiguration,
        name: str,
        models: PartOptions = PartOptions(),
        reached: ModelOptions = ModelOptions(),
    ) -> None:
        self._part = service_part(configuration, name)
        self._service = connect(self._part.spec, keys=models.memory_model is None)
        self._access = ModelAccess(models.memory_model, models.embedder, replace(reached, max_attempts=2))

    def check(self, tell: Callable[[Finding], None] = lambda finding: None) -> CheckedMemory:
        """Add two made-up histories to the memory, search them, and leave it empty and closed.

        Args:
            tell: called with each finding as it is known.
        """
        with (
            TemporaryDirectory(prefix="longmemeval-check-") as folder,
            self._part.offered("check", "prepare", self._access, None) as models,
        ):
            findings = complete(self._findings(Path(folder), models.fields if models else {}, tell))
            return CheckedMemory(findings, tuple(dict.fromkeys(models.failures)) if models else ())

    async def _findings(
        self, folder: Path, models: Mapping[str, Any], tell: Callable[[Finding], None]
    ) -> tuple[Finding, ...]:
        findings = []
        try:
            async for finding in check(self._service, self._part.given(), folder, models):
                findings.append(finding)
                tell(finding)
        finally:
            await self._service.close()
        return tuple(findings)


def service_part_of(configuration: MemoryConfiguration) -> ServicePart | None:
    """Return the service of a configuration; None if it makes its own parts in `prepare`."""
    return next((part for part in parts_of(configuration) if isinstance(part, ServicePart)), None)


def service_part(configuration: MemoryConfiguration, name: str) -> ServicePart:
    """Return the service of a configuration.

    Args:
        name: the name the user gave, for errors.

    Raises:
        HarnessError: it makes its own parts in `prepare`.
    """
    if part := service_part_of(configuration):
        return part
    raise HarnessError(
        "This memory cannot be checked: it has no add and search, and makes its own fixture parts",
        where=name,
        fix=f"Try it on the sample: longmemeval prepare --dataset sample --memory {name}",
    )


# An example of a memory as a file to start from, for `memory init`.


def write_example(file: Path) -> None:
    """Write an example memory, a class of thirty lines with two methods, as a Python module.

    Raises:
        HarnessError: the name is not that of a module, or the file exists.
    """
    if file.suffix != ".py" or not file.stem.isidentifier():
        raise HarnessError(
            "This is not the name of a Python module", where=str(file), fix="Name a file such as mymem.py"
        )
    if file.exists():
        raise HarnessError("The file already exists", where=str(file), fix="Choose another name")
    file.write_text(resources.files(__package__).joinpath("example.py.txt").read_text())
