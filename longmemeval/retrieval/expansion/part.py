"""The fixture part of one kind of expansions: `expansions-<kind>-<level>.json`."""

from collections.abc import Sequence
from typing import get_args

import msgspec
from msgspec import Struct

from longmemeval.retrieval.expansion.keys import Expansion, ExpansionKind, ExpansionLevel
from longmemeval.storage.format import FORMAT, decode_versioned


class ExpansionPart(Struct, frozen=True):
    """The file's content."""

    format: int
    kind: ExpansionKind
    level: ExpansionLevel
    items: tuple[Expansion, ...]
    """One for every unit, in the history's order."""

    def __post_init__(self) -> None:
        seen: set[str] = set()
        for item in self.items:
            if item.unit_id in seen:
                raise ValueError(f"unit '{item.unit_id}' stands there twice")
            seen.add(item.unit_id)
            if len(item.dates) != (len(item.texts) if self.kind == "event" else 0):
                raise ValueError(f"unit '{item.unit_id}' of kind '{self.kind}' has {len(item.dates)} dates")

    @property
    def texts(self) -> dict[str, tuple[str, ...]]:
        """Unit id to its texts, as joining takes them."""
        return {item.unit_id: item.texts for item in self.items}


def part_name(kind: ExpansionKind, level: ExpansionLevel) -> str:
    """The name of the part in a fixture; its file has `.json` behind."""
    return f"expansions-{kind}-{level}"


_KINDS_AND_LEVELS: dict[str, tuple[ExpansionKind, ExpansionLevel]] = {
    part_name(kind, level): (kind, level) for kind in get_args(ExpansionKind) for level in get_args(ExpansionLevel)
}


def is_expansion_part(name: str) -> bool:
    """Whether a part of this name holds expansions."""
    return name in _KINDS_AND_LEVELS


def kind_and_level(name: str) -> tuple[ExpansionKind, ExpansionLevel]:
    """What `part_name` made `name` of.

    Raises:
        ValueError: no part has this name.
    """
    try:
        return _KINDS_AND_LEVELS[name]
    except KeyError:
        raise ValueError(f"{name!r} is not a part of expansions") from None


def encode(kind: ExpansionKind, level: ExpansionLevel, items: Sequence[Expansion]) -> bytes:
    """The part's bytes: indented JSON, the same for the same items.

    Raises:
        ValueError: a unit stands there twice, or its dates do not fit its kind and texts.
    """
    part = ExpansionPart(FORMAT, kind, level, tuple(items))
    return msgspec.json.format(msgspec.json.encode(part), indent=2) + b"\n"


def decode(data: bytes, where: str) -> ExpansionPart:
    """The part that `encode` wrote.

    Args:
        data: the file's bytes.
        where: the file, for errors.

    Raises:
        FixtureError: newer format, not such a part, or one that contradicts itself.
    """
    return decode_versioned(data, ExpansionPart, where)
