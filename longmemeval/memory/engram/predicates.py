"""The list of predicates in `predicates.toml`: which have one value at a time, and how they are worded."""

import re
import tomllib
from functools import cache, lru_cache
from importlib import resources

from msgspec import Struct

from longmemeval.core.text.words import content_words


class Predicate(Struct, frozen=True):
    """One predicate of the list."""

    functional: bool = False
    shares: str = ""
    exact: bool = False
    """True if values are compared exactly: neither of 3 and 13 is an elaboration of the other."""
    aliases: tuple[str, ...] = ()
    said: str = "{subject} {predicate} {object}"


Slot = tuple[str, str, str]
"""Subject, predicate and, for a predicate that accumulates values, the object: the key of one timeline."""

_OTHER = Predicate()


@cache
def predicates() -> dict[str, Predicate]:
    """Return the list, by name."""
    import msgspec

    text = (resources.files("longmemeval.memory.engram") / "predicates.toml").read_text(encoding="utf-8")
    return msgspec.convert(tomllib.loads(text), dict[str, Predicate])


def definition(predicate: str) -> Predicate:
    """Return the definition of a predicate; an unknown one accumulates values."""
    return predicates().get(predicate.partition(":")[0], _OTHER)


def slot_of(subject: str, predicate: str, value: str) -> Slot:
    """Return the slot that a claim belongs to."""
    known = definition(predicate)
    if known.functional:
        return subject, predicate, ""
    return subject, known.shares or predicate, normalised(value)


def value_of(predicate: str, value: str) -> str:
    """Return the form in which the values of two claims on one slot are compared."""
    shares = definition(predicate).shares
    return f"{predicate} {normalised(value)}" if shares else normalised(value)


@lru_cache(maxsize=1 << 16)
def normalised(value: str) -> str:
    """Return `value` in lower case, without an article and with single spaces."""
    words = re.findall(r"[\w'.$%&+-]+", value.lower())
    return " ".join(words[1:] if len(words) > 1 and words[0] in ("a", "an", "the", "my") else words)


def is_elaboration(predicate: str, value: str, other: str) -> bool:
    """Return whether two values differ only in detail: all content words of one are in the other.

    True for "Boston" and "Boston, Massachusetts"; never for values of different predicates, nor for numbers.
    """
    if definition(predicate).exact or definition(predicate).shares:
        return False
    words = [set(content_words(text)) or set(text.split()) for text in (value, other)]
    return words[0] <= words[1] or words[1] <= words[0]


def fact_sentence(subject: str, predicate: str, value: str) -> str:
    """Return a fact as a sentence."""
    name, _, about = predicate.partition(":")
    return definition(predicate).said.format(subject=subject, predicate=name, about=about, object=value)


def canonical(predicate: str) -> str:
    """Return the listed name of a predicate, found by its aliases; text after a colon is kept."""
    name, colon, about = predicate.partition(":")
    return f"{_listed().get(_plain(name), name)}{colon}{about}"


def normalised_predicate(predicate: str) -> str | None:
    """Map a free-text predicate to the form that facts use; None if it is not a predicate.

    A listed predicate that needs a topic ("count:bikes") must have one, and the others lose theirs. Any other name is
    kept as it is.
    """
    name, _, about = (" ".join(part.split()).lower() for part in predicate.partition(":"))
    listed = _listed().get(_plain(name))
    if listed is None:
        own = f"{name} {about}".strip()
        return own if any(character.isalpha() for character in own) else None
    if "{about}" not in definition(listed).said:
        return listed
    return f"{listed}:{about}" if about else None


@cache
def _listed() -> dict[str, str]:
    """Map every name and alias of the list, normalised by `_plain`, to the listed name."""
    names = ((listed, (listed, *predicate.aliases)) for listed, predicate in predicates().items())
    return {_plain(alias): listed for listed, aliases in names for alias in aliases}


def _plain(name: str) -> str:
    return " ".join(re.findall(r"[a-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower()))
