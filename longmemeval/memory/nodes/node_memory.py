"""The memory system `typed-nodes`: entries of the nodes and the messages themselves, under one budget."""

from collections.abc import Callable, Sequence
from datetime import datetime, time
from typing import Any

from longmemeval.core.event_loop import in_thread
from longmemeval.core.text.quantities import weekday_of
from longmemeval.memory.items import Hit, items_at, last_positions, with_neighbours
from longmemeval.memory.nodes.entries import Entry, text_of
from longmemeval.memory.nodes.library import load_nodes
from longmemeval.memory.nodes.parameters import NodeParameters
from longmemeval.memory.nodes.part import NodesPart, NodeVectors
from longmemeval.memory.nodes.search import EntrySearch, FoundEntry
from longmemeval.memory.protocol import MemoryTools
from longmemeval.memory.search import RankedSearch
from longmemeval.ranking.retriever import text_to_embed
from longmemeval.records import Message, Question, Recall, RecalledItem
from longmemeval.storage.fixture import Fixture
from longmemeval.storage.memory_store import MemoryStore
from longmemeval.storage.parts import Part

_HEADINGS = "# Facts\n\n\n\n# Earlier messages\n\n"


class RenderedBudget:
    """The rest of a budget while a recall is assembled.

    Args:
        tokens: the budget; None: no bound.
        count: returns the tokens of a text.
    """

    def __init__(self, tokens: int | None, count: Callable[[str], int]) -> None:
        self._count, self._tokens = count, tokens
        self._spent = count(_HEADINGS)
        self._threads: set[str] = set()

    def take_fact(self, item: RecalledItem) -> bool:
        """Take a fact if it still fits; return whether it does."""
        return self._take(f"- {item.date:%Y-%m-%d}: {item.text}\n", 1.0)

    def take_messages(self, messages: Sequence[Message], share: float) -> bool:
        """Take messages that are shown together if they still fit `share` of the budget; return whether they do.

        The first message of a session adds the heading of its day.
        """
        new_threads = {
            message.thread_id: message.created_at for message in messages if message.thread_id not in self._threads
        }
        headings = (f"## {weekday_of(day)}, {day:%Y-%m-%d}\n\n{day:%H:%M}\n\n\n" for day in new_threads.values())
        lines = (f"{message.speaker or message.role}: {message.content}\n" for message in messages)
        taken = self._take("".join((*headings, *lines)), share)
        if taken:
            self._threads.update(new_threads)
        return taken

    def _take(self, text: str, share: float) -> bool:
        if self._tokens is None:
            return True
        spent = self._spent + self._count(text)
        if spent > share * self._tokens:
            return False
        self._spent = spent
        return True


def node_parts(parameters: NodeParameters) -> tuple[Part[Any], ...]:
    """Return the messages with the parts that rank them, the entries and their vectors.

    Raises:
        HarnessError: the folder of nodes cannot be used.
    """
    entries = NodesPart(load_nodes(parameters.nodes))
    return (*parameters.ranking_parts, *parameters.dense_parts, entries, NodeVectors(entries))


