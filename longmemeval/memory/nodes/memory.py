"""The memory system `typed-nodes`: entries of the nodes and the messages themselves, under one budget."""

from collections.abc import Sequence
from datetime import datetime, time
from typing import Any

from longmemeval.event_loop import in_thread
from longmemeval.memory.items import Hit, items_at, last_positions, with_neighbours
from longmemeval.memory.nodes.entries import Entry, text_of
from longmemeval.memory.nodes.library import load_nodes
from longmemeval.memory.nodes.parameters import NodeParameters
from longmemeval.memory.nodes.part import NodesPart, NodeVectors
from longmemeval.memory.nodes.rendered import RenderedBudget
from longmemeval.memory.nodes.search import EntrySearch, FoundEntry
from longmemeval.memory.protocol import MemoryTools
from longmemeval.memory.search import RankedSearch
from longmemeval.records import Question, Recall, RecalledItem
from longmemeval.retrieval.retriever import text_to_embed
from longmemeval.storage.fixture import Fixture
from longmemeval.storage.parts import Part


def node_parts(parameters: NodeParameters) -> tuple[Part[Any], ...]:
    """The messages with what ranks them, the entries and their vectors.

    Raises:
        HarnessError: the folder of nodes cannot be used.
    """
    entries = NodesPart(load_nodes(parameters.nodes))
    return (*parameters.ranking_parts, *parameters.dense_parts, entries, NodeVectors(entries))


class TypedNodes:
    """Recalls the best entries, and the best messages in what is left of the budget.

    Args:
        parameters: the knobs.
        tools: what the run lends.
    """

    def __init__(self, parameters: NodeParameters, tools: MemoryTools) -> None:
        self._parameters, self._count = parameters, tools.count_tokens
        self._nodes = NodesPart(load_nodes(parameters.nodes))
        self._templates = {node.name: node.shown for node in self._nodes.nodes.nodes}
        self._time_fields = {node.name: node.filters.time for node in self._nodes.nodes.nodes}
        self._entries = EntrySearch(self._nodes, NodeVectors(self._nodes), parameters, tools.embed_query)
        self._messages = RankedSearch("hybrid", parameters, tools.embed_query, tools.analyse)

    def texts_to_embed(self, question: Question, names: Sequence[str]) -> Sequence[str]:
        """What is embedded of `question`: for the entries the whole of it, for the messages as they are searched."""
        return [text_to_embed(question.text, names), *self._messages.texts_to_embed(question, names)]

    async def recall(self, question: Question, fixture: Fixture) -> Recall:
        """Entries first, then messages, both in time order."""
        return await in_thread(self._recall, question, fixture)

    def _recall(self, question: Question, fixture: Fixture) -> Recall:
        budget = RenderedBudget(self._parameters.budget, self._count)
        facts, notes = self._facts(question, fixture, budget)
        places, hits, left_out = self._chunks(question, fixture, budget)
        notes = (*notes, *self._messages.notes(question, fixture))
        if left_out:
            notes = (*notes, f"budget: {len(left_out)} messages left out, {self._parameters.budget} tokens allowed")
        return Recall(
            items=(*sorted(facts, key=lambda item: item.date or datetime.min), *items_at(fixture.memory, places, hits)),
            notes=notes,
            left_out_ids=tuple(fixture.memory.messages[place].message_id for place in left_out),
        )

    def _facts(
        self, question: Question, fixture: Fixture, budget: RenderedBudget
    ) -> tuple[list[RecalledItem], tuple[str, ...]]:
        """The best entries that fit their share, none that says what another has said."""
        if not self._parameters.entries or not self._parameters.entry_share:
            return [], ()
        ranked, notes = self._entries.ranked(question, fixture)
        facts: list[RecalledItem] = []
        told: list[Entry] = []
        for rank, found in enumerate(ranked, start=1):
            if len(facts) == self._parameters.entries:
                break
            if any(_repeats(found.entry, other) for other in told):
                continue
            item = self._item(found, rank)
            if not budget.take_fact(item, self._parameters.entry_share):
                break
            facts.append(item)
            told.append(found.entry)
        return facts, notes

    def _item(self, found: FoundEntry, rank: int) -> RecalledItem:
        entry = found.entry
        text = text_of(entry, self._templates[entry.node])
        day = entry.dates.get(self._time_fields[entry.node])
        return RecalledItem(
            kind="fact",
            text=f'{text} ("{entry.evidence}")' if self._parameters.show_evidence else text,
            date=datetime.combine(day.start, time()) if day else entry.said_at,
            message_ids=entry.message_ids,
            thread_ids=(entry.thread_id,),
            rank=rank,
            score=found.score,
        )

    def _chunks(
        self, question: Question, fixture: Fixture, budget: RenderedBudget
    ) -> tuple[set[int], dict[int, Hit], list[int]]:
        """Places of messages that fit the budget, why each was found, and those that did not fit."""
        if self._parameters.entry_share == 1:
            return set(), {}, []
        store = fixture.memory
        found = self._messages.rank(question, fixture, self._parameters.top_k)
        hits = {
            store.positions[one]: Hit(rank, unit.score)
            for rank, unit in enumerate(found, start=1)
            for one in unit.message_ids
        }
        windows = [
            with_neighbours(store, [store.positions[one] for one in unit.message_ids], self._parameters.message_range)
            for unit in found
        ]
        windows += [{place} for place in reversed(last_positions(store, self._parameters.last_messages))]
        places: set[int] = set()
        for window in windows:
            if not budget.take_messages([store.messages[place] for place in sorted(window - places)]):
                break
            places |= window
        wanted = set[int]().union(*windows)
        return places, hits, sorted(wanted - places)


def _repeats(one: Entry, other: Entry) -> bool:
    """Whether two entries were taken from the same words."""
    return one.message_ids == other.message_ids and (one.evidence in other.evidence or other.evidence in one.evidence)
