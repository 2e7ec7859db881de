"""Recent messages, search and working memory, in any combination: six presets are cases of this one."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from longmemeval.memory.items import Hit, items_at, last_positions, with_neighbours
from longmemeval.memory.parameters import RetrievalParameters
from longmemeval.memory.protocol import RankedUnit
from longmemeval.memory.search import Search
from longmemeval.records import Question, Recall, RecalledItem
from longmemeval.storage.fixture import Fixture
from longmemeval.storage.memory_store import MemoryStore


@dataclass(frozen=True)
class CombinedMemory:
    """`last-k` and `working-memory`, which search nothing.

    Windows that overlap are merged; messages come in time order, the working-memory document before them.
    """

    last_messages: int
    working_memory: bool = False

    def recall(self, question: Question, fixture: Fixture) -> Recall:
        """Recall by the switches that are on."""
        items = items_at(fixture.memory, last_positions(fixture.memory, self.last_messages), {})
        return Recall(items=(*_document(fixture, self.working_memory), *items))


@dataclass(frozen=True)
class SearchingMemory:
    """`semantic-recall`, `combined`, `bm25` and `hybrid`: the same, with what a search finds."""

    parameters: RetrievalParameters
    search: Search
    count_tokens: Callable[[str], int]
    working_memory: bool = False

    def rank(self, question: Question, fixture: Fixture) -> list[RankedUnit]:
        """The whole history, best unit first."""
        return self.search.rank(question, fixture)

    def recall(self, question: Question, fixture: Fixture) -> Recall:
        """The best units with their neighbours, and the newest messages."""
        store, notes = fixture.memory, list(self.search.notes(question, fixture))
        found = self.search.rank(question, fixture, self.parameters.top_k)
        hits = {
            store.positions[message_id]: Hit(rank, unit.score)
            for rank, unit in enumerate(found, start=1)
            for message_id in unit.message_ids
        }
        document = _document(fixture, self.working_memory)
        windows = [with_neighbours(store, _places(unit, store), self.parameters.message_range) for unit in found]
        windows += [{place} for place in reversed(last_positions(store, self.parameters.last_messages))]
        wanted = places = set[int]().union(*windows)
        if self.parameters.budget is not None:
            spent = sum(self.count_tokens(item.text) for item in document)
            places = self._within_budget(windows, store, self.parameters.budget - spent)
        if left_out := sorted(wanted - places):
            notes.append(f"budget: {len(left_out)} messages left out, {self.parameters.budget} tokens allowed")
        return Recall(
            items=(*document, *items_at(store, places, hits)),
            notes=tuple(notes),
            left_out_ids=tuple(store.messages[place].message_id for place in left_out),
        )

    def _within_budget(self, windows: Sequence[set[int]], store: MemoryStore, left: int) -> set[int]:
        """The places of the first `windows` (ranked ones, then the newest messages) that fit `left` tokens together."""
        taken: set[int] = set()
        for window in windows:
            left -= sum(self.count_tokens(store.messages[place].content) for place in window - taken)
            if left < 0:
                break
            taken |= window
        return taken


def _places(unit: RankedUnit, store: MemoryStore) -> list[int]:
    return [store.positions[message_id] for message_id in unit.message_ids]


def _document(fixture: Fixture, wanted: bool) -> tuple[RecalledItem, ...]:
    """The working memory as an item. It was made from every thread, so it names all threads and no single message."""
    if not wanted:
        return ()
    store = fixture.memory
    item = RecalledItem(
        kind="working-memory",
        text=store.working_memory or "",
        date=store.messages[-1].created_at if store.messages else None,
        thread_ids=tuple(thread.id for thread in store.threads),
    )
    return (item,)
