"""The fixture part of one kind of expansions: `expansions-<kind>-<level>.json`."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

import msgspec
import numpy as np
from msgspec import Struct

from longmemeval.core.part_options import PartOptions
from longmemeval.errors import HarnessError
from longmemeval.llm.options import split_options
from longmemeval.ranking.expansion.chat import Expansion, ExpansionKind, ExpansionLevel, ExpansionMaker, chat_maker
from longmemeval.ranking.lexical import UnitWords
from longmemeval.ranking.word_counts import count_words
from longmemeval.storage.memory_store import MemoryStore
from longmemeval.storage.part_files import FORMAT, decode_versioned
from longmemeval.storage.parts import Part, PartInput, PartOutput, PartTools, Stored
from longmemeval.storage.vector_index import VectorIndex, VectorItem
from longmemeval.storage.vectors_part import VectorsPart

_KEY_BYTES = 250
"""Bytes of a key with its id; there is about one key per message."""


class ExpansionPart(Struct, frozen=True):
    """Content of the file."""

    format: int
    kind: ExpansionKind
    level: ExpansionLevel
    items: tuple[Expansion, ...]
    """One item for every unit, in the history's order."""

    def __post_init__(self) -> None:
        seen: set[str] = set()
        for item in self.items:
            if item.unit_id in seen:
                raise ValueError(f"unit '{item.unit_id}' occurs twice")
            seen.add(item.unit_id)
            if len(item.dates) != (len(item.texts) if self.kind == "event" else 0):
                raise ValueError(f"unit '{item.unit_id}' of kind '{self.kind}' has {len(item.dates)} dates")

    @property
    def texts(self) -> dict[str, tuple[str, ...]]:
        """Texts by unit id, as joining expects them."""
        return {item.unit_id: item.texts for item in self.items}


def encode(kind: ExpansionKind, level: ExpansionLevel, items: Sequence[Expansion]) -> bytes:
    """Return the part's bytes: indented JSON, the same for the same items.

    Raises:
        ValueError: a unit occurs twice, or its dates do not fit its kind and texts.
    """
    part = ExpansionPart(FORMAT, kind, level, tuple(items))
    return msgspec.json.format(msgspec.json.encode(part), indent=2) + b"\n"


def decode(data: bytes, where: str) -> ExpansionPart:
    """Read the part that `encode` wrote.

    Args:
        data: bytes of the file.
        where: the file, for errors.

    Raises:
        FixtureError: newer format, not such a part, or one that contradicts itself.
    """
    return decode_versioned(data, ExpansionPart, where)


class ExpansionKeys(Part[ExpansionPart]):
    """The keys of one kind at one level, made by the chat model of the option `expansion_model`."""

    calls_models = True

    def __init__(self, kind: ExpansionKind, level: ExpansionLevel) -> None:
        self.kind: ExpansionKind = kind
        self.level: ExpansionLevel = level
        self.name = f"expansions-{kind}-{level}"

    def models(self, options: PartOptions) -> tuple[str, ...]:
        """Return the model that makes the keys."""
        return split_options(options.expansion_model)[:1] if options.expansion_model else ()

    def recipe(self, tools: PartTools) -> dict[str, Any]:
        """Return model, prompts and their version."""
        return self._maker(tools).recipe

    def make(self, source: PartInput, tools: PartTools) -> PartOutput:
        """Make the keys of all units."""
        expansions = self._maker(tools).make(MemoryStore.from_haystack(source.haystack))
        return PartOutput(encode(self.kind, self.level, expansions.items), notes=expansions.notes)

    def open(self, stored: Stored) -> ExpansionPart:
        """Return the keys.

        Raises:
            FixtureError: the part is damaged.
        """
        return decode(stored.data(), stored.where)

    def size(self, source: PartInput, options: PartOptions, dimension: int) -> float:
        """Estimate one key per message."""
        return _KEY_BYTES * len(source.messages)

    def flags(self, stored: Stored | None) -> dict[str, str]:
        """Return the model, which must be named."""
        recipe = stored.info.recipe if stored and stored.info else {}
        return {"expansion_model": str(recipe.get("model", "MODEL"))}

    def _maker(self, tools: PartTools) -> ExpansionMaker:
        model = tools.options.expansion_model
        if model is None or model == "rules":
            raise HarnessError(
                f"expansion={self.kind} needs a chat model that makes the keys. Keys by rules were removed: none "
                "raised recall beyond noise, and keyphrases lowered recall@5 of hybrid by up to 3.3 points "
                "(docs/results.md)",
                fix="Name a chat model: --expansion-model MODEL (in a sweep's file `expansion_model` under `prepare`)",
            )
        return chat_maker(tools.chat_model(model), self.kind, self.level)


_KEYS = {
    (kind, level): ExpansionKeys(kind, level) for kind in get_args(ExpansionKind) for level in get_args(ExpansionLevel)
}
ALL_KEYS = tuple(_KEYS.values())
"""The parts of all kinds and levels."""


def keys_part(kind: ExpansionKind, level: ExpansionLevel) -> ExpansionKeys:
    """Return the part with the keys of one kind at one level."""
    return _KEYS[kind, level]


# Parts with the vectors of key expansions: `expansions-<kind>-<level>-vectors.json`.
#
# They have the format of `vector.json`, without a graph, and one item per key: its id is that of the unit followed by
# the key's number.


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


# Combining the keys of a unit with its own text. Every unit keeps some words by which it is found.

JoinMode = Literal["separate", "merge", "replace"]


def joined_words(
    own: UnitWords, unit_ids: Sequence[str], keys: Mapping[str, Sequence[str]], mode: JoinMode
) -> list[list[UnitWords]]:
    """Return the words to find units by, for each index; a unit's score is its best of all indexes.

    Args:
        own: words of the units' messages.
        unit_ids: id of each unit.
        keys: texts of keys by unit id; a unit that is missing or has only blank ones keeps its own words. Unknown ids
            are ignored.
        mode: `merge` adds the words of the keys, each text once, to the unit's own, `replace` uses them instead,
            `separate` puts them in a separate index.
    """
    if mode == "separate":
        separate = count_words(["\n".join(keys.get(unit_id, ())) for unit_id in unit_ids])
        return [[own], [UnitWords(separate, np.arange(len(unit_ids)))]]
    texts = ["\n".join(text for text in dict.fromkeys(keys.get(unit_id, ())) if text.strip()) for unit_id in unit_ids]
    if mode == "replace":
        keyed = np.flatnonzero([bool(text) for text in texts])
        own = UnitWords(own.words, np.where(np.isin(own.units, keyed), -1, own.units))
    return [[own, UnitWords(count_words(texts), np.arange(len(unit_ids)))]]
