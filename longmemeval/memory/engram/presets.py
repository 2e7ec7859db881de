"""The presets of the engine."""

from longmemeval.memory.definition import MemoryDefinition
from longmemeval.memory.engram.fact_memory import FullEngram, LeanEngram
from longmemeval.memory.engram.parameters import EngramParameters, LeanParameters
from longmemeval.memory.engram.part import FACT_VECTORS, FACTS
from longmemeval.memory.token_counts import TOKENS
from longmemeval.ranking.message_vectors import VECTORS
from longmemeval.ranking.word_counts import WORDS
from longmemeval.storage.messages_part import MESSAGES

LEAN = MemoryDefinition(
    "facts with two axes of time and the best raw messages, within a budget",
    LeanParameters,
    lambda parameters: (MESSAGES, WORDS, VECTORS, FACTS, FACT_VECTORS),
    LeanEngram,
)

FULL = MemoryDefinition(
    "the facts of engram-lean, then the whole haystack",
    EngramParameters,
    lambda parameters: (MESSAGES, TOKENS, VECTORS, FACTS, FACT_VECTORS),
    FullEngram,
)
