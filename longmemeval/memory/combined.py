"""Recent messages, search and working memory in any combination, the base of six presets."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from longmemeval.core.event_loop import in_thread
from longmemeval.memory.budget import Budget
from longmemeval.memory.items import Hit, items_at, last_positions, with_neighbours
from longmemeval.memory.parameters import RetrievalParameters
from longmemeval.memory.search import Search
from longmemeval.memory.working_memory.part import DOCUMENT
from longmemeval.ranking.history import RankedUnit
from longmemeval.records import Question, Recall, RecalledItem
from longmemeval.storage.fixture import Fixture
from longmemeval.storage.memory_store import MemoryStore


@dataclass(frozen=True)
class CombinedMemory:
    """The memory of `last-k` and `working-memory`, which do not search.

    Messages come in time order, after the working-memory document.
    """

    last_messages: int
    working_memory: bool = False

    async def recall(self, question: Question, fixture: Fixture) -> Recall:
        """Return the newest messages, and the working-memory document if it is on."""
        return await in_thread(self._recall, fixture)

    def _recall(self, fixture: Fixture) -> Recall:
        items = items_at(fixture.memory, last_positions(fixture.memory, self.last_messages), {})
        return Recall(items=(*_document(fixture, self.working_memory), *items))


@dataclass(frozen=True)
class SearchingMemory:
    """The memory of `semantic-recall`, `combined`, `bm25` and `hybrid`: search hits besides the newest messages.

    Overlapping windows are merged; messages come in time order, after the working-memory document.
    """

    parameters: RetrievalParameters
    search: Search
    count_tokens: Callable[[str], int]
    working_memory: bool = False

    def rank(self, question: Question, fixture: Fixture) -> list[RankedUnit]:
        """Return all units of the history, best first; with a budget, those that fit it with their neighbours."""
        ranked = self.search.rank(question, fixture)
        if self.parameters.budget is None:
            return ranked
        return ranked[: self._fitting(self._windows(ranked, fixture.memory), fixture)]

    def ingredients(self, question: Question, fixture: Fixture) -> dict[str, dict[str, float]]:
        """Return the ingredients of the score of each message of the best `top_k` units, by message id."""
        found = self.search.rank(question, fixture, self.parameters.top_k)
        explained = zip(found, self.search.ingredients(question, fixture, found), strict=True)
        return {message_id: parts for unit, parts in explained for message_id in unit.message_ids}

    def texts_to_embed(self, question: Question, names: Sequence[str]) -> Sequence[str]:
        """Return the texts that the search embeds for `question`."""
        return self.search.texts_to_embed(question, names)

    async def recall(self, question: Question, fixture: Fixture) -> Recall:
        """Return the best units with their neighbours, and the newest messages."""
        return await in_thread(self._recall, question, fixture)

    def _recall(self, question: Question, fixture: Fixture) -> Recall:
        store, notes = fixture.memory, list(self.search.notes(question, fixture))
        found = self.search.rank(question, fixture, self.parameters.top_k)
        hits = {
            store.positions[message_id]: Hit(rank, unit.score)
            for rank, unit in enumerate(found, start=1)
            for message_id in unit.message_ids
        }
        windows = self._windows(found, store)
        windows += [{place} for place in reversed(last_positions(store, self.parameters.last_messages))]
        wanted = set[int]().union(*windows)
        places = set[int]().union(*windows[: self._fitting(windows, fixture)])
        if left_out := sorted(wanted - places):
            notes.append(f"budget: {len(left_out)} messages left out, {self.parameters.budget} tokens allowed")
        return Recall(
            items=(*_document(fixture, self.working_memory), *items_at(store, places, hits)),
            notes=tuple(notes),
            left_out_ids=tuple(store.messages[place].message_id for place in left_out),
        )

    def _windows(self, units: Sequence[RankedUnit], store: MemoryStore) -> list[set[int]]:
        """Return for each unit the positions of its messages and of their neighbours."""
        places = ([store.positions[message_id] for message_id in unit.message_ids] for unit in units)
        return [with_neighbours(store, positions, self.parameters.message_range) for positions in places]

    def _fitting(self, windows: Sequence[set[int]], fixture: Fixture) -> int:
        """Return how many `windows` fit the budget after the working-memory document; without a budget, all."""
        if self.parameters.budget is None:
            return len(windows)
        budget = Budget(self.parameters.budget, self.count_tokens)
        if not budget.take(*_document(fixture, self.working_memory)):
            return 0
        taken: set[int] = set()
        for number, window in enumerate(windows):
            if not budget.take(*items_at(fixture.memory, window - taken, {})):
                return number
            taken |= window
        return len(windows)


def _document(fixture: Fixture, wanted: bool) -> tuple[RecalledItem, ...]:
    """Return the working memory as an item; its source is all threads and no single message."""
    if not wanted:
        return ()
    store = fixture.memory
    item = RecalledItem(
        kind="working-memory",
        text=fixture.part(DOCUMENT),
        date=store.messages[-1].created_at if store.messages else None,
        thread_ids=tuple(thread.id for thread in store.threads),
    )
    return (item,)
