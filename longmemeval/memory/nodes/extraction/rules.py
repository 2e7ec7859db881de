"""The extractor that needs no model: the patterns of the nodes, applied to what people say about themselves."""

import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import lru_cache

from msgspec import Struct

from longmemeval.core.text.dates_in_text.mentions import DatedText, MentionedDate, dated_sentences
from longmemeval.memory.nodes.extraction.chat import is_self_sufficient, retold
from longmemeval.memory.nodes.schema import Entry, NodeRule, NodeType, Value, checked_values, compiled, filled
from longmemeval.memory.working_memory.statements import clause, is_claimed, is_role_play, shortened, statements
from longmemeval.records import Message, Session, Turn

VERSION = 3
"""Increase with every change of what the rules find; the patterns are hashed as well."""

_FIRST_PERSON = re.compile(r"\b(?:I|my|My|me|[Ww]e|[Oo]ur|us)\b")
_ITEMS = re.compile(r",? and (?:also )?|, (?:plus )?| & |; ")
_FINITE = re.compile(r"\b(?:is|are|was|were|has|have|had|brings?|makes?|can|will|would)\b|^not ")
_LONGEST_ITEM = 5
"""Maximum words of an item in a list of short items."""


class SpokenTurn(Struct, frozen=True):
    """A turn as rules read it."""

    turn: Turn
    message: Message
    speaker: str
    """The name, or "the user"."""
    other: str
    """The person addressed."""


def rule_entries(session: Session, messages: Sequence[Message], nodes: Sequence[NodeType]) -> list[Entry]:
    """Return the entries that the rules of `nodes` find in a session, turn by turn.

    Args:
        session: its turns are read, except those of an assistant without a name.
        messages: its stored messages, one for each turn.
        nodes: the nodes to find entries of.
    """
    names = list(dict.fromkeys(turn.speaker for turn in session.turns if turn.speaker))
    found: list[Entry] = []
    for turn, message in zip(session.turns, messages, strict=True):
        if turn.role != "user" and not turn.speaker:
            continue
        if is_role_play(turn.content):
            break
        others = [name for name in names if name != turn.speaker]
        other = others[0] if len(others) == 1 else "the others" if others else "the assistant"
        spoken = SpokenTurn(turn, message, turn.speaker or "the user", other)
        found += _entries_of_turn(spoken, session.date, nodes)
    return found


def _entries_of_turn(spoken: SpokenTurn, date: datetime, nodes: Sequence[NodeType]) -> Iterator[Entry]:
    stated = list(statements(spoken.turn.content, _FIRST_PERSON))
    dates = dated_sentences(stated, date)
    seen: set[tuple[str, str]] = set()
    for node in nodes:
        for entry in _entries_of_node(spoken, node, stated, dates):
            key = (node.name, repr(sorted(entry.values.items(), key=lambda item: item[0])))
            if key not in seen:
                seen.add(key)
                yield entry


def _entries_of_node(spoken: SpokenTurn, node: NodeType, stated: Sequence[str], dates: DatedText) -> Iterator[Entry]:
    words = tuple(node.words.items())
    rules = [rule for rule in node.rules if rule.source == "statement"]
    patterns = tuple(rule.match for rule in rules)
    for sentence in stated:
        taken: list[tuple[int, int]] = []
        for number, match in _matches(patterns, words, sentence):
            begin, stop = _read_span(match)
            if any(start < stop and begin < end for start, end in taken):
                continue
            entries = list(_entries(spoken, node, rules[number], match, sentence, dates.dates_of(sentence)))
            if entries:
                taken.append((begin, stop))
            yield from entries
    if spoken.turn.caption:
        for rule in node.rules:
            if rule.source == "caption" and (shown := compiled(rule.match, words).search(spoken.turn.caption)):
                yield from _entries(spoken, node, rule, shown, spoken.turn.caption, ())


@lru_cache(maxsize=1 << 15)
def _matches(
    patterns: tuple[str, ...], words: tuple[tuple[str, str], ...], sentence: str
) -> tuple[tuple[int, re.Match[str]], ...]:
    """Return what the patterns of a node find in a sentence that claims it, with each pattern's place.

    Histories of one data set share sessions: a sentence that was searched before is not searched again.
    """
    return tuple(
        (number, match)
        for number, pattern in enumerate(patterns)
        for match in compiled(pattern, words).finditer(sentence)
        if is_claimed(sentence, _first_word(match))
    )


