"""The memory systems `engram-lean` and `engram-full`, which recall facts and messages for a question."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from functools import cached_property
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from longmemeval.core.event_loop import in_thread
from longmemeval.llm.tokens import Counted, TokenCounter
from longmemeval.memory.definition import MemoryDefinition
from longmemeval.memory.engram.engine import Engine, episode_of
from longmemeval.memory.engram.parameters import EngramParameters, LeanParameters, Numbers
from longmemeval.memory.engram.part import FACT_VECTORS, FACTS
from longmemeval.memory.engram.recall import (
    FactRanker,
    FactView,
    Places,
    Ranked,
    asks_now,
    believed,
    by_position,
    fact_item,
    groups,
    moments,
    newest_first,
    ranked,
    signals,
    summary_item,
)
from longmemeval.memory.items import Hit, message_item
from longmemeval.memory.parameters import RetrievalParameters
from longmemeval.memory.protocol import MemoryTools
from longmemeval.memory.search import Budget, RankedSearch
from longmemeval.memory.token_counts import TOKENS, message_tokens
from longmemeval.ranking.fusion import fuse
from longmemeval.ranking.message_vectors import VECTORS
from longmemeval.ranking.retriever import text_to_embed
from longmemeval.ranking.word_counts import WORDS
from longmemeval.records import Question, Recall, RecalledItem
from longmemeval.storage.fixture import Fixture
from longmemeval.storage.messages_part import MESSAGES


@dataclass(frozen=True)
class _Found:
    """The facts and messages found for one question, before any cut."""

    fixture: Fixture
    view: FactView
    facts: Ranked
    messages: Ranked

    @cached_property
    def ranks(self) -> dict[int, int]:
        """The rank of each message that was found, by its position."""
        return {place: rank for rank, place in enumerate(self.messages.order.tolist(), start=1)}

    def threads(self) -> Iterator[str]:
        """Yield the sessions of the best messages, best first."""
        messages, found = self.fixture.memory.messages, set[str]()
        for place in self.messages.order:
            thread_id = messages[place].thread_id
            if thread_id not in found:
                found.add(thread_id)
                yield thread_id

    def item(self, place: int, rank: int | None) -> RecalledItem:
        """Return the message at a position as an item."""
        hit = Hit(rank, float(self.messages.scores[place])) if rank else None
        return message_item(self.fixture.memory.messages[place], hit)


class LeanEngram:
    """Facts, raw messages and summaries within a budget."""

    def __init__(self, parameters: LeanParameters, tools: MemoryTools) -> None:
        self._parameters = parameters
        self._tools = tools
        self._facts = FactRanker(parameters, tools.embed_query)
        hybrid = RetrievalParameters.model_validate({"last_messages": 0, "message_range": 0})
        self._search = RankedSearch("hybrid", hybrid, tools)

    def texts_to_embed(self, question: Question, names: Sequence[str]) -> Sequence[str]:
        """Return the question as it is embedded."""
        return [text_to_embed(question.text, names)]

    async def recall(self, question: Question, fixture: Fixture) -> Recall:
        """Return as many facts as fit the budget, then messages, then summaries; messages are shown in time order."""
        return await in_thread(self.recalled, question, fixture)

    def recalled(self, question: Question, fixture: Fixture) -> Recall:
        """Do the work of `recall`, without an event loop."""
        parameters = self._parameters
        found = self._find(question, fixture)
        best = max(found.messages.best, found.facts.best)
        if best < parameters.abstain_below:
            return Recall((), notes=(f"engram: nothing scores {parameters.abstain_below:.4g} (best: {best:.4g})",))
        budget = Budget(parameters.budget, self._tools.count_tokens)
        items = [item for item in self._fact_items(question, found) if budget.take(item)]
        messages, left_out = _fitting(found, parameters.numbers(), budget)
        items += messages.values()
        items += [item for item in _summaries(found, parameters.numbers().summaries) if budget.take(item)]
        notes = (f"budget: {len(left_out)} messages left out, {parameters.budget} tokens allowed",) if left_out else ()
        return Recall(
            tuple(by_position(items, fixture.memory.positions.__getitem__)), notes=notes, left_out_ids=tuple(left_out)
        )

    def _find(self, question: Question, fixture: Fixture) -> _Found:
        parameters = self._parameters
        until = end_of_day(question.date) if parameters.as_of else None
        view = believed(fixture, until, parameters.store, parameters.vectors)
        if parameters.fusion == "published":
            parts = zip((1.0, 0.6), signals(question.text, fixture, self._tools.embed_query), strict=True)
            messages = ranked(fuse(list(parts), "ranks"))
        else:
            order, scores = self._search.order(question, fixture)
            messages = Ranked(scores, order)
        if until is not None:
            times = fixture.cached(
                "engram said", lambda: moments(message.created_at for message in fixture.memory.messages)
            )
            known = times[messages.order] <= np.datetime64(until, "us")
            messages = Ranked(messages.scores, messages.order[known])
        if parameters.newest_first:
            messages = Ranked(messages.scores, _newest_first(messages.order, fixture))
        return _Found(fixture, view, self._facts.rank(question, view), messages)

    def _fact_items(self, question: Question, found: _Found) -> list[RecalledItem]:
        """Return the best facts.

        Facts whose messages fit the budget are left out, unless the question asks for the present state.
        """
        numbers = self._parameters.numbers()
        shown = None
        if self._parameters.fusion == "scores" and not asks_now(question.text) and found.view.facts and numbers.facts:
            budget = Budget(self._parameters.budget, self._tools.count_tokens)
            shown = np.zeros(len(found.fixture.memory.messages), np.bool_)
            shown[list(_fitting(found, numbers, budget)[0])] = True
        return fact_items(found.view, found.facts, found.fixture, numbers.facts, shown)


def _newest_first(order: Places, fixture: Fixture) -> Places:
    group = fixture.cached("engram versions", lambda: groups(fixture.memory.messages))
    times = fixture.cached("engram said", lambda: moments(message.created_at for message in fixture.memory.messages))
    age = fixture.cached("engram age", lambda: np.argsort(np.argsort(times, kind="stable"), kind="stable"))
    return newest_first(order, group, age)


def _fitting(found: _Found, numbers: Numbers, budget: Budget) -> tuple[dict[int, RecalledItem], list[str]]:
    """Return the messages that fit a budget: whole sessions first, then single messages, best first.

    Returns:
        The messages that fit, by position, and the ids of those that do not.
    """
    store = found.fixture.memory
    sessions = [
        [store.positions[message.message_id] for message in store.messages_of(thread_id)]
        for thread_id in islice(found.threads(), numbers.sessions)
    ]
    single = found.messages.order[: numbers.top_k]
    taken: dict[int, RecalledItem] = {}
    for session in sessions:
        fresh = {place: found.item(place, found.ranks.get(place)) for place in session if place not in taken}
        if not budget.take(*fresh.values()):
            break
        taken |= fresh
    else:
        for rank, place in enumerate(map(int, single), start=1):
            if place not in taken:
                item = found.item(place, rank)
                if not budget.take(item):
                    break
                taken[place] = item
        else:
            return taken, []
    ids = found.fixture.cached(
        "engram ids", lambda: np.array([message.message_id for message in store.messages], dtype=object)
    )
    if not sessions:
        return taken, ids[single[len(taken) :]].tolist()
    wanted = dict.fromkeys([place for session in sessions for place in session] + single.tolist())
    return taken, [ids[place] for place in wanted if place not in taken]


def _summaries(found: _Found, most: int) -> list[RecalledItem]:
    """Return summaries of the sessions with the best messages, best first."""
    if not most:
        return []
    by_thread = {summary.thread_id: summary for summary in found.fixture.part(FACTS).summaries}
    summarised = (thread_id for thread_id in found.threads() if thread_id in by_thread)
    return [
        summary_item(by_thread[thread_id], found.fixture.memory.messages_of(thread_id)[0].created_at)
        for thread_id in islice(summarised, most)
    ]


class FullEngram:
    """The best facts, then the whole history."""

    def __init__(self, parameters: EngramParameters, tools: MemoryTools) -> None:
        self._parameters = parameters
        self._facts = FactRanker(parameters, tools.embed_query)

    async def recall(self, question: Question, fixture: Fixture) -> Recall:
        """Return the best facts, then every message, oldest first."""
        return await in_thread(self._recall, question, fixture)

    def _recall(self, question: Question, fixture: Fixture) -> Recall:
        until = end_of_day(question.date) if self._parameters.as_of else None
        view = believed(fixture, until, self._parameters.store, self._parameters.vectors)
        facts = fact_items(view, self._facts.rank(question, view), fixture, self._parameters.most_facts)
        return Recall((*facts, *(message_item(message) for message in fixture.memory.messages)))

    def known_tokens(self, counter: TokenCounter, fixture: Fixture, recall: Recall) -> Sequence[Counted] | None:
        """Return the tokens of the facts, counted now, and those of the messages, counted at prepare."""
        messages = message_tokens(counter, fixture)
        facts = [item for item in recall.items if item.kind == "fact"]
        return None if messages is None else [*(counter.counted(fact.text) for fact in facts), *messages]


def end_of_day(moment: datetime) -> datetime:
    """Return the last moment of a day: anything said on the day of the question counts as said before it."""
    return datetime.combine(moment.date(), time()) + timedelta(days=1, microseconds=-1)


def fact_items(
    view: FactView, found: Ranked, fixture: Fixture, most: int, shown: NDArray[np.bool_] | None = None
) -> list[RecalledItem]:
    """Return the best facts as lines, best first, each text once.

    Args:
        view: the facts.
        found: the ranking of the facts.
        most: the maximum number of facts.
        shown: mask of messages shown anyway, shape (messages,); facts that follow from these alone are left out. None:
            no facts are left out.
    """
    order = view.distinct(found.order)
    if shown is not None:
        order = order[~view.covered_by(shown)[order]]
    ranks = np.empty(len(found.order), np.int64)
    ranks[found.order] = np.arange(1, len(ranks) + 1)
    return [
        fact_item(
            view.facts[place],
            int(view.siblings[place]),
            fixture.memory.message(view.facts[place].episode_ids[-1]).created_at,
            Hit(int(ranks[place]), float(found.scores[place])),
        )
        for place in order[:most].tolist()
    ]


# The presets of the engine.

LEAN = MemoryDefinition(
    "facts with two axes of time and the best raw messages, within a budget",
    LeanParameters,
    lambda parameters: (MESSAGES, WORDS, VECTORS, FACTS, FACT_VECTORS),
    LeanEngram,
)

FULL = MemoryDefinition(
    "the facts of engram-lean, then the whole haystack",
    EngramParameters,
    lambda parameters: (MESSAGES, TOKENS, VECTORS, FACTS, FACT_VECTORS),
    FullEngram,
)


# The engine as prepared in a fixture.


def prepared_engine(fixture: Fixture) -> Engine:
    """Return an engine with the facts of a fixture, for queries; without claims it cannot learn more.

    Raises:
        FixtureError: the fixture has no facts.
    """
    engine = Engine()
    engine.episodes = [episode_of(message) for message in fixture.memory.messages]
    engine.ledger.restore((), fixture.part(FACTS).facts)
    return engine
