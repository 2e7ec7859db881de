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

DateRule = Literal["since", "begins", "event", "ends"]
_BLOCK = re.compile(r"(?<!\?P)(?<!\?<)<([\w ]+)>")
_OWN = {"we did": "<start>[Ww]e(?:'ve|'d| have| had)? <adverbs>"}


class _Written(Struct, frozen=True, forbid_unknown_fields=True):
    """A pattern as the file has it."""

    predicate: str
    match: str
    object: str = "{object}"
    subject: Literal["speaker", "relative"] = "speaker"
    kind: ClaimKind = "assert"
    date: DateRule = "since"
    change: bool = False
    list: bool = False
    answer: str = ""


class _File(Struct, frozen=True, forbid_unknown_fields=True):
    blocks: dict[str, str]
    pattern: list[_Written]
    question: list[_Written]
    confirmed: list[_Written]
    answers: dict[str, str]
    numbers: dict[str, int]


class Pattern(Struct, frozen=True):
    """One pattern, ready to search with."""

    written: _Written
    search: re.Pattern[str]
    answer: re.Pattern[str] | None = None
    """Of a question: what its answer looks like."""


class Patterns(Struct, frozen=True):
    """All of them."""

    statements: tuple[Pattern, ...]
    questions: tuple[Pattern, ...]
    confirmed: tuple[Pattern, ...]
    """Questions that are answered by yes or no."""
    yes: re.Pattern[str]
    no: re.Pattern[str]
    numbers: dict[str, int]
    """The words of numbers."""


def source() -> str:
    """The file's text; its hash names the rules."""
    return (resources.files("longmemeval.memory.engram.extraction") / "patterns.toml").read_text(encoding="utf-8")


@cache
def patterns() -> Patterns:
    """The shipped patterns, compiled."""
    file = msgspec.convert(tomllib.loads(source()), _File)
    blocks = {**BLOCKS, **_OWN, **file.blocks}
    return Patterns(
        tuple(Pattern(one, re.compile(_expanded(one.match, blocks))) for one in file.pattern),
        tuple(
            Pattern(
                one,
                re.compile(_expanded(one.match, blocks), re.IGNORECASE),
                re.compile(rf"{_expanded(one.answer, blocks)}(?=$|[.!,;]| (?:and|but|since|because|now|for|with)\b)"),
            )
            for one in file.question
        ),
        tuple(Pattern(one, re.compile(_expanded(one.match, blocks))) for one in file.confirmed),
        re.compile(file.answers["yes"], re.IGNORECASE),
        re.compile(file.answers["no"], re.IGNORECASE),
        file.numbers,
    )


def _expanded(pattern: str, blocks: Mapping[str, str]) -> str:
    """`pattern` with the blocks it names, and those they name, in place of their names."""
    while (wider := _BLOCK.sub(lambda found: blocks[found[1]], pattern)) != pattern:
        pattern = wider
    return pattern
