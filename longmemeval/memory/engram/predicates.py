"""What is known of predicates, from `predicates.toml`: which have one value at a time, and how they are said."""

import re
import tomllib
from collections.abc import Callable
from functools import cache, lru_cache
from importlib import resources

import numpy as np
from msgspec import Struct

from longmemeval.arrays import Vectors
from longmemeval.text.words import content_words

Embed = Callable[[list[str]], Vectors]

SAME_ATTRIBUTE = 0.8
"""Cosine similarity from which two names are taken for one attribute."""


class Predicate(Struct, frozen=True):
    """One predicate of the list."""

    functional: bool = False
    shares: str = ""
    exact: bool = False
    """Whether values are compared as they stand: 3 and 13 are no elaboration of each other."""
    aliases: tuple[str, ...] = ()
    said: str = "{subject} {predicate} {object}"


Slot = tuple[str, str, str]
"""Subject, predicate, and for what accumulates the object: what one timeline is about."""

_OTHER = Predicate()


@cache
def predicates() -> dict[str, Predicate]:
    """The list, by name."""
    import msgspec

    text = (resources.files("longmemeval.memory.engram") / "predicates.toml").read_text(encoding="utf-8")
    return msgspec.convert(tomllib.loads(text), dict[str, Predicate])


def definition(predicate: str) -> Predicate:
    """What the list says of it; of an unknown one that it accumulates."""
    return predicates().get(predicate.partition(":")[0], _OTHER)


def slot_of(subject: str, predicate: str, value: str) -> Slot:
    """The slot a claim belongs to."""
    known = definition(predicate)
    if known.functional:
        return subject, predicate, ""
    return subject, known.shares or predicate, normalised(value)


def value_of(predicate: str, value: str) -> str:
    """What two claims on one slot are compared by."""
    shares = definition(predicate).shares
    return f"{predicate} {normalised(value)}" if shares else normalised(value)


@lru_cache(maxsize=1 << 16)
def normalised(value: str) -> str:
    """Small letters, no article, single spaces."""
    words = re.findall(r"[\w'.$%&+-]+", value.lower())
    return " ".join(words[1:] if len(words) > 1 and words[0] in ("a", "an", "the", "my") else words)


def is_elaboration(predicate: str, one: str, other: str) -> bool:
    """Whether two values differ in details alone: all content words of one are in the other.

    "Boston" and "Boston, Massachusetts"; never values of another predicate, nor numbers.
    """
    if definition(predicate).exact or definition(predicate).shares:
        return False
    words = [set(content_words(text)) or set(text.split()) for text in (one, other)]
    return words[0] <= words[1] or words[1] <= words[0]


def said(subject: str, predicate: str, value: str) -> str:
    """A fact as a sentence."""
    name, _, about = predicate.partition(":")
    return definition(predicate).said.format(subject=subject, predicate=name, about=about, object=value)


def canonical(predicate: str, embed: Embed | None = None) -> str:
    """The listed name of an attribute: by its aliases, then by the similarity of names.

    Args:
        predicate: any name; what stands behind a colon is kept.
        embed: texts to unit vectors, shape (texts, dimension); None: aliases alone decide.
    """
    name, colon, about = predicate.partition(":")
    plain = " ".join(re.findall(r"[a-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower()))
    known = {
        alias: listed for listed, one in predicates().items() for alias in (listed.replace("_", " "), *one.aliases)
    }
    found = known.get(plain)
    if found is None and embed and plain:
        vectors = embed([plain, *known])
        scores = vectors[1:] @ vectors[0]
        best = int(np.argmax(scores))
        if scores[best] >= SAME_ATTRIBUTE:
            found = list(known.values())[best]
    return f"{found or predicate.partition(':')[0]}{colon}{about}"
