"""Messages that differ only in the end of a sentence: versions of one statement, of which the newest holds.

"The mayor of Ulm is Ivo Gönner." and, later, "The mayor of Ulm is Gunter Czisch.": words and vectors find both and
cannot tell them apart. Only plain sentences about others are compared; statements of speakers about themselves become
facts.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise

import numpy as np

from longmemeval.memory.engram.recall.view import Places
from longmemeval.memory.working_memory.statements import sentences
from longmemeval.records import Message

_NUMBER = re.compile(r"^\W*\d+[.):]\s+")
_LONGEST = 40
_LONGEST_END = 10
"""Maximum words of a sentence that is compared, and of its end."""
_BE = frozenset(["is", "are", "was", "were", "has", "have", "had", "became"])
_BEFORE_VALUE = frozenset(["of", "in", "by", "to", "at", "for", "with", "as", "from", "on"])
_VERB = re.compile(r"[a-z]{2,}(?:s|ed)")
_OF_THE_SPEAKERS = re.compile(r"\b(?:I|[Ww]e|[Mm]y|[Oo]ur|[Mm]e|[Yy]ou|[Yy]our)\b")


@lru_cache(maxsize=1 << 16)
def beginnings(text: str) -> tuple[str, ...]:
    """Return the beginnings that a sentence may share with another version of it, longest first; none for other texts.

    A beginning has a verb and ends with a verb or a preposition; a name or a short phrase follows it.
    """
    found = list(sentences(_NUMBER.sub("", text.strip())))
    words = found[0].rstrip(".! ").split() if len(found) == 1 else []
    if not 3 <= len(words) <= _LONGEST or text.rstrip().endswith("?") or _OF_THE_SPEAKERS.search(text):
        return ()
    shareable = []
    verb = False
    for place, (word, _) in enumerate(pairwise(words), start=1):
        is_verb = place > 1 and (word in _BE or _VERB.fullmatch(word) is not None)
        verb = verb or is_verb
        if (is_verb or (verb and word in _BEFORE_VALUE)) and _is_value(words[place:]):
            shareable.append(" ".join(words[:place]).casefold())
    return tuple(reversed(shareable))


def _is_value(words: Sequence[str]) -> bool:
    named = not words[0][0].islower()
    return len(words) <= _LONGEST_END and not any(
        word in _BE or (word in _BEFORE_VALUE and not named) for word in words
    )


def groups(messages: Iterable[Message]) -> Places:
    """Return a number for each message, the same for versions of one statement; -1 for a message without versions."""
    found = [beginnings(message.content) for message in messages]
    counts: dict[str, int] = {}
    for known in found:
        for beginning in known:
            counts[beginning] = counts.get(beginning, 0) + 1
    numbers: dict[str, int] = {}
    return np.fromiter(_numbered(found, counts, numbers), np.int64, len(found))


def _numbered(found: Sequence[Sequence[str]], counts: dict[str, int], numbers: dict[str, int]) -> Iterator[int]:
    for known in found:
        shared = next((beginning for beginning in known if counts[beginning] > 1), None)
        yield -1 if shared is None else numbers.setdefault(shared, len(numbers))


def newest_first(order: Places, group: Places, age: Places) -> Places:
    """Return a ranking in which versions of one statement keep their places among them, but the newest comes first.

    Args:
        order: positions of messages, best first.
        group: a number for each message, as `groups` returns them, shape (messages,).
        age: a larger number for each later message, shape (messages,).
    """
    ranks = np.flatnonzero(group[order] >= 0)
    members = order[ranks]
    places = ranks[np.lexsort((ranks, group[members]))]
    arranged = order.copy()
    arranged[places] = members[np.lexsort((-age[members], group[members]))]
    return arranged
