"""Try deletion, and how soon a message is found, which only a memory with `add` can show."""

import asyncio
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from re import search as matches
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

from msgspec import Struct

from longmemeval.benchmarks.lives.making import Asked, Life
from longmemeval.core.event_loop import complete
from longmemeval.measures.notation import Mean
from longmemeval.memory.external.contract_check import TriedScope
from longmemeval.memory.external.messages import Add
from longmemeval.memory.external.proxy.server import ProxiedScope
from longmemeval.memory.external.transports.service import MemoryService
from longmemeval.memory.external.transports.transport import ServiceError
from longmemeval.records import Haystack, Message, RecalledItem, Session, Turn
from longmemeval.statistics.intervals import label_interval
from longmemeval.storage.messages import haystack_messages

CUTOFF, DEEPER = 10, 50
"""Found means among the first 10 items; a deleted statement must not be among the first 50."""
_LOOKS_S = (0.0, 0.05, 0.2, 0.8)
"""Seconds between searches for a statement that a memory reports as ready but does not show."""


class Written(Struct, frozen=True):
    """The delay until one statement was found."""

    messages: int | None
    """Messages that had to be added after the statement; None: it was never found."""
    seconds: float | None = None
    """Seconds from the end of `add` until it was found, if no further message was needed."""


class Deleted(Struct, frozen=True):
    """The outcome of deleting one statement."""

    found: bool
    """True if the statement was found before."""
    stays_away: bool
    """True if it was not found after deleting, after a restart, and after another message on the subject."""
    others_stay: bool
    """True if statements that were not to be deleted are still found."""

    @property
    def passed(self) -> bool:
        """True if the statement was found, was deleted, and nothing else was lost."""
        return self.found and self.stays_away and self.others_stay


