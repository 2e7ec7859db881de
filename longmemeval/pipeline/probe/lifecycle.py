"""Try what only a memory that is added to can show: deleting, and how soon a message is found."""

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
from longmemeval.measures.aggregate import Mean
from longmemeval.memory.external.contract_check.scope import TriedScope
from longmemeval.memory.external.messages import Add
from longmemeval.memory.external.proxy.scope import ProxiedScope
from longmemeval.memory.external.transports.service import MemoryService
from longmemeval.memory.external.transports.transport import ServiceError
from longmemeval.records import Haystack, Message, RecalledItem, Session, Turn
from longmemeval.statistics.intervals import label_interval
from longmemeval.storage.messages import haystack_messages

CUTOFF, DEEPER = 10, 50
"""A statement is found among the first 10 items; a deleted one must not be among the first 50."""
_LOOKS_S = (0.0, 0.05, 0.2, 0.8)
"""Seconds between looks for a statement that a memory calls ready and does not show."""


class Written(Struct, frozen=True):
    """How soon one statement was found."""

    messages: int | None
    """Messages that had to be added after it; None: it was never found."""
    seconds: float | None = None
    """From the end of `add` until it was found, where no further message was needed."""


class Deleted(Struct, frozen=True):
    """What became of one deleted statement."""

    found: bool
    """Whether it was found before."""
    stays_away: bool
    """Whether it was found no more: after deleting, after a restart, and after another message on the subject."""
    others_stay: bool
    """Whether what was not to be deleted is still found."""

    @property
    def passed(self) -> bool:
        """Whether it was there, is gone, and took nothing with it."""
        return self.found and self.stays_away and self.others_stay


