"""The built-in memory configurations."""

from collections.abc import Callable, Collection, Sequence
from typing import Any

from longmemeval.core.event_loop import in_thread
from longmemeval.dataset import Dataset
from longmemeval.errors import HarnessError
from longmemeval.llm.tokens import Counted, TokenCounter
from longmemeval.memory.configuration import MemoryConfiguration, definition_of
from longmemeval.memory.definition import MemoryDefinition
from longmemeval.memory.items import message_item
from longmemeval.memory.parameters import (
    CombinedParameters,
    LastMessages,
    Parameters,
    RagParameters,
    RerankedParameters,
    RetrievalParameters,
    SemanticParameters,
    SimpleFastParameters,
    VotesParameters,
    WorkingMemoryParameters,
)
from longmemeval.memory.protocol import MemorySystem, MemoryTools
from longmemeval.memory.search import CombinedMemory, NearestSearch, RankedSearch, Search, SearchingMemory
from longmemeval.memory.token_counts import TOKENS, message_tokens
from longmemeval.memory.working_memory.part import DOCUMENT
from longmemeval.ranking.dates import DATES
from longmemeval.ranking.dense import MESSAGE_GRAPH
from longmemeval.ranking.expansion import ALL_KEY_VECTORS, ALL_KEYS
from longmemeval.ranking.message_vectors import VECTORS
from longmemeval.ranking.retriever import Method
from longmemeval.ranking.statements import STATEMENT_VECTORS
from longmemeval.ranking.word_counts import WORDS
from longmemeval.records import Gold, Question, Recall
from longmemeval.storage.fixture import Fixture
from longmemeval.storage.messages_part import MESSAGES
from longmemeval.storage.parts import Part

# The baselines: no memory, the evidence sessions (oracle) and the whole history.


class NoMemory:
    """`none`: the question only."""

    async def recall(self, question: Question, fixture: Fixture) -> Recall:
        """Return an empty recall."""
        return Recall(items=())


class FullHistory:
    """`full-history`: every message of the haystack, nothing cut here."""

    async def recall(self, question: Question, fixture: Fixture) -> Recall:
        """Return all messages, oldest first."""
        return await in_thread(_all_messages, fixture)

    def known_tokens(self, counter: TokenCounter, fixture: Fixture, recall: Recall) -> Sequence[Counted] | None:
        """Return the token counts of the messages, as counted at prepare."""
        return message_tokens(counter, fixture)


class Oracle:
    """`oracle`: the evidence sessions only; the only preset that reads gold.

    Args:
        gold: maps a question id to its gold record.
    """

    def __init__(self, gold: Callable[[str], Gold]) -> None:
        self._gold = gold

    async def recall(self, question: Question, fixture: Fixture) -> Recall:
        """Return all messages of the evidence sessions, oldest first."""
        return await in_thread(_messages, fixture, set(self._gold(question.question_id).evidence_sessions))


def _all_messages(fixture: Fixture) -> Recall:
    """Return all messages, oldest first; the same items for every question of a haystack."""
    return Recall(fixture.cached(("items",), lambda: tuple(map(message_item, fixture.memory.messages))))


def _messages(fixture: Fixture, threads: Collection[str]) -> Recall:
    """Return the messages of the given threads, oldest first."""
    return Recall(tuple(message_item(message) for message in fixture.memory.messages if message.thread_id in threads))


def _oracle(parameters: Parameters, tools: MemoryTools) -> MemorySystem:
    if tools.gold is None:
        raise HarnessError("The oracle needs a dataset with gold evidence")
    return Oracle(tools.gold)


def _ranked(method: Method) -> Callable[[RetrievalParameters, MemoryTools], MemorySystem]:
    def build(parameters: RetrievalParameters, tools: MemoryTools) -> MemorySystem:
        return SearchingMemory(parameters, RankedSearch(method, parameters, tools), tools.count_tokens)

    return build


def _semantic(working_memory: bool) -> Callable[[SemanticParameters, MemoryTools], MemorySystem]:
    def build(parameters: SemanticParameters, tools: MemoryTools) -> MemorySystem:
        search: Search
        if parameters.retriever == "nearest":
            search = NearestSearch(tools.embed_query, parameters.scope == "thread")
        else:
            search = RankedSearch(parameters.retriever, parameters, tools)
        return SearchingMemory(parameters, search, tools.count_tokens, working_memory)

    return build


