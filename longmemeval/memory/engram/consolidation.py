"""Consolidation: a chat model reads waiting episodes into claims, session by session, and judges contradictions."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any

from msgspec import Struct

from longmemeval.llm.protocol import ChatModel
from longmemeval.memory.asking import gather_limited
from longmemeval.memory.engram.extraction.chat import FactReader, Read
from longmemeval.memory.engram.extraction.verdicts import Answered, Decisions, Judge
from longmemeval.memory.engram.ledger import Ledger
from longmemeval.memory.engram.records import Claim, Episode

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
        learned = in_order((claim for result in read for claim in result.claims), episodes, ledger)
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


def in_order(claims: Iterable[Claim], episodes: Mapping[str, Episode], ledger: Ledger) -> list[Learned]:
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
