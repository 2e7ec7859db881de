"""The memory systems `typed-nodes` and `statements`: entries of nodes and the messages, under one budget."""

import re
from collections.abc import Callable, Sequence
from datetime import date, datetime, time
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from msgspec import Struct
from pydantic import BeforeValidator, Field, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

from longmemeval.core.arrays import Vector
from longmemeval.core.event_loop import in_thread
from longmemeval.core.text.dates_in_text.phrases import TimeRange, resolve_range
from longmemeval.core.text.quantities import weekday_of
from longmemeval.memory.definition import MemoryDefinition
from longmemeval.memory.items import Hit, items_at, last_positions, with_neighbours
from longmemeval.memory.nodes.library import load_nodes
from longmemeval.memory.nodes.part import NodesPart, NodeVectors
from longmemeval.memory.nodes.schema import Entry, text_of
from longmemeval.memory.parameters import RANKED_ONLY, RetrievalParameters
from longmemeval.memory.protocol import MemoryTools
from longmemeval.memory.search import RankedSearch
from longmemeval.ranking.dense import DenseIndex
from longmemeval.ranking.fusion import fuse, order
from longmemeval.ranking.history import HistoryView, RankedUnit, Scores
from longmemeval.ranking.lexical import LexicalIndex, LexicalParameters, Priors, without_names
from longmemeval.ranking.questions import apply_range, in_range
from longmemeval.ranking.retriever import text_to_embed
from longmemeval.records import Message, Question, Recall, RecalledItem
from longmemeval.storage.fixture import Fixture
from longmemeval.storage.memory_store import MemoryStore, entry_store
from longmemeval.storage.messages_part import MESSAGES
from longmemeval.storage.parts import Part

# The parameters of `typed-nodes` and `statements`.

_OffIfFalse = BeforeValidator(lambda value: "off" if value is False else value)


class NodeParameters(RetrievalParameters):
    """Parameters of `typed-nodes`: those of a search of the messages, and those of the entries."""

    shipped: ClassVar[str] = "nodes"
    """The set of nodes if no folder is named."""

    last_messages: int = Field(0, ge=0)
    message_range: int = Field(0, ge=0)
    nodes: str | None = None
    """A folder with one YAML file per node; without it, the nodes that the preset comes with."""
    entries: int = Field(15, ge=0)
    """Maximum number of entries to recall, best first; 0: messages only."""
    entry_share: float = Field(0.3, ge=0, le=1)
    """Share of the budget for entries, which add what the messages do not say. 1: entries only."""
    entry_time: Annotated[Literal["off", "boost", "filter"], _OffIfFalse] = "filter"
    """Use of a time the question names: entries of those days move up, or all others are left out."""
    entry_people: float = Field(0.2, ge=0)
    """Bonus for entries about a person the question names."""
    show_evidence: bool = False
    """Show each entry with the words that prove it."""

    @property
    def entries_part(self) -> NodesPart:
        """The part with the entries.

        Raises:
            HarnessError: the folder of nodes cannot be used.
        """
        return NodesPart(load_nodes(self.nodes, self.shipped))


class StatementParameters(NodeParameters):
    """Parameters of `statements`: those of `typed-nodes`, which by default recall statements only."""

    limits: ClassVar[tuple[str, ...]] = ("entries",)
    shipped: ClassVar[str] = "statements"
    top_k: int = Field(0, ge=0)
    entries: int = Field(25, ge=0)
    show_turns: bool = False
    """Show also the messages that the recalled statements rest on, best first, in what they leave of the budget."""

    @field_validator("message_range", *RANKED_ONLY)
    @classmethod
    def _refuse_without_search(cls, value: object, known: ValidationInfo) -> object:
        if not known.data.get("top_k") and value != cls.model_fields[str(known.field_name)].default:
            raise PydanticCustomError("unused", "No messages are searched: set top_k=10 as well")
        return value


# Search entries by the words and vectors of their embedding texts, and by people and times in the question.

_LEXICAL = LexicalParameters(window=(), session=0.0)


class FoundEntry(Struct, frozen=True):
    """An entry in a ranking."""

    entry: Entry
    score: float


