"""The fixture part with the vectors of key expansions: `expansions-<kind>-<level>-vectors.json`.

It has the format of `vector.json`, without a graph, and one item per key: its id is that of the unit with the key's
number behind.
"""

from longmemeval.arrays import Vectors
from longmemeval.retrieval.expansion.part import ExpansionPart
from longmemeval.storage.vector_store import VectorItem, VectorStore

INDEX_NAME = "keys"
_SUFFIX = "-vectors"


def vectors_part(keys_part: str) -> str:
    """The name of the part with the vectors of the keys in the part `keys_part`."""
    return keys_part + _SUFFIX


def is_vectors_part(name: str) -> bool:
    """Whether a part of this name holds vectors of keys."""
    return name.startswith("expansions-") and name.endswith(_SUFFIX)


def keys_part(name: str) -> str:
    """The part whose keys have their vectors in the part `name`."""
    return name.removesuffix(_SUFFIX)


def keys_to_embed(part: ExpansionPart) -> tuple[list[VectorItem], list[str]]:
    """The keys that get a vector, each of a unit's keys once and no blank one: what they are, and their texts."""
    items: list[VectorItem] = []
    texts: list[str] = []
    for expansion in part.items:
        thread_id = expansion.unit_id if part.level == "session" else expansion.unit_id.rpartition(":")[0]
        for number, text in enumerate(text for text in dict.fromkeys(expansion.texts) if text.strip()):
            items.append(VectorItem(f"{expansion.unit_id}#{number}", thread_id, number))
            texts.append(text)
    return items, texts


def decode_key_vectors(data: bytes, where: str) -> tuple[list[str], Vectors]:
    """For every key the id of its unit, and its vector of length 1, shape (keys, dimension).

    Args:
        data: the part's bytes.
        where: the part, for errors.

    Raises:
        FixtureError: newer format, not such a part, or one that contradicts itself.
        HarnessError: the file holds another index.
    """
    items, vectors = VectorStore.hydrate(data, where).rows(INDEX_NAME)
    return [item.id.removesuffix(f"#{item.index}") for item in items], vectors
