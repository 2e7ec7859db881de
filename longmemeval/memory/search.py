"""Search the history: the nearest messages by embedding, or a ranking of all units."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from longmemeval.core.arrays import Vector
from longmemeval.core.event_loop import in_thread
from longmemeval.core.text.quantities import weekday_of
from longmemeval.errors import HarnessError
from longmemeval.memory.items import Hit, items_at, last_positions, with_neighbours
from longmemeval.memory.parameters import RetrievalParameters
from longmemeval.memory.protocol import MemoryTools
from longmemeval.memory.working_memory.part import DOCUMENT
from longmemeval.ranking.dense import MESSAGE_GRAPH
from longmemeval.ranking.fusion import session_votes
from longmemeval.ranking.history import RankedUnit, Scores
from longmemeval.ranking.questions import QuestionAnalysis, analyse_by_rules
from longmemeval.ranking.rerank import RemoteReranker
from longmemeval.ranking.retriever import Method, Retriever, text_to_embed
from longmemeval.records import ItemKind, Question, Recall, RecalledItem
from longmemeval.storage.fixture import Fixture
from longmemeval.storage.memory_store import MemoryStore
from longmemeval.storage.messages import question_thread_id

Analyse = Callable[[Question], QuestionAnalysis]


class Search(Protocol):
    """Finds the units that a question is about."""

    def rank(self, question: Question, fixture: Fixture, limit: int | None = None) -> list[RankedUnit]:
        """Return the best `limit` units, best first; all of them for None."""
        ...

    async def fetch(self, question: Question, fixture: Fixture) -> None:
        """Await what a server has to say, if there is one, so that `rank` need not wait for it."""
        ...

    def notes(self, question: Question, fixture: Fixture) -> tuple[str, ...]:
        """Return notes on what in the question could not be used, with the reason."""
        ...

    def texts_to_embed(self, question: Question, names: Sequence[str]) -> Sequence[str]:
        """Return the texts to embed for a question, asked of a history in which people of these `names` speak."""
        ...

    def ingredients(self, question: Question, fixture: Fixture, units: Sequence[RankedUnit]) -> list[dict[str, float]]:
        """Return the addends of each unit's score, by name."""
        ...


class NearestSearch:
    """Finds the nearest messages by cosine similarity, from the fixture's index.

    Args:
        embed_query: returns the vector of a text.
        within_thread: search the question's own thread only.
    """

    def __init__(self, embed_query: Callable[[str], Vector], within_thread: bool) -> None:
        self._embed_query = embed_query
        self._within_thread = within_thread

    def ingredients(self, question: Question, fixture: Fixture, units: Sequence[RankedUnit]) -> list[dict[str, float]]:
        """Return the cosine similarity of each of `units`, which is its whole score."""
        return [{"vectors": unit.score} for unit in units]

    def rank(self, question: Question, fixture: Fixture, limit: int | None = None) -> list[RankedUnit]:
        """Return the nearest messages; without a limit every message that has a vector."""
        thread = question_thread_id(question.question_id)
        found = fixture.part(MESSAGE_GRAPH).query(
            self._embed_query(question.text),
            limit or max(1, len(fixture.memory.messages)),
            matching=(lambda item: item.thread_id == thread) if self._within_thread else None,
        )
        return [RankedUnit(hit.item.id, hit.item.thread_id, (hit.item.id,), hit.score) for hit in found]

    async def fetch(self, question: Question, fixture: Fixture) -> None:
        """Return at once: no server is asked."""

    def notes(self, question: Question, fixture: Fixture) -> tuple[str, ...]:
        """Return a note if only the question's own thread is searched and it is empty."""
        if self._within_thread and not fixture.memory.messages_of(question_thread_id(question.question_id)):
            return ("the search found nothing: scope is the question's own thread, which is empty",)
        return ()

    def texts_to_embed(self, question: Question, names: Sequence[str]) -> Sequence[str]:
        """Return the question's text."""
        return [question.text]


