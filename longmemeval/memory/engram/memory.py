"""The memory systems `engram-lean` and `engram-full`: what the engine recalls for a question."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, time, timedelta

from longmemeval.event_loop import in_thread
from longmemeval.llm.tokens import Counted, TokenCounter
from longmemeval.memory.engram.assembly import Budget, distinct, fact_item, in_order, summary_item
from longmemeval.memory.engram.parameters import EngramParameters, LeanParameters
from longmemeval.memory.engram.part import FACTS
from longmemeval.memory.engram.predicates import Slot, slot_of
from longmemeval.memory.engram.ranking import FactRanker, FactView, Ranked, asks_now, believed, ranked, signals
from longmemeval.memory.engram.records import Fact
from longmemeval.memory.items import Hit, message_item
from longmemeval.memory.parameters import RetrievalParameters
from longmemeval.memory.protocol import MemoryTools
from longmemeval.memory.search import RankedSearch
from longmemeval.memory.token_counts import message_tokens
from longmemeval.records import Question, Recall, RecalledItem
from longmemeval.retrieval.fusion import fuse
from longmemeval.retrieval.retriever import text_to_embed
from longmemeval.storage.fixture import Fixture


@dataclass(frozen=True)
class _Found:
    """What was found for one question, nothing cut."""

    view: FactView
    facts: Ranked
    messages: list[tuple[str, float]]
    """Ids and scores, best first."""


class LeanEngram:
    """Facts, raw messages and summaries within a budget.

    Args:
        parameters: what is recalled.
        tools: the run's.
    """

    def __init__(self, parameters: LeanParameters, tools: MemoryTools) -> None:
        self._parameters = parameters
        self._tools = tools
        self._facts = FactRanker(parameters, tools.embed_query)
        hybrid = RetrievalParameters.model_validate({"last_messages": 0, "message_range": 0})
        self._search = RankedSearch("hybrid", hybrid, tools.embed_query)

    def texts_to_embed(self, question: Question, names: Sequence[str]) -> Sequence[str]:
        """The question, as it is embedded."""
        return [text_to_embed(question.text, names)]

    async def recall(self, question: Question, fixture: Fixture) -> Recall:
        """What fits the budget: facts first, then messages, then summaries; shown in the order of time."""
        return await in_thread(self._recall, question, fixture)

    def _recall(self, question: Question, fixture: Fixture) -> Recall:
        parameters = self._parameters
        found = self._find(question, fixture)
        best = max([score for _, score in found.messages[:1]] + found.facts.scores.tolist(), default=0.0)
        if best < parameters.abstain_below:
            return Recall((), notes=(f"engram: nothing scores {parameters.abstain_below:.4g} (best: {best:.4g})",))
        budget = Budget(parameters.budget, self._tools.count_tokens)
        items = [item for item in self._fact_items(question, found, fixture) if budget.take(item)]
        messages, left_out = _fitting(self._groups(found, fixture), budget)
        items += messages
        items += [item for item in self._summaries(found, fixture) if budget.take(item)]
        notes = (f"budget: {len(left_out)} messages left out, {parameters.budget} tokens allowed",) if left_out else ()
        return Recall(
            tuple(in_order(items, fixture.memory.positions.__getitem__)), notes=notes, left_out_ids=tuple(left_out)
        )

    def _find(self, question: Question, fixture: Fixture) -> _Found:
        parameters = self._parameters
        until = end_of_day(question.date) if parameters.as_of else None
        view = believed(fixture, until)
        if parameters.fusion == "published":
            parts = zip((1.0, 0.6), signals(question.text, fixture, self._tools.embed_query), strict=True)
            order = ranked(fuse(list(parts), "ranks"))
            messages = [
                (fixture.memory.messages[place].message_id, float(order.scores[place])) for place in order.order
            ]
        else:
            messages = [(unit.unit_id, unit.score) for unit in self._search.rank(question, fixture)]
        if until is not None:
            messages = [one for one in messages if fixture.memory.message(one[0]).created_at <= until]
        return _Found(view, self._facts.rank(question, view), messages)

    def _fact_items(self, question: Question, found: _Found, fixture: Fixture) -> list[RecalledItem]:
        """The best facts; where the question is not about what is so now, only those whose messages lack the room."""
        most = self._parameters.numbers().facts
        items = fact_items(found.view, found.facts, fixture)
        if self._parameters.fusion == "scores" and not asks_now(question.text) and most:
            alone = Budget(self._parameters.budget, self._tools.count_tokens)
            shown = {item.message_ids[0] for item in _fitting(self._groups(found, fixture), alone)[0]}
            items = [item for item in items if not shown.issuperset(item.message_ids)]
        return items[:most]

    def _groups(self, found: _Found, fixture: Fixture) -> list[list[RecalledItem]]:
        """Whole sessions, then single messages, best first."""
        numbers, store = self._parameters.numbers(), fixture.memory
        hits = {message_id: Hit(rank, score) for rank, (message_id, score) in enumerate(found.messages, start=1)}
        sessions = list(dict.fromkeys(store.message(message_id).thread_id for message_id in hits))[: numbers.sessions]
        groups = [
            [message_item(message, hits.get(message.message_id)) for message in store.messages_of(thread_id)]
            for thread_id in sessions
        ]
        chosen = list(hits.items())[: numbers.top_k]
        return groups + [[message_item(store.message(message_id), hit)] for message_id, hit in chosen]

    def _summaries(self, found: _Found, fixture: Fixture) -> list[RecalledItem]:
        """Of the sessions with the best messages, best first."""
        store = fixture.memory
        by_thread = {summary.thread_id: summary for summary in fixture.part(FACTS).summaries}
        threads = dict.fromkeys(store.message(message_id).thread_id for message_id, _ in found.messages)
        chosen = [by_thread[thread_id] for thread_id in threads if thread_id in by_thread]
        return [
            summary_item(summary, store.messages_of(summary.thread_id)[0].created_at)
            for summary in chosen[: self._parameters.numbers().summaries]
        ]


def _fitting(groups: Sequence[Sequence[RecalledItem]], budget: Budget) -> tuple[list[RecalledItem], list[str]]:
    """The first groups that fit a budget, each message once, and the ids of the messages that do not."""
    taken: dict[str, RecalledItem] = {}
    for place, group in enumerate(groups):
        fresh = [item for item in group if item.message_ids[0] not in taken]
        if not budget.take(*fresh):
            left = (item.message_ids[0] for rest in groups[place:] for item in rest)
            return list(taken.values()), [one for one in dict.fromkeys(left) if one not in taken]
        taken |= {item.message_ids[0]: item for item in fresh}
    return list(taken.values()), []


class FullEngram:
    """The best facts above the whole history.

    Args:
        parameters: which facts.
        tools: the run's.
    """

    def __init__(self, parameters: EngramParameters, tools: MemoryTools) -> None:
        self._parameters = parameters
        self._facts = FactRanker(parameters, tools.embed_query)

    async def recall(self, question: Question, fixture: Fixture) -> Recall:
        """Facts, and every message, oldest first."""
        return await in_thread(self._recall, question, fixture)

    def _recall(self, question: Question, fixture: Fixture) -> Recall:
        view = believed(fixture, end_of_day(question.date) if self._parameters.as_of else None)
        facts = fact_items(view, self._facts.rank(question, view), fixture)[: self._parameters.most_facts]
        return Recall((*facts, *(message_item(message) for message in fixture.memory.messages)))

    def known_tokens(self, counter: TokenCounter, fixture: Fixture, recall: Recall) -> Sequence[Counted] | None:
        """The tokens of the messages, as they were counted at prepare, behind those of the facts."""
        messages = message_tokens(counter, fixture)
        facts = [item for item in recall.items if item.kind == "fact"]
        return None if messages is None else [*(counter.counted(fact.text) for fact in facts), *messages]


def end_of_day(moment: datetime) -> datetime:
    """The last moment of a day: what is said on the day of the question counts as said before it."""
    return datetime.combine(moment.date(), time()) + timedelta(days=1, microseconds=-1)


def fact_items(view: FactView, order: Ranked, fixture: Fixture) -> list[RecalledItem]:
    """All facts as lines, best first, each text once."""
    slots: dict[Slot, list[Fact]] = {}
    for fact in view.facts:
        slots.setdefault(slot_of(fact.subject, fact.predicate, fact.object), []).append(fact)
    places = {
        fact.version_id: (rank, place)
        for rank, place in enumerate(order.order, start=1)
        for fact in [view.facts[place]]
    }
    chosen = distinct(view.facts[place] for place in order.order)
    return [
        fact_item(
            fact,
            slots[slot_of(fact.subject, fact.predicate, fact.object)],
            fixture.memory.message(fact.episode_ids[-1]).created_at,
            Hit(places[fact.version_id][0], float(order.scores[places[fact.version_id][1]])),
        )
        for fact in chosen
    ]
