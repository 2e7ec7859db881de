"""Key expansion: texts made from a session or a turn at prepare, by which retrieval finds it besides its own words.

Method: Wu et al. 2025 (ICLR), section 5.3, "index expansion".
"""

from longmemeval.retrieval.expansion.chat import chat_maker
from longmemeval.retrieval.expansion.join import JoinMode, joined_words
from longmemeval.retrieval.expansion.keys import (
    Expansion,
    ExpansionKind,
    ExpansionLevel,
    ExpansionMaker,
    MadeExpansions,
)
from longmemeval.retrieval.expansion.part import (
    ExpansionPart,
    decode,
    encode,
    is_expansion_part,
    kind_and_level,
    part_name,
)
from longmemeval.retrieval.expansion.vectors import (
    decode_key_vectors,
    is_vectors_part,
    keys_part,
    keys_to_embed,
    vectors_part,
)

__all__ = [
    "Expansion",
    "ExpansionKind",
    "ExpansionLevel",
    "ExpansionMaker",
    "ExpansionPart",
    "JoinMode",
    "MadeExpansions",
    "chat_maker",
    "decode",
    "decode_key_vectors",
    "encode",
    "is_expansion_part",
    "is_vectors_part",
    "joined_words",
    "keys_part",
    "keys_to_embed",
    "kind_and_level",
    "part_name",
    "vectors_part",
]
