"""Find the words in which an answer differs from another."""

import re
from difflib import SequenceMatcher

from msgspec import Struct

_WORD = re.compile(r"\S+\s*|^\s+")
_MOST = 4_000_000
"""The largest product of two texts' numbers of words for which they are compared: beyond it a visitor would wait."""

_ALIKE = 0.4
"""The share of common words below which two texts count as entirely different."""


class Stretch(Struct, frozen=True):
    """Some consecutive words."""

    text: str
    differs: bool = False


def differing_words(text: str, other: str) -> tuple[Stretch, ...]:
    """Return `text` in stretches, marking those that `other` does not have in the same place.

    Case and punctuation at the ends of words make no difference. If hardly any words are shared, the whole text is
    marked, as a few words in common say nothing. Texts too long to compare are returned unmarked.
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