def _entries(
    spoken: SpokenTurn,
    node: NodeType,
    rule: NodeRule,
    match: re.Match[str],
    sentence: str,
    dates: Sequence[MentionedDate],
) -> Iterator[Entry]:
    caption = sentence if rule.source == "caption" else ""
    around = {"caption": caption} if caption else _around(sentence, match)
    day = _nearest(dates, sentence, match.start())
    groups = {name: value.strip() for name, value in match.groupdict().items() if value}
    for item in _listed(groups.get(rule.split, "")) if rule.split else [""]:
        places = groups | ({rule.split: item} if item else {}) | around
        values = {
            name: filled(template, _retold(places, spoken) | {"date": day.phrase if day else ""})
            for name, template in rule.fields.items()
        }
        if not caption and not all(is_self_sufficient(text, spoken.speaker) for text in values.values()):
            continue
        values = _picked(node, values, around.get("sentence", caption))
        dated = _dated_fields(node, rule, values, day)
        checked = checked_values({**values, **{name: date.phrase for name, date in dated.items()}}, node)
        if isinstance(checked, dict):
            yield _entry(spoken, node, checked, dated, sentence)


def _first_word(match: re.Match[str]) -> int:
    return match.end() - len(match[0].lstrip(" ,;:("))


def _read_span(match: re.Match[str]) -> tuple[int, int]:
    """Return the span of a sentence that a match reads: its last group, or all of it.

    No two rules of a node read the same words.
    """
    return match.span(match.lastindex) if match.lastindex else match.span()


def _entry(
    spoken: SpokenTurn, node: NodeType, values: dict[str, Value], dated: dict[str, MentionedDate], evidence: str
) -> Entry:
    return Entry(
        node=node.name,
        values=values,
        evidence=evidence,
        message_ids=(spoken.message.message_id,),
        thread_id=spoken.message.thread_id,
        said_at=spoken.message.created_at,
        dates=dated,
    )


def _around(sentence: str, match: re.Match[str]) -> dict[str, str]:
    start = _first_word(match)
    return {
        "clause": clause(sentence, start, match.end()).rstrip(".!"),
        "sentence": shortened(sentence, start, match.end()).rstrip(".!"),
    }


def _retold(places: dict[str, str], spoken: SpokenTurn) -> dict[str, str]:
    """Retell the values of a rule's places: whole clauses in the third person, pieces with names for pronouns."""
    texts = {}
    for name, text in places.items():
        whole = text if name == "caption" else retold(text, spoken.speaker, spoken.other)
        texts[name] = whole if name in ("clause", "sentence") or not text[:1].islower() else _lower_first(whole)
    return texts | {"speaker": spoken.speaker, "other": spoken.other}


def _lower_first(text: str) -> str:
    return text[:1].lower() + text[1:]


def _picked(node: NodeType, values: dict[str, str], sentence: str) -> dict[str, str]:
    """Return `values` with the choices that the node's patterns find in the sentence."""
    words = tuple(node.words.items())
    picked = dict(values)
    for name, choices in node.pick.items():
        if not picked.get(name):
            fitting = (choice for choice, pattern in choices.items() if compiled(pattern, words).search(sentence))
            picked[name] = next(fitting, "")
    return picked


def _dated_fields(
    node: NodeType, rule: NodeRule, values: dict[str, str], day: MentionedDate | None
) -> dict[str, MentionedDate]:
    """Assign the date of the sentence to the fields of type date that a rule does not set."""
    names = [name for name, field in node.fields.items() if field.type == "date"]
    return {name: day for name in names if day and (name not in rule.fields or values.get(name) == day.phrase)}


def _nearest(dates: Sequence[MentionedDate], sentence: str, start: int) -> MentionedDate | None:
    """Return the first date after `start`, else the last one before it."""
    behind = [date for date in dates if sentence.find(date.phrase) >= start]
    return behind[0] if behind else dates[-1] if dates else None


def _listed(value: str) -> list[str]:
    """Split a list of short items; any other value with an "and" is returned whole."""
    parts = [part.strip() for part in _ITEMS.split(value) if part and part.strip()]
    if len(parts) < 2 or any(len(part.split()) > _LONGEST_ITEM or _FINITE.search(part) for part in parts):
        return [value]
    return parts
