"""Search for the evidence of ConvoMem's questions: the data only lists conversations and repeats texts."""

import unicodedata
from typing import NamedTuple

from longmemeval.benchmarks.convomem.format import Case, Item, digest

_PLAIN = str.maketrans("\u2018\u2019\u201c\u201d\u2013\u2014", "''\"\"--")
"""Curly quotation marks and long dashes, which NFKC leaves."""


class Evidence(NamedTuple):
    """The evidence of one question."""

    sessions: tuple[int, ...]
    """Indexes in the haystack of the question's own conversations."""
    turns: tuple[tuple[int, int], ...]
    """Indexes of the conversation and of the turn in it, for every turn that contains an evidence text."""
    exact: int
    """Number of evidence texts that a turn contains word for word."""
    normalised: int
    """Number of evidence texts that a turn contains except for white space, Unicode forms, quotes and dashes."""


def find_evidence(case: Case, number: int) -> Evidence:
    """Find the evidence of item `number`, counted from 0, in its haystack.

    Every conversation of an item contains some of its evidence. The other conversations of a test case, including the
    evidence of its other items, are the haystack around it. A text that no turn contains, such as one spread over
    several turns, is in neither count.

    Raises:
        DataError: a conversation is invalid, or belongs to the item but is not in the haystack.
    """
    where, item = case.items[number]
    sessions = _own_sessions(case, where, item)
    texts = [(index, place, turn.content) for index in sessions for place, turn in enumerate(case.session(index))]
    plain = [(index, place, _normalised(words)) for index, place, words in texts]
    turns: set[tuple[int, int]] = set()
    exact = normalised = 0
    for message in item.message_evidences:
        if hits := _saying(message.text, texts):
            exact += 1
        elif hits := _saying(_normalised(message.text), plain):
            normalised += 1
        turns |= hits
    return Evidence(sessions, tuple(sorted(turns)), exact, normalised)


def _saying(text: str, texts: list[tuple[int, int, str]]) -> set[tuple[int, int]]:
    return {(index, place) for index, place, words in texts if words == text}


def _normalised(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).translate(_PLAIN).split())


def _own_sessions(case: Case, where: str, item: Item) -> tuple[int, ...]:
    """Return the indexes of the item's conversations: by id if it is unique, else by content."""
    if not case.shared:
        return tuple(range(len(case.conversations)))
    found: set[int] = set()
    for number, raw in enumerate(item.conversations):
        field = f"{where}.conversations[{number}]"
        own = case.id_of(field, raw)
        same = [index for index, other in enumerate(case.conversation_ids) if own is not None and other == own]
        if len(same) != 1:
            content = digest(case.turns_of(field, raw))
            same = [index for index, other in enumerate(case.digests) if other == content]
        if not same:
            label = f" {own!r}" if own else ""
            what = f"The conversation{label} of the item is not among those of its test case"
            raise case.place.fault(field, what, "Its id, or what is said in it, must be that of one of `conversations`")
        found.update(same)
    return tuple(sorted(found))
