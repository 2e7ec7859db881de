"""Where the evidence of a question of ConvoMem is: the data names conversations and repeats texts, no more."""

import unicodedata
from typing import NamedTuple

from longmemeval.benchmarks.convomem.format import Case, Item, digest

_PLAIN = str.maketrans("\u2018\u2019\u201c\u201d\u2013\u2014", "''\"\"--")
"""Curly quotation marks and long dashes, which NFKC leaves."""


class Evidence(NamedTuple):
    """The evidence of one question."""

    sessions: tuple[int, ...]
    """Indices in the haystack of the question's own conversations."""
    turns: tuple[tuple[int, int], ...]
    """Index of the conversation and of the turn in it, for every turn that says an evidence text."""
    exact: int
    """Evidence texts that are word for word in a turn."""
    normalised: int
    """Evidence texts that are in a turn except for white space, Unicode forms, quotation marks and dashes."""


def find_evidence(case: Case, number: int) -> Evidence:
    """Find the evidence of item `number`, counted from 0, in its haystack.

    Every conversation of an item holds some of its evidence. The other conversations of a test case, evidence of its
    other items among them, are what it is hidden in. A text that no turn says, such as one spread over several turns,
    is in neither count.

    Raises:
        DataError: a conversation is not as the format demands, or is the item's and not in the haystack.
    """
    where, item = case.items[number]
    sessions = _own_sessions(case, where, item)
    said = [(index, place, turn.content) for index in sessions for place, turn in enumerate(case.session(index))]
    plain = [(index, place, _normalised(words)) for index, place, words in said]
    turns: set[tuple[int, int]] = set()
    exact = normalised = 0
    for message in item.message_evidences:
        if hits := _saying(message.text, said):
            exact += 1
        elif hits := _saying(_normalised(message.text), plain):
            normalised += 1
        turns |= hits
    return Evidence(sessions, tuple(sorted(turns)), exact, normalised)


def _saying(text: str, said: list[tuple[int, int, str]]) -> set[tuple[int, int]]:
    return {(index, place) for index, place, words in said if words == text}


def _normalised(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).translate(_PLAIN).split())


def _own_sessions(case: Case, where: str, item: Item) -> tuple[int, ...]:
    """Indices of the item's conversations: by id where one conversation alone has it, else by what is said."""
    if not case.shared:
        return tuple(range(len(case.conversations)))
    found: set[int] = set()
    for number, raw in enumerate(item.conversations):
        field = f"{where}.conversations[{number}]"
        own = case.id_of(field, raw)
        same = [index for index, one in enumerate(case.conversation_ids) if own is not None and one == own]
        if len(same) != 1:
            said = digest(case.turns_of(field, raw))
            same = [index for index, one in enumerate(case.digests) if one == said]
        if not same:
            label = f" {own!r}" if own else ""
            what = f"The conversation{label} of the item is not among those of its test case"
            raise case.place.fault(field, what, "Its id, or what is said in it, must be that of one of `conversations`")
        found.update(same)
    return tuple(sorted(found))