class Lifecycle(Struct, frozen=True):
    """The results of adding to one memory and deleting from it."""

    deletion: Mean | None = None
    """Share of the statements that were found, were deleted and did not come back; None: the memory cannot delete."""
    read_after_write: Mean | None = None
    """Share of the statements that were found before another message was added; None: the memory has no `add`."""
    further_messages: int | None = None
    """Most messages after a statement until it was found; None: one was never found, or none was looked for."""
    found_after_ms: float | None = None
    """Median of the milliseconds until those were found that needed no further message."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class WritableMemory:
    """A memory with `add` and `search`.

    Args:
        service: the service that answers; the caller closes it.
        configuration: the user's parameters of the memory.
        offered: offers models to a scope of that name.
        place: separates the data from those that a service stores for others.
    """

    service: MemoryService
    configuration: Mapping[str, Any] = field(default_factory=dict)
    offered: Callable[[str], AbstractContextManager[ProxiedScope | None]] = lambda scope: nullcontext()
    place: str = ""


def lifecycle(memory: WritableMemory, lives: Mapping[str, tuple[Haystack, Life]]) -> Lifecycle:
    """Add each life session by session, search its plain statements at once, delete some, and search again.

    Args:
        lives: histories with their truth, by id.

    Raises:
        HarnessError: no model can be called any more.
    """
    return complete(_all(memory, lives))


async def _all(memory: WritableMemory, lives: Mapping[str, tuple[Haystack, Life]]) -> Lifecycle:
    try:
        capabilities = (await memory.service.hello()).capabilities
        places = asyncio.Semaphore(capabilities.max_parallel)

        async def try_life(number: int, name: str) -> "_Trial":
            async with places:
                return await _tried(memory, number, name, *lives[name])

        trials = await asyncio.gather(*(try_life(number, name) for number, name in enumerate(lives)))
    except ServiceError as error:
        return Lifecycle(notes=(f"Adding and deleting could not be tried: {error}",))
    written = [(name, statement) for name, trial in zip(lives, trials, strict=True) for statement in trial.written]
    deleted = [
        (name, statement.passed) for name, trial in zip(lives, trials, strict=True) for statement in trial.deleted
    ]
    needed = [statement.messages for _, statement in written]
    waited = [statement.seconds * 1000 for _, statement in written if statement.seconds is not None]
    return Lifecycle(
        _share(deleted) if capabilities.delete else None,
        _share([(name, statement.messages == 0) for name, statement in written]),
        None if None in needed else max(filter(None, needed), default=0),
        median(waited) if waited else None,
        tuple(dict.fromkeys(trial.failure for trial in trials if trial.failure)),
    )


def _share(passed: Sequence[tuple[str, bool]]) -> Mean:
    values = [float(outcome) for _, outcome in passed]
    interval, method = label_interval(values, [name for name, _ in passed])
    return Mean(sum(values) / len(values), len(values), 0, interval, method)


async def _tried(memory: WritableMemory, number: int, name: str, haystack: Haystack, life: Life) -> "_Trial":
    """Return the trial of one life; anything that a failure left untried counts as not passed."""
    with TemporaryDirectory(prefix="longmemeval-probe-", ignore_cleanup_errors=True) as folder:
        trial = _Trial(memory, name, haystack, life, Path(folder))
        with memory.offered(trial.scope) as models:
            try:
                await trial.work(number, models)
            except ServiceError as error:
                trial.failure = f"Adding and deleting failed in a life: {error}"
            finally:
                with suppress(ServiceError):
                    await memory.service.reset(trial.scope)
            if models:
                models.check()
    plain, deletions = len(trial.stated), len(trial.stated) - 1
    trial.written += [Written(None)] * (plain - len(trial.written))
    trial.deleted += [Deleted(False, False, False)] * (deletions - len(trial.deleted))
    return trial


class _Trial:
    """The trial of one life at the service."""

    def __init__(self, memory: WritableMemory, name: str, haystack: Haystack, life: Life, folder: Path) -> None:
        self._service, self._door, self._folder, self._asked_on = memory.service, memory, folder, life.asked_on
        self.stated = [asked for asked in life.asked if asked.subject]
        later = tuple(Turn("user", asked.again) for asked in self.stated)
        last = Session("later", life.asked_on, "", later)
        history = haystack_messages(Haystack(haystack.haystack_id, (*haystack.sessions, last)))
        self._at = TriedScope(memory.service, name, history, "probe", memory.place, name)
        self._messages, self._ids, self.scope = self._at.messages, self._at.ids, self._at.id
        self._fields: dict[str, Any] = {}
        self.written: list[Written] = []
        self.deleted: list[Deleted] = []
        self.failure = ""

    async def work(self, number: int, models: ProxiedScope | None) -> None:
        """Try everything; `number` decides which statement is not deleted."""
        self._fields = await asyncio.to_thread(lambda: models.fields) if models else {}
        hello = await self._service.hello()
        opened = await self._open(self._folder / "first")
        if opened or hello.capabilities.persist == "service":  # Left there by an attempt that was killed.
            with suppress(ServiceError):
                await self._service.reset(self.scope)
        sent = await self._at.batches()
        later = self._ids.sessions["later"]
        await self._write([batch for batch in sent if batch.session.id != later])
        if hello.capabilities.delete:
            await self._delete(
                number, [batch for batch in sent if batch.session.id == later], hello.capabilities.persist
            )

    async def _open(self, folder: Path, reference: str = "") -> tuple[str, ...]:
        return await self._at.open(folder, self._door.configuration, self._fields, reference)

    async def _write(self, sent: Sequence[Add]) -> None:
        """Add a life, searching for each plain statement from the moment it was added."""
        by_message = {self._ids.messages[_message_id(asked)]: asked for asked in self.stated}
        missing: list[tuple[Asked, int]] = []
        for batch in sent:
            await self._at.add(batch)
            missing = [(asked, since + len(batch.session.messages)) for asked, since in missing]
            fresh = [by_message[message.id] for message in batch.session.messages if message.id in by_message]
            for asked, since in list(missing):
                if await self._shows(asked, [asked_text(asked, self._messages)], CUTOFF):
                    self.written.append(Written(since))
                    missing.remove((asked, since))
            for asked in fresh:
                seconds = await self._until_found(asked)
                if seconds is None:
                    missing.append((asked, 0))
                else:
                    self.written.append(Written(0, seconds))
        await self._service.ready(self.scope)
        self.written += [Written(None) for _ in missing]

    async def _until_found(self, asked: Asked) -> float | None:
        began, wanted = perf_counter(), [asked_text(asked, self._messages)]
        if await self._shows(asked, wanted, CUTOFF):
            return perf_counter() - began
        await self._service.ready(self.scope)
        for wait in _LOOKS_S:
            await asyncio.sleep(wait)
            if await self._shows(asked, wanted, CUTOFF):
                return perf_counter() - began
        return None

    async def _delete(self, number: int, later: Sequence[Add], persist: str) -> None:
        """Delete all plain statements but one, and search for them repeatedly."""
        spared = self.stated[number % len(self.stated)]
        deleted = [asked for asked in self.stated if asked is not spared]
        found = [await self._finds(asked) for asked in self.stated]
        for asked in deleted:
            await self._service.delete(self.scope, asked.subject)
        await self._service.ready(self.scope)
        away = [not await self._lingers(asked) for asked in deleted]
        stay = await self._finds(spared) or not found[self.stated.index(spared)]
        if persist != "none":
            reference = (await self._service.snapshot(self.scope)).reference
            await asyncio.to_thread(shutil.copytree, self._folder / "first", self._folder / "second")
            await self._open(self._folder / "second", reference)
        for batch in later:
            away = [was and not await self._lingers(asked) for was, asked in zip(away, deleted, strict=True)]
            await self._at.add(batch)
        await self._service.ready(self.scope)
        stay = stay and (await self._finds(spared) or not found[self.stated.index(spared)])
        for was, asked in zip(away, deleted, strict=True):
            before = found[self.stated.index(asked)]
            self.deleted.append(Deleted(before, was and not await self._lingers(asked), stay))

    def _queries(self, asked: Asked) -> list[str]:
        return [asked.text, asked_text(asked, self._messages)]

    async def _finds(self, asked: Asked) -> bool:
        return await self._shows(asked, self._queries(asked), CUTOFF)

    async def _lingers(self, asked: Asked) -> bool:
        """Return whether anything of a statement is shown: its words, or an item made from it."""
        for query in self._queries(asked):
            for item in await self._at.search(query, self._asked_on, DEEPER):
                if _says(item, asked) or _message_id(asked) in item.message_ids:
                    return True
        return False

    async def _shows(self, asked: Asked, queries: Sequence[str], limit: int) -> bool:
        for query in queries:
            if any(_says(item, asked) for item in await self._at.search(query, self._asked_on, limit)):
                return True
        return False


def asked_text(asked: Asked, messages: Sequence[Message]) -> str:
    """Return the statement's own words, which must find it if it is stored."""
    return next(message.content for message in messages if message.message_id == _message_id(asked))


def _message_id(asked: Asked) -> str:
    session, turn = asked.current
    return f"s{session}:{turn}"


def _says(item: RecalledItem, asked: Asked) -> bool:
    return matches(rf"(?<!\d){asked.answer}(?!\d)", item.text) is not None