def _semantic_parts(parameters: SemanticParameters) -> tuple[Part[Any], ...]:
    """Return the parts to read: only a search for the nearest messages reads the graph, and it reads no words."""
    if parameters.retriever == "nearest":
        return (MESSAGES, *parameters.dense_parts, MESSAGE_GRAPH)
    return (*parameters.ranking_parts, *parameters.dense_parts)


_RANKED: tuple[Part[Any], ...] = (VECTORS, MESSAGE_GRAPH, STATEMENT_VECTORS, WORDS, DATES, *ALL_KEYS, *ALL_KEY_VECTORS)


def _searching(summary: str, parameters: type[SemanticParameters]) -> MemoryDefinition[Any]:
    """Return the definition of a preset that shows what a search finds: its parameters alone tell it from others."""
    return MemoryDefinition(summary, parameters, _semantic_parts, _semantic(working_memory=False), may_read=_RANKED)


NONE = MemoryDefinition(
    "the question only (floor)",
    Parameters,
    lambda parameters: (),
    lambda parameters, tools: NoMemory(),
    control="floor",
)

ORACLE = MemoryDefinition(
    "the evidence sessions only (ceiling; reads the gold evidence)",
    Parameters,
    lambda parameters: (MESSAGES,),
    _oracle,
    reads_gold=True,
    control="reference",
)

FULL_HISTORY = MemoryDefinition(
    "the whole haystack, never cut silently",
    Parameters,
    lambda parameters: (MESSAGES, TOKENS),
    lambda parameters, tools: FullHistory(),
    recalls_everything=True,
    control="reference",
)

FILES = MemoryDefinition(
    "the whole haystack as dated text files, which the model lists, searches and reads in steps",
    Parameters,
    lambda parameters: (MESSAGES, TOKENS),
    lambda parameters, tools: FullHistory(),
    reading="files",
)

LAST_K = MemoryDefinition(
    "the newest messages, across threads",
    LastMessages,
    lambda parameters: (MESSAGES,),
    lambda parameters, tools: CombinedMemory(parameters.last_messages),
)

SEMANTIC_RECALL = _searching(
    "recent messages and the nearest ones by embedding, each with its neighbours", SemanticParameters
)

RAG = _searching("the nearest messages by embedding, without neighbours or recent messages", RagParameters)

RAG_RERANK = _searching("as rag, the best of the 50 nearest messages by a cross-encoder", RerankedParameters)

SIMPLE_FAST = _searching("as rag, the 42 nearest messages, to be read with facts-first", SimpleFastParameters)

SESSION_VOTES = _searching(
    "whole sessions, chosen by the ranks of their messages by words and embedding", VotesParameters
)

WORKING_MEMORY = MemoryDefinition(
    "recent messages and the working-memory document kept at prepare",
    WorkingMemoryParameters,
    lambda parameters: (MESSAGES, DOCUMENT),
    lambda parameters, tools: CombinedMemory(parameters.last_messages, working_memory=True),
)

COMBINED = MemoryDefinition(
    "recent messages, semantic recall and working memory",
    CombinedParameters,
    lambda parameters: (*_semantic_parts(parameters), DOCUMENT),
    _semantic(working_memory=True),
    may_read=_RANKED,
)

BM25 = MemoryDefinition(
    "recent messages and the best ones by words, each with its neighbours",
    RetrievalParameters,
    lambda parameters: parameters.ranking_parts,
    _ranked("bm25"),
    may_read=_RANKED,
)

HYBRID = MemoryDefinition(
    "recent messages and the best ones by words and embedding together, each with its neighbours",
    RetrievalParameters,
    lambda parameters: (*parameters.ranking_parts, *parameters.dense_parts),
    _ranked("hybrid"),
    may_read=_RANKED,
)


# Access to the gold of a dataset, for memories whose definition declares that they read it.


def gold_for(configuration: MemoryConfiguration, dataset: Dataset) -> Callable[[str], Gold] | None:
    """Return the function from a question's id to its gold, for the oracle; None for every other memory."""
    return dataset.gold if definition_of(configuration).reads_gold else None
