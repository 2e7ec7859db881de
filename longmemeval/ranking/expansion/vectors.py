"""Parts with the vectors of key expansions: `expansions-<kind>-<level>-vectors.json`.

They have the format of `vector.json`, without a graph, and one item per key: its id is that of the unit followed by
the key's number.
"""

from typing import Any

from longmemeval.core.part_options import PartOptions
from longmemeval.ranking.expansion.keys import ExpansionKind, ExpansionLevel
from longmemeval.ranking.expansion.part import ALL_KEYS, ExpansionKeys, ExpansionPart
from longmemeval.storage.parts import Part, PartInput
from longmemeval.storage.vector_index import VectorIndex, VectorItem
from longmemeval.storage.vectors_part import VectorsPart


class KeyVectors(VectorsPart):
    """The vectors of the keys of one part."""

    index_name = "keys"

    def __init__(self, keys: ExpansionKeys) -> None:
        self.keys = keys
        self.needs = (keys,)
        self.name = f"{keys.name}-vectors"

    def entries(self, source: PartInput, options: PartOptions) -> tuple[list[VectorItem], list[str]]:
        """Return each of a unit's keys once, without blank ones."""
        return keys_to_embed(source.part(self.keys))

    def dependency_key(self, need: Part[Any]) -> str:
        """Return the key that recipes have always used."""
        return "keys_sha256"


_VECTORS = {(keys.kind, keys.level): KeyVectors(keys) for keys in ALL_KEYS}
ALL_KEY_VECTORS = tuple(_VECTORS.values())
"""The parts of all kinds and levels."""


def key_vectors_part(kind: ExpansionKind, level: ExpansionLevel) -> KeyVectors:
    """Return the part with the vectors of the keys of one kind at one level."""
    return _VECTORS[kind, level]


def keys_to_embed(part: ExpansionPart) -> tuple[list[VectorItem], list[str]]:
    """Return items and texts of the keys to embed: each of a unit's keys once, without blank ones."""
    items: list[VectorItem] = []
    texts: list[str] = []
    for expansion in part.items:
        thread_id = expansion.unit_id if part.level == "session" else expansion.unit_id.rpartition(":")[0]
        for number, text in enumerate(text for text in dict.fromkeys(expansion.texts) if text.strip()):
            items.append(VectorItem(f"{expansion.unit_id}#{number}", thread_id, number))
            texts.append(text)
    return items, texts


def key_owners(opened: VectorIndex) -> list[str]:
    """Return the unit id of every key, in the order of the rows."""
    return [item.id.removesuffix(f"#{item.index}") for item in opened.rows()[0]]