class _Index(Struct, frozen=True):
    """The index of the entries of one fixture."""

    entries: tuple[Entry, ...]
    history: HistoryView
    """The entries as if they were messages, so that the ranking of messages ranks them."""
    lexical: LexicalIndex
    dense: DenseIndex
    priors: Priors
    people: tuple[str, ...]
    """The people that each entry is about, in lower case."""
    days: tuple[tuple[date, date], ...]
    """The days that each entry is about: those of its node's filter field, else the day on which it was said."""


class EntrySearch:
    """Ranks the entries of a fixture.

    Args:
        nodes: the part with the entries.
        vectors: the part with their vectors.
        parameters: weights and filters of the ranking.
        embed_query: returns the vector of a text.
    """

    def __init__(
        self, nodes: NodesPart, vectors: NodeVectors, parameters: NodeParameters, embed_query: Callable[[str], Vector]
    ) -> None:
        self._nodes, self._vectors = nodes, vectors
        self._parameters, self._embed_query = parameters, embed_query

    def ranked(self, question: Question, fixture: Fixture) -> tuple[list[FoundEntry], tuple[str, ...]]:
        """Return all entries within the time the question names, best first, and notes on what could not be used."""
        index = fixture.cached(("nodes", self._nodes.name), lambda: self._index(fixture))
        if not index.entries:
            return [], ()
        scores = self._scores(question.text, index, fixture.memory)
        places = order(scores).tolist()
        notes: tuple[str, ...] = ()
        if self._parameters.entry_time != "off":
            time = resolve_range(question.text, question.date)
            notes = (time.note,) if time.note else ()
            if time.range:
                places = apply_range(places, self._inside(index, time.range), self._parameters.entry_time)
        return [FoundEntry(index.entries[place], float(scores[place])) for place in places], notes

    def _inside(self, index: _Index, range: TimeRange) -> list[bool]:
        return [in_range([days], range, self._parameters.time_margin_days) for days in index.days]

    def _scores(self, text: str, index: _Index, store: MemoryStore) -> Scores:
        names = sorted({message.speaker for message in store.messages} - {""})
        lexical = index.lexical.scores(without_names(text, names))
        dense = index.dense.scores(self._embed_query(text_to_embed(text, names)))
        scores = fuse([(1.0, lexical), (self._parameters.dense_weight, dense)], self._parameters.fusion)
        mentioned = [name.lower() for name in names if re.search(rf"\b{re.escape(name)}\b", text, re.IGNORECASE)]
        if mentioned and self._parameters.entry_people:
            about = np.array([any(name in people for name in mentioned) for people in index.people], dtype=np.float64)
            scores = scores + self._parameters.entry_people * about
        return scores + self._parameters.date_weight * index.priors.date(text)

    def _index(self, fixture: Fixture) -> _Index:
        entries = fixture.part(self._nodes).entries
        nodes = {node.name: node for node in self._nodes.nodes.nodes}
        store = entry_store(
            [(entry.thread_id, entry.said_at, text_of(entry, nodes[entry.node].embed)) for entry in entries]
        )
        history = HistoryView(store)
        items, vectors = fixture.part(self._vectors).rows()
        people = [
            " ".join(_names(entry.values.get(name, "")) for name in nodes[entry.node].filters.people)
            for entry in entries
        ]
        days = [_days(entry, nodes[entry.node].filters.time) for entry in entries]
        return _Index(
            tuple(entries),
            history,
            LexicalIndex(history, _LEXICAL),
            DenseIndex(history, items, vectors, ()),
            Priors(history),
            tuple(people),
            tuple(days),
        )


def _names(value: object) -> str:
    return " ".join(value).lower() if isinstance(value, list) else str(value).lower()


def _days(entry: Entry, field: str) -> tuple[date, date]:
    named = entry.dates.get(field)
    return (named.start, named.end) if named else (entry.said_at.date(), entry.said_at.date())


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
    """Return the messages with the parts that rank them, if they are searched, the entries and their vectors.

    Raises:
        HarnessError: the folder of nodes cannot be used.
    """
    entries = parameters.entries_part
    searched = (*parameters.ranking_parts, *parameters.dense_parts) if parameters.top_k else (MESSAGES,)
    return (*searched, entries, NodeVectors(entries))


