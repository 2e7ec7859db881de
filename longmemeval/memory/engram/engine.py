"""The engine: add messages, then ask what holds, what held, and what was believed."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from longmemeval.core.event_loop import complete
from longmemeval.core.files import write_atomic
from longmemeval.errors import HarnessError
from longmemeval.llm.protocol import ChatModel
from longmemeval.memory.asking import gather_limited
from longmemeval.memory.engram.extraction.chat import Answered, Decisions, FactReader, Judge, Read
from longmemeval.memory.engram.extraction.rules import RuleExtractor
from longmemeval.memory.engram.parameters import canonical
from longmemeval.memory.engram.profiles import Profile, profile_of
from longmemeval.memory.engram.records import Claim, Episode, Fact
from longmemeval.memory.engram.stores.embedded import FollowedFacts
from longmemeval.memory.engram.stores.protocol import FactStore, When
from longmemeval.memory.engram.timeline import Decide, Ledger, Verdict
from longmemeval.records import Message, Session, Turn
from longmemeval.storage.part_files import FORMAT, decode_versioned

# Consolidation: a chat model reads waiting episodes into claims, session by session, and judges contradictions.

MAX_VERDICTS = 60
"""Maximum verdicts in one consolidation; further contradictions stay side by side, marked as disputed."""


class Consolidated(Struct, frozen=True):
    """The outcome of one consolidation."""

    sessions: int = 0
    claims: int = 0
    dropped: dict[str, int] = {}
    """Number of dropped facts by reason; `reply`: calls with unreadable replies; `verdict`: replies without a verdict;
    `date`: facts that were kept, but are dated by their session."""
    verdicts: dict[str, int] = {}
    """Number of contradictions that the model judged, by verdict."""
    notes: tuple[str, ...] = ()


class Learned(Struct, frozen=True):
    """A claim, and the moment it is learned."""

    claim: Claim
    now: datetime


class Unit(Struct, frozen=True):
    """The input of one call: episodes of one session."""

    before: Episode | None
    episodes: tuple[Episode, ...]


class Consolidation:
    """Reads sessions with a chat model.

    Args:
        model: answers the calls; its errors pass through, and sessions read before an error are not sent again.
        task: the instruction to the model; None: the shipped text.
    """

    def __init__(self, model: ChatModel, task: str | None = None) -> None:
        self._reader = FactReader(model, task)
        self._judge = Judge(model)
        self.model = model.spec
        self._read: dict[Unit, Read] = {}

    @property
    def recipe(self) -> dict[str, Any]:
        """The recipe of the facts, without the ledger's version."""
        return {**self._reader.recipe, **self._judge.recipe}

    async def read(
        self, units: Sequence[Unit], episodes: Mapping[str, Episode], ledger: Ledger, decisions: Decisions
    ) -> tuple[list[Learned], Consolidated]:
        """Read `units` and return their claims, in the order in which the ledger learns them.

        Args:
            units: one per session.
            episodes: all episodes by id, in order.
            ledger: the current knowledge; it is not changed.
            decisions: the decisions so far; the model's are added.
        """
        await gather_limited([partial(self._read_unit, unit) for unit in units if unit not in self._read])
        read = [self._read[unit] for unit in units]
        learned = by_episode((claim for result in read for claim in result.claims), episodes, ledger)
        answered = await self._settle(learned, episodes, ledger, decisions)
        self._read.clear()
        unreadable = [answer for answer in answered if answer.notes]
        dropped = sum((Counter(result.dropped) for result in read), Counter(verdict=len(unreadable)))
        return learned, Consolidated(
            len(units),
            len(learned),
            dict(sorted((+dropped).items())),
            dict(sorted(Counter(answer.verdict for answer in answered).items())),
            (
                *(note for result in read for note in result.notes),
                *(note for answer in unreadable for note in answer.notes),
            ),
        )

    async def _read_unit(self, unit: Unit) -> None:
        self._read[unit] = await self._reader.read(unit.episodes, unit.before)

    async def _settle(
        self, learned: Sequence[Learned], episodes: Mapping[str, Episode], ledger: Ledger, decisions: Decisions
    ) -> list[Answered]:
        """Ask about contradictions until a trial, which takes each verdict into account, finds no new one."""
        answered: list[Answered] = []
        while True:
            decisions.begin()
            trial = Ledger(decide=decisions)
            trial.restore(ledger.claims, ledger.store.versions())
            for step in learned:
                trial.add(step.claim, step.now)
            most = MAX_VERDICTS - len(answered)
            fresh = await self._judge.answer(decisions, most, lambda claim: _transcript(claim, episodes))
            if not fresh:
                return answered
            answered += fresh


