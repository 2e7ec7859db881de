"""The built-in memory configurations."""

from collections.abc import Callable

from longmemeval.errors import HarnessError
from longmemeval.llm.tokens import TOKENS_PART
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
from longmemeval.retrieval.retriever import Method


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


NONE = MemoryDefinition(
    "the question only (floor)",
    Parameters,
    frozenset(),
    lambda parameters, tools: NoMemory(),
)

ORACLE = MemoryDefinition(
    "the evidence sessions only (ceiling; reads the gold evidence)",
    Parameters,
    frozenset({"messages"}),
    _oracle,
    reads_gold=True,
)

FULL_HISTORY = MemoryDefinition(
    "the whole haystack, never cut silently",
    Parameters,
    frozenset({"messages", TOKENS_PART}),
    lambda parameters, tools: FullHistory(),
)

LAST_K = MemoryDefinition(
    "the newest messages, across threads",
    LastMessages,
    frozenset({"messages"}),
    lambda parameters, tools: CombinedMemory(parameters.last_messages),
)

SEMANTIC_RECALL = MemoryDefinition(
    "recent messages and the nearest ones by embedding, each with its neighbours",
    SemanticParameters,
    frozenset({"messages", "vectors"}),
    _semantic(working_memory=False),
)

WORKING_MEMORY = MemoryDefinition(
    "recent messages and the working-memory document kept at prepare",
    WorkingMemoryParameters,
    frozenset({"messages", "working-memory"}),
    lambda parameters, tools: CombinedMemory(parameters.last_messages, working_memory=True),
)

COMBINED = MemoryDefinition(
    "recent messages, semantic recall and working memory",
    CombinedParameters,
    frozenset({"messages", "working-memory", "vectors"}),
    _semantic(working_memory=True),
)

BM25 = MemoryDefinition(
    "recent messages and the best ones by words, each with its neighbours",
    RetrievalParameters,
    frozenset({"messages"}),
    _ranked("bm25"),
)

HYBRID = MemoryDefinition(
    "recent messages and the best ones by words and embedding together, each with its neighbours",
    RetrievalParameters,
    frozenset({"messages", "vectors"}),
    _ranked("hybrid"),
)
