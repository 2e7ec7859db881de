"""What a node's YAML file may say. Everything a user can get wrong is refused with the key and the nearest name."""

import re
from collections.abc import Mapping
from functools import cache
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from longmemeval.errors import nearest
from longmemeval.memory.nodes.templates import places
from longmemeval.memory.working_memory.vocabulary import BLOCKS

FieldKind = Literal["text", "list", "choice", "date", "number", "flag"]

BUILT_IN = ("speaker", "other", "clause", "sentence", "caption", "date")
"""What a rule may put into a field besides the groups of its own pattern."""

_NAME = re.compile(r"[a-z][a-z0-9_-]*")
_BLOCK = re.compile(r"(?<!\?P)(?<!\?<)<([\w ]+)>")
_RESERVED = ("evidence",)
_DEEPEST, _MOST_EXPANDED = 20, 40_000
"""How deep words may name each other, and characters of a pattern with all of them put in."""


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, use_attribute_docstrings=True)


class FieldType(_Strict):
    """One field of the entries of a node."""

    type: FieldKind = "text"
    """What it holds; a `date` is the words of the text, which become days by the harness's rules."""
    required: bool = False
    choices: tuple[str, ...] = Field(default=(), strict=False)
    """Of a `choice`: what it may be."""
    about: str = ""
    """What the chat model is told of it."""

    @model_validator(mode="after")
    def _choices_fit(self) -> "FieldType":
        if (self.type == "choice") != bool(self.choices):
            raise ValueError("`choices` are what a field of `type: choice` has, and no other")
        return self


class NodeRule(_Strict):
    """How entries are found without a model: a pattern, and what of it goes into which field."""

    match: str
    """A regular expression; `<word>` stands for one of `words`, of this node or of the shipped ones."""
    fields: dict[str, str]
    """Field to template, of the groups of the pattern and of `speaker`, `other`, `clause`, `sentence`, `caption`."""
    source: Literal["statement", "caption"] = "statement"
    """Looked for in what people state of themselves, or in the captions of pictures that they share."""
    split: str = ""
    """A group that may be a list ("hiking, pottery and chess"): each item is an entry."""


class Filters(_Strict):
    """By which fields a search may narrow."""

    time: str = ""
    """A field of type `date`: a question that names a time finds entries of that time."""
    people: tuple[str, ...] = Field(default=(), strict=False)
    """Fields that name people: a question that names one prefers entries that do."""


class NodeType(_Strict):
    """One memory type."""

    name: str
    summary: str
    """One line: what its entries are."""
    fields: dict[str, FieldType]
    prompt: str
    """What a chat model is to extract, in prose; the form of the reply follows from `fields`."""
    embed: str
    """Template of the text by which an entry is found."""
    show: str = ""
    """Template of the line the answering model reads; empty: `embed`."""
    filters: Filters = Filters()
    words: dict[str, str] = {}
    """Parts of patterns by name, for `<name>` in `match`."""
    rules: tuple[NodeRule, ...] = Field(default=(), strict=False)
    pick: dict[str, dict[str, str]] = {}
    """Field of type `choice` to choice to a pattern: the first whose pattern the sentence has; a rule may set it."""

    @field_validator("name")
    @classmethod
    def _is_a_name(cls, name: str) -> str:
        if not _NAME.fullmatch(name):
            raise ValueError("a name has small letters, digits and hyphens")
        return name

    @model_validator(mode="after")
    def _fits_together(self) -> "NodeType":
        problem = next(iter(_problems(self)), "")
        if problem:
            raise ValueError(problem)
        return self

    @property
    def shown(self) -> str:
        """The template of the line the answering model reads."""
        return self.show or self.embed


def _problems(node: NodeType) -> list[str]:
    """What in a node's keys does not fit its fields, each with its key."""
    found = [f"fields.{name}: a name has small letters" for name in node.fields if not _NAME.fullmatch(name)]
    found += [f"fields.{name}: the harness fills this one in itself" for name in node.fields if name in _RESERVED]
    if not any(field.required for field in node.fields.values()):
        found.append("fields: at least one must be `required: true`")
    for key, template in (("embed", node.embed), ("show", node.show)):
        found += _unknown_places(key, template, node.fields)
    found += _unknown(node.filters.people, "filters.people", node.fields)
    if node.filters.time:
        found += _unknown([node.filters.time], "filters.time", node.fields)
        if not found and node.fields[node.filters.time].type != "date":
            found.append(f"filters.time: '{node.filters.time}' is no field of type date")
    for name, choices in node.pick.items():
        key = f"pick.{name}"
        wrong = _unknown([name], key, node.fields)
        found += wrong or _unknown(choices, key, node.fields[name].choices)
        found += [problem for pattern in choices.values() for problem in _pattern_problems(key, pattern, node)]
    for number, rule in enumerate(node.rules):
        found += _rule_problems(f"rules[{number}]", rule, node)
    return found


def _rule_problems(key: str, rule: NodeRule, node: NodeType) -> list[str]:
    found = _pattern_problems(f"{key}.match", rule.match, node)
    if found:
        return found
    groups = [*compiled(rule.match, tuple(node.words.items())).groupindex, *BUILT_IN]
    found += _unknown(rule.fields, f"{key}.fields", node.fields)
    for name, template in rule.fields.items():
        found += _unknown_places(f"{key}.fields.{name}", template, groups)
    if rule.split:
        found += _unknown([rule.split], f"{key}.split", groups)
    set_otherwise = {*rule.fields, *node.pick}
    needed = [name for name, field in node.fields.items() if field.required and name not in set_otherwise]
    return found + [f"{key}.fields: the required field '{name}' is not set" for name in needed]


def _pattern_problems(key: str, pattern: str, node: NodeType) -> list[str]:
    words = {**BLOCKS, **node.words}
    for name in _BLOCK.findall(pattern):
        if name not in words:
            return [f"{key}: there is no word '{name}'. {nearest(name, words)}"]
    try:
        compiled(pattern, tuple(node.words.items()))
    except (re.error, ValueError, RecursionError) as error:
        return [f"{key}: {error}"]
    return []


def _unknown_places(key: str, template: str, valid: Mapping[str, object] | list[str]) -> list[str]:
    try:
        return _unknown(places(template), key, valid)
    except ValueError as error:
        return [f"{key}: {error}"]


def _unknown(names: "Mapping[str, object] | list[str] | tuple[str, ...]", key: str, valid: object) -> list[str]:
    known = [str(one) for one in valid] if isinstance(valid, (list, tuple, dict)) else []
    return [f"{key}: there is no '{name}'. {nearest(name, known)}" for name in names if name not in known]


@cache
def compiled(pattern: str, words: tuple[tuple[str, str], ...]) -> re.Pattern[str]:
    """A rule's pattern with the words it names, and those they name, put in.

    Raises:
        re.error: it is no regular expression.
        ValueError: it names a word that there is not, or the words name each other in a circle.
    """
    blocks = {**BLOCKS, **dict(words)}
    depth = 0
    while block := _BLOCK.search(pattern):
        if block[1] not in blocks:
            raise ValueError(f"there is no word '{block[1]}'")
        depth += 1
        pattern = _BLOCK.sub(lambda found: blocks.get(found[1], found[0]), pattern)
        if depth > _DEEPEST or len(pattern) > _MOST_EXPANDED:
            raise ValueError("its words name each other in a circle, or it is too long")
    return re.compile(pattern)