class RankedSearch:
    """Ranks all units of the history by the scores of a `Retriever`.

    Args:
        method: lexical, dense or both.
        tools: from the run.

    Raises:
        HarnessError: the reranker cannot be used, or the parameters need a chat model's analyses and there are none.
    """

    def __init__(self, method: Method, parameters: RetrievalParameters, tools: MemoryTools) -> None:
        self._method = method
        self._parameters = parameters
        self._embed_query = tools.embed_query
        self._reranker = tools.reranker(parameters.reranker) if parameters.reranker else None
        self._analyse = _analyst(parameters, tools.analyse)

    def rank(self, question: Question, fixture: Fixture, limit: int | None = None) -> list[RankedUnit]:
        """Return the best units, equal scores in the history's order."""
        retriever = self._retriever(fixture)
        places, scores = retriever.ranked(self._analyse(question))
        if self._parameters.granularity == "votes":
            voted = session_votes(places, retriever.history.threads, self._parameters.rerank_depth)[:limit]
            sessions = [(retriever.history.session(number), votes) for number, votes in voted]
            return [RankedUnit(one.unit_id, one.thread_id, one.message_ids, votes) for one, votes in sessions]
        found = zip(places[:limit].tolist(), scores[places[:limit]].tolist(), strict=True)
        units = [(retriever.history.unit(place), score) for place, score in found]
        return [RankedUnit(unit.unit_id, unit.thread_id, unit.message_ids, score) for unit, score in units]

    async def fetch(self, question: Question, fixture: Fixture) -> None:
        """Have a reranker behind a server score the candidates of one question, while others are ranked."""
        if isinstance(self._reranker, RemoteReranker):
            texts = await in_thread(lambda: self._retriever(fixture).candidates(self._analyse(question)))
            await self._reranker.fetch(*texts, question.haystack_id)

    def order(self, question: Question, fixture: Fixture) -> tuple[NDArray[np.int64], Scores]:
        """Return the positions of all units, best first, ties in the history's order, and the scores by position."""
        return self._retriever(fixture).ranked(self._analyse(question))

    def ingredients(self, question: Question, fixture: Fixture, units: Sequence[RankedUnit]) -> list[dict[str, float]]:
        """Return the addends of each unit's score, by name (`Retriever.ingredients`); a session's votes are one."""
        if self._parameters.granularity == "votes":
            return [{"votes": unit.score} for unit in units]
        retriever = self._retriever(fixture)
        found = retriever.ingredients(self._analyse(question))
        places = {unit.unit_id: place for place, unit in enumerate(retriever.history.units)}
        return [{name: float(scores[places[unit.unit_id]]) for name, scores in found.items()} for unit in units]

    def _retriever(self, fixture: Fixture) -> Retriever:
        return Retriever(fixture, self._method, self._parameters, self._embed_query, self._reranker)

    def notes(self, question: Question, fixture: Fixture) -> tuple[str, ...]:
        """Return why a time that the question seems to name is not used, and why a chat model's analysis failed."""
        return self._analyse(question).notes

    def texts_to_embed(self, question: Question, names: Sequence[str]) -> Sequence[str]:
        """Return the whole question and its parts; nothing if only words are compared."""
        if self._method == "bm25":
            return []
        return [text_to_embed(query, names) for query in self._analyse(question).queries]


def _analyst(parameters: RetrievalParameters, by_model: Analyse | None) -> Analyse:
    """Return the function that analyses questions: by rules, unless the parameters require a chat model."""
    method = parameters.analysis
    if not method.asks_model:
        return partial(analyse_by_rules, method=method)
    if by_model is None:
        wanted = [
            f"{key}=model"
            for key, analyst in (("decompose", method.parts), ("time_range_by", method.time))
            if analyst == "model"
        ]
        raise HarnessError(
            f"These parameters need a chat model to analyse the questions, but none is named: {', '.join(wanted)}",
            fix="Name one with --query-model, or change these parameters",
        )
    return by_model


# A budget of tokens for a recall, counted as the answering model will read it.

_HEADINGS: dict[ItemKind, str] = {
    "working-memory": "# What is known about the user\n\n\n\n",
    "fact": "# Facts\n\n\n\n",
    "summary": "# Summaries\n\n\n\n",
    "message": "# Earlier messages\n\n",
}


class Budget:
    """Tokens left for a recall in the history format `nl`, with its headings, days, speakers and dates.

    Args:
        tokens: the budget; None: no bound.
        count: returns the tokens of a text.
    """

    def __init__(self, tokens: int | None, count: Callable[[str], int]) -> None:
        self._left = tokens
        self._count = count
        self._shown = set[object]()

    def fitting(self, items: Sequence[RecalledItem]) -> int:
        """Take `items` in their order until one does not fit, and return how many were taken."""
        return next((place for place, item in enumerate(items) if not self.take(item)), len(items))

    def take(self, *items: RecalledItem) -> bool:
        """Take `items` and return True if all of them fit beside what was taken before."""
        if self._left is None:
            return True
        shown = set(self._shown)
        cost = sum(self._cost(item, shown) for item in items)
        if cost > self._left:
            return False
        self._left -= cost
        self._shown = shown
        return True

    def _cost(self, item: RecalledItem, shown: set[object]) -> int:
        texts = []
        if item.kind not in shown:
            shown.add(item.kind)
            texts.append(_HEADINGS[item.kind])
        if item.kind == "message":
            texts.append(f"{item.speaker}: {item.text.strip()}\n")
            if item.thread_ids not in shown:
                shown.add(item.thread_ids)
                texts.append(
                    f"## {weekday_of(item.date)}, {item.date:%Y-%m-%d}\n\n{item.date:%H:%M}\n\n" if item.date else ""
                )
        else:
            texts.append(f"- {item.date:%Y-%m-%d}: {item.text.strip()}\n" if item.date else f"- {item.text.strip()}\n")
        return sum(self._count(text) for text in texts)


# Recent messages, search and working memory in any combination, the base of six presets.


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
        await self.search.fetch(question, fixture)
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
