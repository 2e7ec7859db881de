"""Key expansion: texts made from a session or a turn during prepare, as additional keys for retrieval.

Method: Wu et al. 2025 (ICLR), section 5.3, "index expansion".
"""

from longmemeval.ranking.expansion.chat import (
    Expansion,
    ExpansionKind,
    ExpansionLevel,
    ExpansionMaker,
    MadeExpansions,
    chat_maker,
)
from longmemeval.ranking.expansion.part import (
    ALL_KEY_VECTORS,
    ALL_KEYS,
    ExpansionPart,
    JoinMode,
    decode,
    encode,
    joined_words,
    key_owners,
    key_vectors_part,
    keys_part,
    keys_to_embed,
)

__all__ = [
    "ALL_KEYS",
    "ALL_KEY_VECTORS",
    "Expansion",
    "ExpansionKind",
    "ExpansionLevel",
    "ExpansionMaker",
    "ExpansionPart",
    "JoinMode",
    "MadeExpansions",
    "chat_maker",
    "decode",
    "encode",
    "joined_words",
    "key_owners",
    "key_vectors_part",
    "keys_part",
    "keys_to_embed",
]