def by_episode(claims: Iterable[Claim], episodes: Mapping[str, Episode], ledger: Ledger) -> list[Learned]:
    """Return claims in the order of the episodes that complete them, each learned with its episode or later.

    Args:
        claims: claims of the same episode are in their order.
        episodes: by id, in order.
        ledger: the current knowledge; nothing is learned earlier than the last thing it learned.
    """
    places = {episode_id: place for place, episode_id in enumerate(episodes)}
    versions = ledger.store.versions()
    now = max((at for fact in versions for at in (fact.created_at, fact.expired_at) if at), default=datetime.min)
    learned = []
    for claim in sorted(claims, key=lambda claim: places[claim.episode_ids[-1]]):
        now = max(now, episodes[claim.episode_ids[-1]].ingested_at)
        learned.append(Learned(claim, now))
    return learned


def units_of(waiting: Sequence[str], episodes: Mapping[str, Episode]) -> list[Unit]:
    """Return the units to read: the waiting episodes of each session, with the one before them."""
    last: dict[str, Episode] = {}
    before: dict[str, Episode | None] = {}
    wanted: dict[str, list[Episode]] = {}
    left = set(waiting)
    for episode in episodes.values():
        if episode.episode_id in left:
            before.setdefault(episode.session_id, last.get(episode.session_id))
            wanted.setdefault(episode.session_id, []).append(episode)
        last[episode.session_id] = episode
    return [Unit(before[session_id], tuple(found)) for session_id, found in wanted.items()]


def _transcript(claim: Claim, episodes: Mapping[str, Episode]) -> str:
    turns = (episodes[episode_id] for episode_id in claim.episode_ids)
    return "\n\n".join(f"{turn.speaker or turn.role}, {turn.event_at:%Y-%m-%d}: {turn.text}" for turn in turns)


class Extractor(Protocol):
    """Reads claims out of episodes."""

    def __call__(self, episode: Episode, before: Episode | None, known: Ledger) -> Iterable[Claim]:
        """Return the claims that `episode` makes.

        Args:
            episode: the episode to read.
            before: the previous episode of its session.
            known: everything learned so far.
        """
        ...


class Forgotten(Struct, frozen=True):
    """The episodes and facts that `Engine.forget` removed."""

    episode_ids: tuple[str, ...]
    facts: int
    """Facts with no version left."""
    waiting: int = 0
    """Messages that a chat model has to read (`Engine.consolidate`), including those of sessions that lost some."""


class EngramFile(Struct, frozen=True, omit_defaults=True):
    """The complete state of an engine, as stored."""

    format: int
    episodes: list[Episode]
    claims: list[Claim]
    facts: list[Fact]
    waiting: list[str] = []
    """Episodes that a chat model has not read yet."""
    read_by: str = ""
    """The chat model that read the other episodes; empty if rules did."""
    verdicts: dict[str, Verdict] = {}
    """The chat model's verdicts on contradictions, by a hash of the two claims."""


