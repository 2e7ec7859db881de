"""The memory configurations by name: what can be set, what the fixtures must hold, how the system is built."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from longmemeval.errors import HarnessError
from longmemeval.llm.tokens import TOKENS_PART
from longmemeval.memory.baselines import FullHistory, NoMemory, Oracle
from longmemeval.memory.combined import CombinedMemory, SearchingMemory
from longmemeval.memory.parameters import (
    CombinedParameters,
    LastMessages,
    Parameters,
    RetrievalParameters,
    SemanticParameters,
    WorkingMemoryParameters,
)
from longmemeval.memory.protocol import MemorySystem, MemoryTools, Need
from longmemeval.memory.search import NearestSearch, RankedSearch, Search
from longmemeval.retrieval.retriever import Method

P = TypeVar("P", bound=Parameters)


@dataclass(frozen=True)
class Preset(Generic[P]):
    """One named memory configuration."""

    summary: str
    """What the answering model sees, for help texts and docs."""
    parameters: type[P]
    needs: frozenset[Need]
    build: Callable[[P, MemoryTools], MemorySystem]
    reads_gold: bool = False
    """May see which sessions are the evidence. Tables say so."""


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


PRESETS: dict[str, Preset[Any]] = {
    "none": Preset(
        "the question only (floor)",
        Parameters,
        frozenset(),
        lambda parameters, tools: NoMemory(),
    ),
    "oracle": Preset(
        "the evidence sessions only (ceiling; reads the gold evidence)",
        Parameters,
        frozenset({"messages"}),
        _oracle,
        reads_gold=True,
    ),
    "full-history": Preset(
        "the whole haystack, never cut silently",
        Parameters,
        frozenset({"messages", TOKENS_PART}),
        lambda parameters, tools: FullHistory(),
    ),
    "last-k": Preset(
        "the newest messages, across threads",
        LastMessages,
        frozenset({"messages"}),
        lambda parameters, tools: CombinedMemory(parameters.last_messages),
    ),
    "semantic-recall": Preset(
        "recent messages and the nearest ones by embedding, each with its neighbours",
        SemanticParameters,
        frozenset({"messages", "vectors"}),
        _semantic(working_memory=False),
    ),
    "working-memory": Preset(
        "recent messages and the working-memory document kept at prepare",
        WorkingMemoryParameters,
        frozenset({"messages", "working-memory"}),
        lambda parameters, tools: CombinedMemory(parameters.last_messages, working_memory=True),
    ),
    "combined": Preset(
        "recent messages, semantic recall and working memory",
        CombinedParameters,
        frozenset({"messages", "working-memory", "vectors"}),
        _semantic(working_memory=True),
    ),
    "bm25": Preset(
        "recent messages and the best ones by words, each with its neighbours",
        RetrievalParameters,
        frozenset({"messages"}),
        _ranked("bm25"),
    ),
    "hybrid": Preset(
        "recent messages and the best ones by words and embedding together, each with its neighbours",
        RetrievalParameters,
        frozenset({"messages", "vectors"}),
        _ranked("hybrid"),
    ),
}