class TypedNodes:
    """Recalls the best entries, and the best messages in the rest of the budget.

    Args:
        parameters: numbers and weights of the recall.
        tools: from the run.
    """

    def __init__(self, parameters: NodeParameters, tools: MemoryTools) -> None:
        self._parameters, self._count = parameters, tools.count_tokens
        self._nodes = parameters.entries_part
        self._templates = {node.name: node.shown for node in self._nodes.nodes.nodes}
        self._show_turns = isinstance(parameters, StatementParameters) and parameters.show_turns
        self._one_node = len(self._templates) == 1
        self._time_fields = {node.name: node.filters.time for node in self._nodes.nodes.nodes}
        self._entries = EntrySearch(self._nodes, NodeVectors(self._nodes), parameters, tools.embed_query)
        self._messages = RankedSearch("hybrid", parameters, tools)

    def texts_to_embed(self, question: Question, names: Sequence[str]) -> Sequence[str]:
        """Return the texts to embed for `question`: the whole for the entries, then those for searching messages."""
        return [text_to_embed(question.text, names), *self._messages.texts_to_embed(question, names)]

    def ingredients(self, question: Question, fixture: Fixture) -> dict[str, dict[str, float]]:
        """Return the ingredients of the score of each of the best messages, by message id; entries have none."""
        if not (found := self._found(question, fixture)):
            return {}
        explained = zip(found, self._messages.ingredients(question, fixture, found), strict=True)
        return {message_id: parts for unit, parts in explained for message_id in unit.message_ids}

    async def recall(self, question: Question, fixture: Fixture) -> Recall:
        """Return entries first, then messages, both in time order."""
        if self._parameters.entry_share < 1 and self._parameters.top_k:
            await self._messages.fetch(question, fixture)
        return await in_thread(self._recall, question, fixture)

    def _recall(self, question: Question, fixture: Fixture) -> Recall:
        store, share = fixture.memory, self._parameters.entry_share
        budget = RenderedBudget(self._parameters.budget, self._count)
        windows, hits = self._windows(question, fixture)
        # Messages first, up to their share; then entries that add to them; messages again in what is left.
        fitting = self._fitting(windows, store, budget, 1 - share)
        facts, notes = self._facts(question, fixture, budget, set[int]().union(*windows[:fitting]))
        for item in facts if self._show_turns else ():
            turns = {store.positions[message_id] for message_id in item.message_ids}.difference(*windows)
            hits |= dict.fromkeys(turns, Hit(item.rank or 0, item.score or 0.0))
            windows.append(turns)
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

    def _found(self, question: Question, fixture: Fixture) -> Sequence[RankedUnit]:
        top_k = self._parameters.top_k
        return self._messages.rank(question, fixture, top_k) if top_k else ()

    def _windows(self, question: Question, fixture: Fixture) -> tuple[list[set[int]], dict[int, Hit]]:
        """Return windows, best first, and the hit of each message found.

        A window contains the positions of a message found and of its neighbours, without those of earlier windows.
        """
        if self._parameters.entry_share == 1:
            return [], {}
        store = fixture.memory
        found = self._found(question, fixture)
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
            if self._is_redundant(found.entry, shown_ids) or self._repeats(found.entry, recalled):
                continue
            item = self._item(found, rank)
            if not budget.take_fact(item):
                most, tokens = self._parameters.entries, self._parameters.budget
                notes = (*notes, f"budget: {len(facts)} of at most {most} entries fit {tokens} tokens")
                break
            facts.append(item)
            recalled.append(found.entry)
        return facts, notes

    def _is_redundant(self, entry: Entry, shown_ids: set[str]) -> bool:
        """Return whether the shown messages say everything that an entry does; a resolved day says more."""
        return not entry.dates and shown_ids.issuperset(entry.message_ids)

    def _repeats(self, entry: Entry, recalled: Sequence[Entry]) -> bool:
        """Tell whether an entry was taken from the same words as another; of one node, both say different things."""
        return not self._one_node and any(
            entry.message_ids == other.message_ids
            and (entry.evidence in other.evidence or other.evidence in entry.evidence)
            for other in recalled
        )

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


# The presets.

TYPED_NODES = MemoryDefinition(
    "entries of typed nodes (events, attributes, processes of a life, relationships) and the best messages",
    NodeParameters,
    node_parts,
    TypedNodes,
)

STATEMENTS = MemoryDefinition(
    "self-contained dated statements, found by words and embedding",
    StatementParameters,
    node_parts,
    TypedNodes,
)
