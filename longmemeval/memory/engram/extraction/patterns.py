"""The patterns of the rules, read from `patterns.toml`."""

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib import resources
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
    """A pattern of what ends as written in the file."""

    match: str
    of: tuple[str, ...]
    kind: Literal["ends", "parts", "renames"] = "ends"
    says: str = ""


class _File(Struct, frozen=True, forbid_unknown_fields=True):
    blocks: dict[str, str]
    pattern: list[_Written]
    question: list[_Written]
    confirmed: list[_Written]
    ending: list[WrittenEnding]
    answers: dict[str, str]
    numbers: dict[str, int]


class Pattern(Struct, frozen=True):
    """One pattern, ready to search with."""

    written: _Written
    search: re.Pattern[str]
    answer: re.Pattern[str] | None = None
    """Matches the answer, for a question."""


class Ending(Struct, frozen=True):
    """One pattern of what ends, ready to search with."""

    written: WrittenEnding
    search: re.Pattern[str]


class Patterns(Struct, frozen=True):
    """All patterns."""

    statements: tuple[Pattern, ...]
    questions: tuple[Pattern, ...]
    confirmed: tuple[Pattern, ...]
    """Questions that are answered by yes or no."""
    endings: tuple[Ending, ...]
    yes: re.Pattern[str]
    no: re.Pattern[str]
    numbers: dict[str, int]
    """Numbers by their words."""


def source() -> str:
    """Return the file's text; its hash identifies the rules."""
    return (resources.files("longmemeval.memory.engram.extraction") / "patterns.toml").read_text(encoding="utf-8")


@cache
def patterns() -> Patterns:
    """Return the shipped patterns, compiled."""
    file = msgspec.convert(tomllib.loads(source()), _File)
    blocks = {**BLOCKS, **_OWN, **file.blocks}
    return Patterns(
        tuple(Pattern(written, re.compile(_expanded(written.match, blocks))) for written in file.pattern),
        tuple(
            Pattern(
                written,
                re.compile(_expanded(written.match, blocks), re.IGNORECASE),
                re.compile(
                    rf"{_expanded(written.answer, blocks)}(?=$|[.!,;]| (?:and|but|since|because|now|for|with)\b)"
                ),
            )
            for written in file.question
        ),
        tuple(Pattern(written, re.compile(_expanded(written.match, blocks))) for written in file.confirmed),
        tuple(Ending(written, re.compile(_expanded(written.match, blocks))) for written in file.ending),
        re.compile(file.answers["yes"], re.IGNORECASE),
        re.compile(file.answers["no"], re.IGNORECASE),
        file.numbers,
    )


def _expanded(pattern: str, blocks: Mapping[str, str]) -> str:
    """Return `pattern` with the names of blocks replaced by the blocks, recursively."""
    while (wider := _BLOCK.sub(lambda found: blocks[found[1]], pattern)) != pattern:
        pattern = wider
    return pattern
