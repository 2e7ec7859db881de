"""The built-in memory configurations."""

from collections.abc import Callable
from typing import Any

from longmemeval.errors import HarnessError
from longmemeval.memory.baselines import FullHistory, NoMemory, Oracle
from longmemeval.memory.combined import CombinedMemory, SearchingMemory
from longmemeval.memory.definition import MemoryDefinition
from longmemeval.memory.parameters import (
    CombinedParameters,
    LastMessages,
    Parameters,
    RetrievalParameters,
    SemanticParameters,
    WorkingMemoryParameters,
)
from longmemeval.memory.protocol import MemorySystem, MemoryTools
from longmemeval.memory.search import NearestSearch, RankedSearch, Search
from longmemeval.memory.token_counts import TOKENS
from longmemeval.memory.working_memory.part import DOCUMENT
from longmemeval.ranking.dates import DATES
from longmemeval.ranking.dense import MESSAGE_GRAPH
from longmemeval.ranking.expansion import ALL_KEY_VECTORS, ALL_KEYS
from longmemeval.ranking.message_vectors import VECTORS
from longmemeval.ranking.retriever import Method
from longmemeval.ranking.statements import STATEMENT_VECTORS
from longmemeval.ranking.word_counts import WORDS
from longmemeval.storage.messages_part import MESSAGES
from longmemeval.storage.parts import Part


def _oracle(parameters: Parameters, tools: MemoryTools) -> MemorySystem:
    if tools.gold is None:
        raise HarnessError("The oracle needs a data set with gold evidence")
    return Oracle(tools.gold)


def _ranked(method: Method) -> Callable[[RetrievalParameters, MemoryTools], MemorySystem]:
    def build(parameters: RetrievalParameters, tools: MemoryTools) -> MemorySystem:
        search = RankedSearch(method, parameters, tools.embed_query, tools.analyse)
        return SearchingMemory(parameters, search, tools.count_tokens)

    return build


def _semantic(working_memory: bool) -> Callable[[SemanticParameters, MemoryTools], MemorySystem]:
    def build(parameters: SemanticParameters, tools: MemoryTools) -> MemorySystem:
        search: Search
        if parameters.retriever == "nearest":
            search = NearestSearch(tools.embed_query, parameters.scope == "thread")
        else:
            search = RankedSearch(parameters.retriever, parameters, tools.embed_query, tools.analyse)
        return SearchingMemory(parameters, search, tools.count_tokens, working_memory)

    return build


def _semantic_parts(parameters: SemanticParameters) -> tuple[Part[Any], ...]:
    """Return the parts to read: only a search for the nearest messages reads the graph, and it reads no words."""
    if parameters.retriever == "nearest":
        return (MESSAGES, *parameters.dense_parts, MESSAGE_GRAPH)
    return (*parameters.ranking_parts, *parameters.dense_parts)


_RANKED: tuple[Part[Any], ...] = (VECTORS, MESSAGE_GRAPH, STATEMENT_VECTORS, WORDS, DATES, *ALL_KEYS, *ALL_KEY_VECTORS)


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

SEMANTIC_RECALL = MemoryDefinition(
    "recent messages and the nearest ones by embedding, each with its neighbours",
    SemanticParameters,
    _semantic_parts,
    _semantic(working_memory=False),
    may_read=_RANKED,
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
