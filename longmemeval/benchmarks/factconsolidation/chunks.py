"""The turns of a list of facts, with one fact each or as many as the authors' chunks hold."""

from collections.abc import Sequence

from msgspec import Struct

from longmemeval.llm.tokens import encoding_counter

FACTS_PER_SESSION = 50
ENCODING = "o200k_base"
"""Encoding of gpt-4o-mini, which the authors count with."""


class Layout(Struct, frozen=True):
    """The turns of a list, in sessions."""

    sessions: tuple[tuple[str, ...], ...]
    """Texts of the turns, by session."""
    place: tuple[tuple[int, int], ...]
    """Session and turn of each fact, by serial number."""


def single_facts(facts: Sequence[str]) -> Layout:
    """Return the layout with a turn for each fact, and `FACTS_PER_SESSION` of them in a session."""
    starts = range(0, len(facts), FACTS_PER_SESSION)
    sessions = tuple(tuple(facts[start : start + FACTS_PER_SESSION]) for start in starts)
    return Layout(sessions, tuple(divmod(serial, FACTS_PER_SESSION) for serial in range(len(facts))))


def in_chunks(facts: Sequence[str], tokens: int) -> Layout:
    """Return the layout with a session of one turn for each chunk, with one fact on each line."""
    groups = chunked(facts, tokens)
    place = tuple((number, 0) for number, group in enumerate(groups) for _ in group)
    return Layout(tuple(("\n".join(group),) for group in groups), place)


def chunked(facts: Sequence[str], tokens: int) -> list[list[str]]:
    """Return the facts in groups of at most `tokens` tokens, at least one fact in each."""
    count = encoding_counter(ENCODING).count
    groups: list[list[str]] = []
    room = 0
    for fact in facts:
        size = count(fact) + 1
        if not groups or size > room:
            groups.append([])
            room = tokens
        groups[-1].append(fact)
        room -= size
    return groups
