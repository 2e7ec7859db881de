"""Which words of an answer are not those of another."""

import re
from difflib import SequenceMatcher

from msgspec import Struct

_WORD = re.compile(r"\S+\s*|^\s+")
_MOST = 4_000_000
"""Product of the numbers of words above which two texts are not compared: they would take longer than a look."""

_ALIKE = 0.4
"""Share of words in common below which two texts are simply different."""


class Stretch(Struct, frozen=True):
    """Some words in a row."""

    text: str
    differs: bool = False


def differing_words(text: str, other: str) -> tuple[Stretch, ...]:
    """Return `text` in stretches, those marked that `other` does not have in this place.

    Case and punctuation at the ends of words make no difference. Where hardly a word is shared all of it is marked, as
    single words in common say nothing. Texts too long to be compared are returned unmarked.
    """
    words, others = _WORD.findall(text), _WORD.findall(other)
    if not words or len(words) * len(others) > _MOST:
        return (Stretch(text),)
    matcher = SequenceMatcher(None, [_bare(word) for word in others], [_bare(word) for word in words], autojunk=False)
    if matcher.ratio() < _ALIKE:
        return (Stretch(text, True),)
    pieces = [("".join(words[begin:end]), kind != "equal") for kind, _, _, begin, end in matcher.get_opcodes()]
    return tuple(Stretch(piece, differs) for piece, differs in pieces if piece)


def _bare(word: str) -> str:
    return re.sub(r"^\W+|\W+$", "", word).casefold() or word.strip()
