"""The schema of a node's YAML file. Every mistake is reported with the key and the nearest name."""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Literal

import msgspec
from msgspec import Struct
from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from longmemeval.core.text.dates_in_text.mentions import MentionedDate
from longmemeval.errors import nearest
from longmemeval.memory.asking import Drop, number_value, text_value
from longmemeval.memory.working_memory.statements import BLOCKS
from longmemeval.storage.part_files import FORMAT, decode_versioned

# Templates that turn an entry's values into a line of text: `{who} went to {place}[ with {company}]`.
#
# Text in square brackets is left out if one of its places is empty.

_PIECE = re.compile(r"\[([^\[\]]*)\]|([^\[\]]+)")
_PLACE = re.compile(r"\{(\w+)\}")


def places(template: str) -> list[str]:
    """Return the names of the places of `template`, in order.

    Raises:
        ValueError: brackets or braces do not pair.
    """
    if "".join(piece[0] for piece in _PIECE.finditer(template)) != template:
        raise ValueError("square brackets must pair, and must not be nested")
    if re.search(r"[{}]", _PLACE.sub("", template)):
        raise ValueError("a place is a name in braces: {name}")
    return _PLACE.findall(template)


def filled(template: str, values: Mapping[str, str]) -> str:
    """Fill the places of `template` with `values`; a bracket with an empty place is left out."""
    parts = []
    for piece in _PIECE.finditer(template):
        text = piece[2] if piece[1] is None else piece[1]
        if piece[1] is None or all(values.get(name) for name in _PLACE.findall(text)):
            parts.append(_PLACE.sub(lambda place: values.get(place[1], ""), text))
    return " ".join("".join(parts).split())


FieldKind = Literal["text", "list", "choice", "date", "number", "flag"]

BUILT_IN = ("speaker", "other", "clause", "sentence", "caption", "date")
"""Values that a rule may put into a field besides the groups of its own pattern."""

_NAME = re.compile(r"[a-z][a-z0-9_-]*")
_BLOCK = re.compile(r"(?<!\?P)(?<!\?<)<([\w ]+)>")
_RESERVED = ("evidence",)
_DEEPEST, _MOST_EXPANDED = 20, 40_000
"""The maximum depth of words that refer to each other, and the maximum characters of a fully expanded pattern."""


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, use_attribute_docstrings=True)


class FieldType(_Strict):
    """One field of the entries of a node."""

    type: FieldKind = "text"
    """The type of its values; a `date` contains the words of the text, which the harness resolves to days."""
    required: bool = False
    choices: tuple[str, ...] = Field(default=(), strict=False)
    """The allowed values of a `choice`."""
    about: str = ""
    """A description for the chat model."""

    @model_validator(mode="after")
    def _choices_fit(self) -> "FieldType":
        if (self.type == "choice") != bool(self.choices):
            raise ValueError("`choices` are required for a field of `type: choice`, and allowed for no other")
        return self


class NodeRule(_Strict):
    """A way to find entries without a model: a pattern, and templates that fill fields from its groups."""

    match: str
    """A regular expression; `<word>` stands for one of `words`, of this node or of the shipped ones."""
    fields: dict[str, str]
    """Templates by field, of the groups of the pattern and of `speaker`, `other`, `clause`, `sentence`, `caption`."""
    source: Literal["statement", "caption"] = "statement"
    """The text that is matched: what people say about themselves, or captions of pictures that they share."""
    split: str = ""
    """A group that may be a list ("hiking, pottery and chess"): each item is an entry."""


class Filters(_Strict):
    """The fields by which a search may be narrowed."""

    time: str = ""
    """A field of type `date`: a question that names a time finds entries of that time."""
    people: tuple[str, ...] = Field(default=(), strict=False)
    """Fields that name people: a question that names one prefers entries that do."""


class NodeType(_Strict):
    """One memory type."""

    name: str
    summary: str
    """One line that describes its entries."""
    fields: dict[str, FieldType]
    prompt: str
    """The instruction to a chat model, in prose; the form of the reply follows from `fields`."""
    embed: str
    """Template of the text that is embedded and searched, of fields and `said`, the day on which it was said."""
    show: str = ""
    """Template of the line that the answering model reads; empty: `embed`."""
    filters: Filters = Filters()
    words: dict[str, str] = {}
    """Parts of patterns by name, for `<name>` in `match`."""
    rules: tuple[NodeRule, ...] = Field(default=(), strict=False)
    pick: dict[str, dict[str, str]] = {}
    """Patterns by choice for each field of type `choice`; the first that matches sets a field that no rule set."""

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
        """The template of the line that the answering model reads."""
        return self.show or self.embed


