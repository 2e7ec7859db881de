"""The fixture part of one kind of expansions: `expansions-<kind>-<level>.json`."""

from collections.abc import Sequence
from typing import Any, get_args

import msgspec
from msgspec import Struct

from longmemeval.core.part_options import PartOptions
from longmemeval.errors import HarnessError
from longmemeval.ranking.expansion.chat import chat_maker
from longmemeval.ranking.expansion.keys import Expansion, ExpansionKind, ExpansionLevel, ExpansionMaker
from longmemeval.storage.memory_store import MemoryStore
from longmemeval.storage.part_files import FORMAT, decode_versioned
from longmemeval.storage.parts import Part, PartInput, PartOutput, PartTools, Stored

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
        return (options.expansion_model,) if options.expansion_model else ()

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