class Lifecycle(Struct, frozen=True):
    """What adding and deleting showed of one memory."""

    deletion: Mean | None = None
    """Share of the statements that were found, were deleted and did not come back; None: it cannot delete."""
    read_after_write: Mean | None = None
    """Share of the statements that were found before another message was added; None: it is not added to."""
    further_messages: int | None = None
    """Most messages after a statement until it was found; None: one was never found, or none was looked for."""
    found_after_ms: float | None = None
    """Median of the milliseconds until those were found that needed no further message."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Door:
    """A memory that is added to and searched.

    Args:
        service: what answers; closed by the caller.
        configuration: the user's parameters of the memory.
        offered: offers models to a scope of that name.
        place: tells apart what a service keeps for others.
    """

    service: MemoryService
    configuration: Mapping[str, Any] = field(default_factory=dict)
    offered: Callable[[str], AbstractContextManager[ProxiedScope | None]] = lambda scope: nullcontext()
    place: str = ""


def lifecycle(door: Door, lives: Mapping[str, tuple[Haystack, Life]]) -> Lifecycle:
    """Add each life session by session, look for its plain statements at once, delete some, and look again.

    Args:
        door: the memory.
        lives: histories with their truth, by id.

    Raises:
        HarnessError: no model can be called any more.
    """
    return complete(_all(door, lives))


async def _all(door: Door, lives: Mapping[str, tuple[Haystack, Life]]) -> Lifecycle:
    try:
        told = (await door.service.hello()).capabilities
        places = asyncio.Semaphore(told.max_parallel)

        async def try_life(number: int, name: str) -> "_Trial":
            async with places:
                return await _tried(door, number, name, *lives[name])

        trials = await asyncio.gather(*(try_life(number, name) for number, name in enumerate(lives)))
    except ServiceError as error:
        return Lifecycle(notes=(f"Adding and deleting could not be tried: {error}",))
    written = [(name, one) for name, trial in zip(lives, trials, strict=True) for one in trial.written]
    deleted = [(name, one.passed) for name, trial in zip(lives, trials, strict=True) for one in trial.deleted]
    needed = [one.messages for _, one in written]
    waited = [one.seconds * 1000 for _, one in written if one.seconds is not None]
    return Lifecycle(
        _share(deleted) if told.delete else None,
        _share([(name, one.messages == 0) for name, one in written]),
        None if None in needed else max(filter(None, needed), default=0),
        median(waited) if waited else None,
        tuple(dict.fromkeys(trial.failure for trial in trials if trial.failure)),
    )


def _share(passed: Sequence[tuple[str, bool]]) -> Mean:
    values = [float(one) for _, one in passed]
    interval, method = label_interval(values, [name for name, _ in passed])
    return Mean(sum(values) / len(values), len(values), 0, interval, method)


async def _tried(door: Door, number: int, name: str, haystack: Haystack, life: Life) -> "_Trial":
    """Return the trial of one life; what a failure left untried is not passed."""
    with TemporaryDirectory(prefix="longmemeval-probe-", ignore_cleanup_errors=True) as folder:
        trial = _Trial(door, name, haystack, life, Path(folder))
        with door.offered(trial.scope) as models:
            try:
                await trial.work(number, models)
            except ServiceError as error:
                trial.failure = f"Adding and deleting failed in a life: {error}"
            finally:
                with suppress(ServiceError):
                    await door.service.reset(trial.scope)
            if models:
                models.check()
    plain, deletions = len(trial.stated), len(trial.stated) - 1
    trial.written += [Written(None)] * (plain - len(trial.written))
    trial.deleted += [Deleted(False, False, False)] * (deletions - len(trial.deleted))
    return trial


class _Trial:
    """One life at the service."""

    def __init__(self, door: Door, name: str, haystack: Haystack, life: Life, folder: Path) -> None:
        self._service, self._door, self._folder, self._asked_on = door.service, door, folder, life.asked_on
        self.stated = [asked for asked in life.asked if asked.subject]
        later = tuple(Turn("user", asked.again) for asked in self.stated)
        last = Session("later", life.asked_on, "", later)
        history = haystack_messages(Haystack(haystack.haystack_id, (*haystack.sessions, last)))
        self._at = TriedScope(door.service, name, history, "probe", door.place, name)
        self._messages, self._ids, self.scope = self._at.messages, self._at.ids, self._at.id
        self._fields: dict[str, Any] = {}
        self.written: list[Written] = []
        self.deleted: list[Deleted] = []
        self.failure = ""

    async def work(self, number: int, models: ProxiedScope | None) -> None:
        """Try all; `number` decides which statement is not deleted."""
        self._fields = await asyncio.to_thread(lambda: models.fields) if models else {}
        hello = await self._service.hello()
        there = await self._open(self._folder / "first")
        if there or hello.capabilities.persist == "service":  # What an attempt that was killed left there.
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
        """Add a life, looking for each plain statement from the moment on at which it was added."""
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
        """Delete all plain statements but one, and look for them again and again."""
        kept = self.stated[number % len(self.stated)]
        gone = [asked for asked in self.stated if asked is not kept]
        found = [await self._finds(asked) for asked in self.stated]
        for asked in gone:
            await self._service.delete(self.scope, asked.subject)
        await self._service.ready(self.scope)
        away = [not await self._lingers(asked) for asked in gone]
        stay = await self._finds(kept) or not found[self.stated.index(kept)]
        if persist != "none":
            reference = (await self._service.snapshot(self.scope)).reference
            await asyncio.to_thread(shutil.copytree, self._folder / "first", self._folder / "second")
            await self._open(self._folder / "second", reference)
        for batch in later:
            away = [was and not await self._lingers(asked) for was, asked in zip(away, gone, strict=True)]
            await self._at.add(batch)
        await self._service.ready(self.scope)
        stay = stay and (await self._finds(kept) or not found[self.stated.index(kept)])
        for was, asked in zip(away, gone, strict=True):
            before = found[self.stated.index(asked)]
            self.deleted.append(Deleted(before, was and not await self._lingers(asked), stay))

    def _queries(self, asked: Asked) -> list[str]:
        return [asked.text, asked_text(asked, self._messages)]

    async def _finds(self, asked: Asked) -> bool:
        return await self._shows(asked, self._queries(asked), CUTOFF)

    async def _lingers(self, asked: Asked) -> bool:
        """Return whether anything of a statement is shown: its words, or an item that was made of it."""
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
    """Return the statement's own words, by which whoever has it finds it."""
    return next(message.content for message in messages if message.message_id == _message_id(asked))


def _message_id(asked: Asked) -> str:
    session, turn = asked.current
    return f"s{session}:{turn}"


def _says(item: RecalledItem, asked: Asked) -> bool:
    return matches(rf"(?<!\d){asked.answer}(?!\d)", item.text) is not None