def _problems(node: NodeType) -> list[str]:
    """Return the inconsistencies between a node's keys and fields, each with its key."""
    found = [f"fields.{name}: a name has small letters" for name in node.fields if not _NAME.fullmatch(name)]
    found += [f"fields.{name}: the harness fills in this field itself" for name in node.fields if name in _RESERVED]
    if not any(field.required for field in node.fields.values()):
        found.append("fields: at least one must be `required: true`")
    for key, template in (("embed", node.embed), ("show", node.show)):
        found += _unknown_places(key, template, [*node.fields, "said"])
    found += _unknown(node.filters.people, "filters.people", node.fields)
    if node.filters.time:
        found += _unknown([node.filters.time], "filters.time", node.fields)
        if not found and node.fields[node.filters.time].type != "date":
            found.append(f"filters.time: '{node.filters.time}' is not a field of type date")
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
            return [f"{key}: unknown word '{name}'. {nearest(name, words)}"]
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
    known = [str(name) for name in valid] if isinstance(valid, (list, tuple, dict)) else []
    return [f"{key}: unknown name '{name}'. {nearest(name, known)}" for name in names if name not in known]


@cache
def compiled(pattern: str, words: tuple[tuple[str, str], ...]) -> re.Pattern[str]:
    """Compile a rule's pattern with the words it refers to expanded, recursively.

    Raises:
        re.error: it is not a regular expression.
        ValueError: it refers to an unknown word, or the words refer to each other in a circle.
    """
    blocks = {**BLOCKS, **dict(words)}
    depth = 0
    while block := _BLOCK.search(pattern):
        if block[1] not in blocks:
            raise ValueError(f"unknown word '{block[1]}'")
        depth += 1
        pattern = _BLOCK.sub(lambda found: blocks.get(found[1], found[0]), pattern)
        if depth > _DEEPEST or len(pattern) > _MOST_EXPANDED:
            raise ValueError("its words refer to each other in a circle, or it is too long")
    return re.compile(pattern)


# Entries of nodes, each with its evidence, the words of the text that prove it.

Value = str | list[str] | float | bool

MAX_TEXT = 400
"""Maximum characters of a value."""
MAX_ITEMS = 20
"""Maximum items of a list."""


class Entry(Struct, frozen=True, omit_defaults=True):
    """One memory, of the type of its node."""

    node: str
    values: dict[str, Value]
    """Values by field; empty ones are left out. The value of a date is the words of the text."""
    evidence: str
    """The words that prove it, verbatim."""
    message_ids: tuple[str, ...]
    """The messages that contain the evidence; several only if several turns contain the same words."""
    thread_id: str
    said_at: datetime
    dates: dict[str, MentionedDate] = {}
    """Days by field, for fields whose words name days."""


class NodesFile(Struct, frozen=True):
    """The contents of a part."""

    format: int
    entries: tuple[Entry, ...]
    dropped: dict[str, int] = {}
    """Entries that were dropped, by reason."""


def encode_entries(entries: Sequence[Entry], dropped: Mapping[str, int]) -> bytes:
    """Return the part's bytes: indented JSON, the same for the same entries."""
    file = NodesFile(FORMAT, tuple(entries), dict(sorted(dropped.items())))
    return msgspec.json.format(msgspec.json.encode(file, order="deterministic"), indent=2) + b"\n"


def decode_entries(data: bytes, where: str) -> NodesFile:
    """Return the entries that `encode_entries` wrote.

    Raises:
        FixtureError: newer format, or not such a part.
    """
    return decode_versioned(data, NodesFile, where)


def text_of(entry: Entry, template: str) -> str:
    """Render an entry by one of its node's templates; a date as days, or in its own words if it names none.

    `{said}` is the day on which it was said, unless the node has a field of that name.
    """
    values = {"said": f"{entry.said_at:%Y-%m-%d}"} | {name: _as_text(value) for name, value in entry.values.items()}
    values |= {name: day.shown for name, day in entry.dates.items()}
    return filled(template, values)


def _as_text(value: Value) -> str:
    if isinstance(value, list):
        return ", ".join(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else value


def checked_values(raw: Mapping[str, object], node: NodeType) -> dict[str, Value] | Drop:
    """Return the values of an entry converted to the node's types, or why the entry is dropped.

    Blank values are left out, and so are fields that the node does not have; a number may be written as text.
    """
    values: dict[str, Value] = {}
    for name, field in node.fields.items():
        try:
            value = _converted(raw.get(name), field.type, field.choices)
        except ValueError as error:
            return Drop("type", f"{name}: {error}")
        if value is None:
            if field.required:
                return Drop("required", f"{name} is missing")
            continue
        values[name] = value
    return values


def _converted(raw: object, kind: str, choices: Sequence[str]) -> Value | None:
    if raw is None or raw == "" or raw == []:
        return None
    if kind == "flag":
        if not isinstance(raw, bool):
            raise ValueError("it is neither true nor false")
        return raw
    if kind == "number":
        return number_value(raw)
    if kind == "list":
        items = raw if isinstance(raw, list) else [raw]
        if len(items) > MAX_ITEMS:
            raise ValueError(f"{len(items)} items, at most {MAX_ITEMS}")
        return [text for text in (text_value(item, MAX_TEXT) for item in items) if text] or None
    text = text_value(raw, MAX_TEXT)
    if kind == "choice" and text:
        chosen = {choice.casefold(): choice for choice in choices}.get(text.casefold())
        if chosen is None:
            raise ValueError(f"{text[:40]!r} is none of {', '.join(choices)}")
        return chosen
    return text or None