class Engine:
    """The episodes of one person, or of people who talk to each other, and the facts that follow.

    Args:
        path: the file of the engine, read if it exists; None: in memory only.
        extractor: reads claims; None: the rules.
        decide: called for contradictions that nothing else can settle.
        chat: reads waiting episodes at `consolidate` instead of the extractor; also decides, unless `decide` is given.
        store: the store that queries use; None: in memory. It follows additions and removals.

    Raises:
        FixtureError: the file is damaged or of a newer format.
    """

    def __init__(
        self,
        path: Path | str | None = None,
        extractor: Extractor | None = None,
        decide: Decide | None = None,
        chat: Consolidation | None = None,
        store: FactStore | None = None,
    ) -> None:
        self._path = Path(path) if path is not None else None
        self._extract: Extractor = extractor or RuleExtractor()
        self._chat = chat
        self._decisions = Decisions({})
        self._decide: Decide = decide or self._decisions
        self._followed = FollowedFacts(store) if store is not None else None
        self.changes = 0
        """A counter that increases with every addition and removal."""
        self._clear()
        if self._path and self._path.exists():
            self._read(self._path.read_bytes(), str(self._path))

    def _clear(self) -> None:
        self.changes += 1
        self.ledger = Ledger(decide=self._decide)
        self.episodes: list[Episode] = []
        self.waiting: list[str] = []
        """Ids of the episodes that the chat model has not read yet."""
        self.read_by = ""
        """The chat model that read the other episodes; empty if the extractor did."""
        self._last: dict[str, Episode] = {}
        self._counts: dict[str, int] = {}
        self._now: datetime | None = None
        self.latest: datetime | None = None
        """The last moment at which anything was said or learned."""

    def add(self, session: Session, learned_at: datetime | None = None) -> None:
        """Add the turns of a session, or more turns of a known one.

        Args:
            session: the turns and their date.
            learned_at: when the engine learns it; by default the date of the session. Learning never goes back in time:
                a session that arrives late is learned at the time of the last thing learned.
        """
        for turn in session.turns:
            number = self._counts.get(session.session_id, 0)
            known = (session.session_id, turn.role, turn.speaker, turn.content, session.date)
            self.take(Episode(f"{session.session_id}:{number}", *known, learned_at or session.date))

    def tell(self, text: str, date: datetime, speaker: str = "", session_id: str | None = None) -> None:
        """Add one message of the user; by default all messages of a day are one session."""
        turn = Turn("user", text, speaker)
        self.add(Session(session_id or f"{date:%Y-%m-%d}", date, f"{date:%Y-%m-%d}", (turn,)))

    def take(self, episode: Episode) -> None:
        """Add one episode; with a chat model it waits until `consolidate`."""
        now = max(episode.ingested_at, self._now or episode.ingested_at)
        episode = msgspec.structs.replace(episode, ingested_at=now)
        before = self._last.get(episode.session_id)
        self._note(episode)
        if self._chat:
            self.waiting.append(episode.episode_id)
            return
        for claim in self._extract(episode, before, self.ledger):
            self.ledger.add(claim, now)

    def consolidate(self) -> Consolidated:
        """Have the chat model read everything added since the last time, one call per session.

        Raises:
            ModelError, FatalModelError: a call failed. Sessions that were read are not sent again.
        """
        return complete(self.consolidation())

    async def consolidation(self) -> Consolidated:
        """Run `consolidate` in an event loop that is already running."""
        if not self._chat or not self.waiting:
            return Consolidated()
        episodes = {episode.episode_id: episode for episode in self.episodes}
        learned, outcome = await self._chat.read(
            units_of(self.waiting, episodes), episodes, self.ledger, self._decisions
        )
        for step in learned:
            self.ledger.add(step.claim, step.now)
        self.waiting.clear()
        self.read_by = self._chat.model
        self.changes += 1
        return outcome

    def _note(self, episode: Episode) -> None:
        self._now, self._last[episode.session_id] = episode.ingested_at, episode
        self.latest = max(episode.event_at, episode.ingested_at, self.latest or episode.event_at)
        self._counts[episode.session_id] = int(episode.episode_id.rpartition(":")[2]) + 1
        self.episodes.append(episode)
        self.changes += 1

    @property
    def fact_store(self) -> FactStore:
        """The store that queries use, up to date with everything learned.

        Raises:
            RecallError: a database does not answer.
        """
        followed = self._follow()
        return self.ledger.store if followed is None else followed

    def _follow(self) -> FactStore | None:
        return self._followed.now(self.ledger.store.versions()) if self._followed else None

    def facts(
        self,
        subject: str | None = None,
        predicate: str | None = None,
        *,
        as_of: datetime | None = None,
        believed_at: datetime | None = None,
    ) -> list[Fact]:
        """Return the facts that hold, oldest first.

        Args:
            subject: any name of the subject; None: all subjects.
            predicate: the predicate or an alias of it; None: all.
            as_of: the moment in the world; None: now, facts that still hold.
            believed_at: use what was believed at this moment; None: everything learned.
        """
        names = None if subject is None else self.ledger.aliases_of(subject)
        wanted = canonical(predicate) if predicate else None
        found = self.fact_store.facts(names, wanted, When(as_of, believed_at))
        holding = (fact for fact in found if as_of is not None or fact.invalid_at is None)
        return sorted(holding, key=lambda fact: fact.valid_at)

    def timeline(
        self, subject: str | None = None, predicate: str | None = None, *, believed_at: datetime | None = None
    ) -> list[Fact]:
        """Return all believed facts about a subject, including those that ended, by the time they began."""
        wanted = canonical(predicate) if predicate else None
        names = None if subject is None else self.ledger.aliases_of(subject)
        found = self.fact_store.facts(names, wanted, When(None, believed_at))
        return sorted(found, key=lambda fact: (fact.subject, fact.predicate, fact.valid_at))

    def near(
        self, name: str, hops: int = 2, *, as_of: datetime | None = None, believed_at: datetime | None = None
    ) -> dict[str, int]:
        """Return the people and things that facts connect with a person or thing, nearest first, with their distances.

        Args:
            name: any name of the person or thing.
            hops: the largest distance in the graph of facts.
            as_of: use the facts that hold at this moment in the world; None: including those that ended.
            believed_at: use what was believed at this moment; None: everything learned.
        """
        names = self.ledger.aliases_of(name)
        found = self.fact_store.distances(names, hops, When(as_of, believed_at))
        others = ((other, distance) for other, distance in found.items() if other not in names)
        return dict(sorted(others, key=lambda pair: pair[::-1]))

    def profile(self, subject: str, *, as_of: datetime | None = None, believed_at: datetime | None = None) -> Profile:
        """Return the facts that hold about a person, grouped by predicate.

        Args:
            subject: any name of the person.
            as_of: the moment in the world; None: now.
            believed_at: use what was believed at this moment; None: everything learned.
        """
        return profile_of(subject, self.facts(subject, as_of=as_of, believed_at=believed_at))

    def profiles(
        self,
        subject: str | None = None,
        predicate: str | None = None,
        *,
        as_of: datetime | None = None,
        believed_at: datetime | None = None,
    ) -> list[Profile]:
        """Return the profiles of all subjects about which a fact holds; the arguments filter as in `facts`."""
        by_subject: dict[str, list[Fact]] = {}
        for fact in self.facts(subject, predicate, as_of=as_of, believed_at=believed_at):
            by_subject.setdefault(subject or fact.subject, []).append(fact)
        return [profile_of(name, facts) for name, facts in by_subject.items()]

    def history(self, fact_id: str) -> list[Fact]:
        """Return all versions of one fact, in the order in which they were believed."""
        return [fact for fact in self.fact_store.versions() if fact.fact_id == fact_id]

    def forget(
        self, *, subject: str | None = None, session_id: str | None = None, before: datetime | None = None
    ) -> Forgotten:
        """Remove episodes and everything that follows from them, from file and stores too, as if never said.

        Args:
            subject: removes every episode that supports a fact about it, or mentions one of its names.
            session_id: removes every episode of the session.
            before: removes every episode said before.

        Raises:
            HarnessError: no argument is given.
        """
        if subject is None and session_id is None and before is None:
            raise HarnessError("forget() was not told what to forget", fix="Give a subject, a session_id or before=")
        gone = set[str]()
        if subject is not None:
            gone |= self._about(self.ledger.aliases_of(subject))
        for episode in self.episodes:
            if episode.session_id == session_id or (before is not None and episode.event_at < before):
                gone.add(episode.episode_id)
        facts = {fact.fact_id for fact in self.ledger.store.versions()}
        remaining = [episode for episode in self.episodes if episode.episode_id not in gone]
        removed = tuple(episode.episode_id for episode in self.episodes if episode.episode_id in gone)
        if self._chat or self.read_by:
            self._learn_again(
                remaining, {episode.session_id for episode in self.episodes if episode.episode_id in gone}
            )
        else:
            self._clear()
            for episode in remaining:
                self.take(episode)
        if self._path:
            self.save()
        # Databases drop the forgotten facts now, not at the next question.
        self._follow()
        left = {fact.fact_id for fact in self.ledger.store.versions()}
        return Forgotten(removed, len(facts - left), len(self.waiting))

    def _learn_again(self, remaining: Sequence[Episode], affected: set[str]) -> None:
        """Rebuild the ledger from the claims that a chat model has read, without calling it.

        Sessions that lost a message (`affected`) lose all their claims, since these may depend on it, and wait to be
        read again.
        """
        claims, waiting, read_by = self.ledger.claims, set(self.waiting), self.read_by
        whole = {episode.episode_id: episode for episode in remaining if episode.session_id not in affected}
        self._clear()
        for episode in remaining:
            self._note(episode)
        self.read_by = read_by
        ids = [episode.episode_id for episode in remaining]
        self.waiting = [episode_id for episode_id in ids if episode_id in waiting or episode_id not in whole]
        self._decisions.begin()
        for step in by_episode((claim for claim in claims if whole.keys() >= {*claim.episode_ids}), whole, self.ledger):
            self.ledger.add(step.claim, step.now)
        self._decisions.known = dict(self._decisions.used)

    def _about(self, names: Sequence[str]) -> set[str]:
        wanted = {name.casefold() for name in names}
        found = {
            episode_id
            for fact in self.ledger.store.versions()
            if fact.subject.casefold() in wanted or fact.object.casefold() in wanted
            for episode_id in fact.episode_ids
        }
        named = re.compile("|".join(rf"(?<!\w){re.escape(name)}(?!\w)" for name in names), re.IGNORECASE)
        mentions = (turn.episode_id for turn in self.episodes if named.search(f"{turn.speaker} {turn.text}"))
        return found | set(mentions)

    def persist(self) -> bytes:
        """Return the complete state as indented JSON; the same bytes for the same episodes in the same order."""
        read = self.waiting, self.read_by, dict(sorted(self._decisions.known.items()))
        file = EngramFile(FORMAT, self.episodes, self.ledger.claims, self.ledger.store.versions(), *read)
        return msgspec.json.format(msgspec.json.encode(file), indent=2) + b"\n"

    def save(self) -> None:
        """Write the file and bring the store up to date.

        Raises:
            HarnessError: the engine has no file.
            RecallError: a database does not answer; the file is written.
        """
        if self._path is None:
            raise HarnessError("This memory has no file", fix="Give it a path when you create it")
        write_atomic(self._path, self.persist())
        self._follow()

    def _read(self, data: bytes, where: str) -> None:
        file = decode_versioned(data, EngramFile, where)
        self._decisions.known = dict(file.verdicts)
        self.ledger.restore(file.claims, file.facts)
        for episode in file.episodes:
            self._note(episode)
        self.waiting, self.read_by = list(file.waiting), file.read_by


def replayed(messages: Iterable[Message], chat: Consolidation | None = None) -> Engine:
    """Replay a history: each message is learned when it was said, and becomes an episode with the same id."""
    engine = Engine(chat=chat)
    for message in messages:
        engine.take(episode_of(message))
    return engine


def episode_of(message: Message) -> Episode:
    """Return a message of a history as an episode that is learned when it was said."""
    speech = (message.role, message.speaker, message.content)
    return Episode(message.message_id, message.thread_id, *speech, message.created_at, message.created_at)