class TypedNodes:
    """Recalls the best entries, and the best messages in the rest of the budget.

    Args:
        parameters: numbers and weights of the recall.
        tools: from the run.
    """

    def __init__(self, parameters: NodeParameters, tools: MemoryTools) -> None:
        self._parameters, self._count = parameters, tools.count_tokens
        self._nodes = NodesPart(load_nodes(parameters.nodes))
        self._templates = {node.name: node.shown for node in self._nodes.nodes.nodes}
        self._time_fields = {node.name: node.filters.time for node in self._nodes.nodes.nodes}
        self._entries = EntrySearch(self._nodes, NodeVectors(self._nodes), parameters, tools.embed_query)
        self._messages = RankedSearch("hybrid", parameters, tools.embed_query, tools.analyse)

    def texts_to_embed(self, question: Question, names: Sequence[str]) -> Sequence[str]:
        """Return the texts to embed for `question`: the whole for the entries, then those for searching messages."""
        return [text_to_embed(question.text, names), *self._messages.texts_to_embed(question, names)]

    def ingredients(self, question: Question, fixture: Fixture) -> dict[str, dict[str, float]]:
        """Return the ingredients of the score of each of the best messages, by message id; entries have none."""
        found = self._messages.rank(question, fixture, self._parameters.top_k)
        explained = zip(found, self._messages.ingredients(question, fixture, found), strict=True)
        return {message_id: parts for unit, parts in explained for message_id in unit.message_ids}

    async def recall(self, question: Question, fixture: Fixture) -> Recall:
        """Return entries first, then messages, both in time order."""
        return await in_thread(self._recall, question, fixture)

    def _recall(self, question: Question, fixture: Fixture) -> Recall:
        store, share = fixture.memory, self._parameters.entry_share
        budget = RenderedBudget(self._parameters.budget, self._count)
        windows, hits = self._windows(question, fixture)
        # Messages first, up to their share; then entries that add to them; messages again in what is left.
        fitting = self._fitting(windows, store, budget, 1 - share)
        facts, notes = self._facts(question, fixture, budget, set[int]().union(*windows[:fitting]))
        fitting += self._fitting(windows[fitting:], store, budget, 1.0)
        places = set[int]().union(*windows[:fitting])
        left_out = sorted(set[int]().union(*windows) - places)
        notes = (*notes, *self._messages.notes(question, fixture))
        if left_out:
            notes = (*notes, f"budget: {len(left_out)} messages left out, {self._parameters.budget} tokens allowed")
        return Recall(
            items=(*sorted(facts, key=lambda item: item.date or datetime.min), *items_at(store, places, hits)),
            notes=notes,
            left_out_ids=tuple(store.messages[place].message_id for place in left_out),
        )

    def _windows(self, question: Question, fixture: Fixture) -> tuple[list[set[int]], dict[int, Hit]]:
        """Return windows, best first, and the hit of each message found.

        A window contains the positions of a message found and of its neighbours, without those of earlier windows.
        """
        if self._parameters.entry_share == 1:
            return [], {}
        store = fixture.memory
        found = self._messages.rank(question, fixture, self._parameters.top_k)
        places = [[store.positions[message_id] for message_id in unit.message_ids] for unit in found]
        hits = {
            place: Hit(rank, unit.score)
            for rank, (unit, positions) in enumerate(zip(found, places, strict=True), start=1)
            for place in positions
        }
        windows = [with_neighbours(store, positions, self._parameters.message_range) for positions in places]
        windows += [{place} for place in reversed(last_positions(store, self._parameters.last_messages))]
        taken: set[int] = set()
        for number, window in enumerate(windows):
            windows[number] = window - taken
            taken |= window
        return windows, hits

    def _fitting(self, windows: Sequence[set[int]], store: MemoryStore, budget: RenderedBudget, share: float) -> int:
        """Return how many `windows`, from the first, fit `share` of the budget."""
        for number, window in enumerate(windows):
            if not budget.take_messages([store.messages[place] for place in sorted(window)], share):
                return number
        return len(windows)

    def _facts(
        self, question: Question, fixture: Fixture, budget: RenderedBudget, shown: set[int]
    ) -> tuple[list[RecalledItem], tuple[str, ...]]:
        """Return the best entries that fit, except those that repeat another entry or the messages at `shown`."""
        if not self._parameters.entries or not self._parameters.entry_share:
            return [], ()
        ranked, notes = self._entries.ranked(question, fixture)
        shown_ids = {fixture.memory.messages[place].message_id for place in shown}
        facts: list[RecalledItem] = []
        recalled: list[Entry] = []
        for rank, found in enumerate(ranked, start=1):
            if len(facts) == self._parameters.entries:
                break
            if self._is_redundant(found.entry, shown_ids) or any(_repeats(found.entry, other) for other in recalled):
                continue
            item = self._item(found, rank)
            if not budget.take_fact(item):
                break
            facts.append(item)
            recalled.append(found.entry)
        return facts, notes

    def _is_redundant(self, entry: Entry, shown_ids: set[str]) -> bool:
        """Return whether the shown messages say everything that an entry does; a resolved day says more."""
        return not entry.dates and shown_ids.issuperset(entry.message_ids)

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


def _repeats(entry: Entry, other: Entry) -> bool:
    """Tell whether two entries were taken from the same words."""
    same_words = entry.evidence in other.evidence or other.evidence in entry.evidence
    return entry.message_ids == other.message_ids and same_words
