"""What a chat model makes of episodes that wait to be read: claims by session, and a word on what contradicts them."""

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
"""Asked for in one consolidation; further contradictions stay side by side, marked."""


class Consolidated(Struct, frozen=True):
    """What came of one consolidation."""

    sessions: int = 0
    claims: int = 0
    dropped: dict[str, int] = {}
    """Facts that were not kept, by reason; `reply`: calls whose replies nobody could read; `verdict`: replies that are
    no verdict; `date`: facts that were kept, but are dated by their session."""
    verdicts: dict[str, int] = {}
    """Contradictions the model was asked about, by its word."""
    notes: tuple[str, ...] = ()


class Learned(Struct, frozen=True):
    """A claim, and when it is learned."""

    claim: Claim
    now: datetime


class Unit(Struct, frozen=True):
    """What is read with one call: episodes of one session."""

    before: Episode | None
    episodes: tuple[Episode, ...]


class Consolidation:
    """Reads sessions with a chat model.

    Args:
        model: answers the calls; its errors pass through, and what was read until then is not asked for again.
        task: what is asked for, in place of the shipped text.
    """

    def __init__(self, model: ChatModel, task: str | None = None) -> None:
        self._reader = FactReader(model, task)
        self._judge = Judge(model)
        self.model = model.spec
        self._read: dict[Unit, Read] = {}

    @property
    def recipe(self) -> dict[str, Any]:
        """What decides the facts, but for the ledger."""
        return {**self._reader.recipe, **self._judge.recipe}

    async def read(
        self, units: Sequence[Unit], episodes: Mapping[str, Episode], ledger: Ledger, decisions: Decisions
    ) -> tuple[list[Learned], Consolidated]:
        """The claims of `units`, as the ledger is to learn them.

        Args:
            units: one for each session.
            episodes: all there are, by id, in order.
            ledger: what is known; it is not changed.
            decisions: what was decided; the model's are added.
        """
        await gather_limited([partial(self._of_unit, unit) for unit in units if unit not in self._read])
        read = [self._read[unit] for unit in units]
        learned = in_order((claim for one in read for claim in one.claims), episodes, ledger)
        answered = await self._settled(learned, episodes, ledger, decisions)
        self._read.clear()
        unreadable = [one for one in answered if one.notes]
        dropped = sum((Counter(one.dropped) for one in read), Counter(verdict=len(unreadable)))
        return learned, Consolidated(
            len(units),
            len(learned),
            dict(sorted((+dropped).items())),
            dict(sorted(Counter(one.verdict for one in answered).items())),
            (*(note for one in read for note in one.notes), *(note for one in unreadable for note in one.notes)),
        )

    async def _of_unit(self, unit: Unit) -> None:
        self._read[unit] = await self._reader.read(unit.episodes, unit.before)

    async def _settled(
        self, learned: Sequence[Learned], episodes: Mapping[str, Episode], ledger: Ledger, decisions: Decisions
    ) -> list[Answered]:
        """Ask about contradictions until a trial, which takes each verdict into account, finds none that is new."""
        answered: list[Answered] = []
        while True:
            decisions.begin()
            trial = Ledger(decide=decisions)
            trial.restore(ledger.claims, ledger.store.versions())
            for one in learned:
                trial.add(one.claim, one.now)
            most = MAX_VERDICTS - len(answered)
            fresh = await self._judge.answer(decisions, most, lambda claim: _said(claim, episodes))
            if not fresh:
                return answered
            answered += fresh


def in_order(claims: Iterable[Claim], episodes: Mapping[str, Episode], ledger: Ledger) -> list[Learned]:
    """Claims in the order of the episodes that complete them, each learned with its episode or later.

    Args:
        claims: those of one episode in their order.
        episodes: by id, in order.
        ledger: what is known; nothing is learned before what it learned last.
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
    """What is to be read with one call each: the waiting episodes of each session, and the one before them."""
    last: dict[str, Episode] = {}
    before: dict[str, Episode | None] = {}
    wanted: dict[str, list[Episode]] = {}
    left = set(waiting)
    for one in episodes.values():
        if one.episode_id in left:
            before.setdefault(one.session_id, last.get(one.session_id))
            wanted.setdefault(one.session_id, []).append(one)
        last[one.session_id] = one
    return [Unit(before[session_id], tuple(found)) for session_id, found in wanted.items()]


def _said(claim: Claim, episodes: Mapping[str, Episode]) -> str:
    said = (episodes[one] for one in claim.episode_ids)
    return "\n\n".join(f"{one.speaker or one.role}, {one.event_at:%Y-%m-%d}: {one.text}" for one in said)
