"""The patterns of the rules, read from `patterns.toml` and `endings.toml`."""

import re
import tomllib
from collections import Counter
from collections.abc import Mapping
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import Literal

import msgspec
from msgspec import Struct

from longmemeval.memory.engram.records import ClaimKind
from longmemeval.memory.working_memory.vocabulary import BLOCKS

DateRule = Literal["since", "lasting", "begins", "event", "ends", "stretch", "while"]
_BLOCK = re.compile(r"(?<!\?P)(?<!\?<)<([\w ]+)>")
_OWN = {"we did": "<start>[Ww]e(?:'ve|'d| have| had)? <adverbs>"}


class _Written(Struct, frozen=True, forbid_unknown_fields=True):
    """A pattern as written in the file."""

    predicate: str
    match: str
    object: str = "{object}"
    subject: Literal["speaker", "relative"] = "speaker"
    kind: ClaimKind = "assert"
    date: DateRule = "since"
    change: bool = False
    list: bool = False
    answer: str = ""


class WrittenEnding(Struct, frozen=True, forbid_unknown_fields=True):
    """A pattern of endings as written in the file."""

    match: str
    of: str | tuple[str, ...]
    """Predicates, or the name of a list of them."""
    kind: Literal["ends", "parts", "renames"] = "ends"
    says: str = ""
    only: str = ""
    """Pattern of the values that end; empty: any value."""


class _File(Struct, frozen=True, forbid_unknown_fields=True):
    blocks: dict[str, str]
    pattern: list[_Written]
    question: list[_Written]
    confirmed: list[_Written]
    answers: dict[str, str]
    numbers: dict[str, int]


class _Endings(Struct, frozen=True, forbid_unknown_fields=True):
    sets: dict[str, tuple[str, ...]]
    blocks: dict[str, str]
    ending: list[WrittenEnding]


class Pattern(Struct, frozen=True):
    """One compiled pattern."""

    written: _Written
    search: re.Pattern[str]
    answer: re.Pattern[str] | None = None
    """Pattern of the answer, for a question."""


class Ending(Struct, frozen=True):
    """One compiled pattern of endings."""

    written: WrittenEnding
    search: re.Pattern[str]
    of: tuple[str, ...]
    """Predicates, or prefixes of predicates."""


class Patterns(Struct, frozen=True):
    """All patterns."""

    statements: tuple[Pattern, ...]
    questions: tuple[Pattern, ...]
    confirmed: tuple[Pattern, ...]
    """Questions that are answered with yes or no."""
    endings: tuple[Ending, ...]
    yes: re.Pattern[str]
    no: re.Pattern[str]
    numbers: dict[str, int]
    """Numbers by their words."""


def source() -> str:
    """Return the texts of the files; their hash identifies the rules."""
    return "".join(read(name) for name in ("patterns", "endings", "clauses"))


def read(name: str) -> str:
    """Return the text of one file of the rules."""
    folder = resources.files("longmemeval.memory.engram.extraction")
    return (folder / f"{name}.toml").read_text(encoding="utf-8")


@cache
def _file() -> _File:
    return msgspec.convert(tomllib.loads(read("patterns")), _File)


@cache
def _ending_file() -> _Endings:
    return msgspec.convert(tomllib.loads(read("endings")), _Endings)


@cache
def patterns() -> Patterns:
    """Return the shipped patterns, compiled."""
    file, endings, sets = _file(), _ending_file().ending, _ending_file().sets
    follows = r"(?=$|[.!,;]| (?:and|but|since|because|now|for|with)\b)"
    return Patterns(
        tuple(Pattern(written, compiled(written.match)) for written in file.pattern),
        tuple(
            Pattern(written, compiled(written.match, re.IGNORECASE), compiled(written.answer + follows))
            for written in file.question
        ),
        tuple(Pattern(written, compiled(written.match)) for written in file.confirmed),
        tuple(
            Ending(written, compiled(written.match), sets[written.of] if isinstance(written.of, str) else written.of)
            for written in endings
        ),
        re.compile(file.answers["yes"], re.IGNORECASE),
        re.compile(file.answers["no"], re.IGNORECASE),
        file.numbers,
    )


def compiled(pattern: str, flags: int = 0, blocks: Mapping[str, str] = MappingProxyType({})) -> re.Pattern[str]:
    """Compile a pattern, with the names of blocks replaced by the blocks, recursively.

    A named group may occur several times; see `groups_of`.

    Args:
        pattern: as written in a file of the rules.
        flags: flags of the regular expression.
        blocks: additional blocks by name.
    """
    blocks = {**BLOCKS, **_OWN, **_file().blocks, **_ending_file().blocks, **blocks}
    while (wider := _BLOCK.sub(lambda found: blocks[found[1]], pattern)) != pattern:
        pattern = wider
    seen = Counter[str]()

    def numbered(group: re.Match[str]) -> str:
        seen[group[1]] += 1
        return group[0] if seen[group[1]] == 1 else f"(?P<{group[1]}_{seen[group[1]]}>"

    return re.compile(re.sub(r"\(\?P<(\w+)>", numbered, pattern), flags)


def groups_of(match: re.Match[str]) -> dict[str, str]:
    """Return the groups that matched something, stripped; a group that occurs twice in a pattern has one name."""
    return {re.sub(r"_\d+$", "", name): value.strip() for name, value in match.groupdict().items() if value}
