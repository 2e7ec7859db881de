"""What is known of predicates, from `predicates.toml`: which have one value at a time, and how they are said."""

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


def canonical(predicate: str) -> str:
    """The listed name of an attribute, by its aliases; what stands behind a colon is kept."""
    name, colon, about = predicate.partition(":")
    return f"{_listed().get(_plain(name), name)}{colon}{about}"


def named(predicate: str) -> str | None:
    """A predicate as somebody who does not know the list named it, as a fact has it; None: it is none.

    Of a listed one that says of what it is one ("count:bikes") that has to be told, of others it is left out. Any other
    name is one of its own.
    """
    name, _, about = (" ".join(part.split()).lower() for part in predicate.partition(":"))
    listed = _listed().get(_plain(name))
    if listed is None:
        own = f"{name} {about}".strip()
        return own if any(sign.isalpha() for sign in own) else None
    if "{about}" not in definition(listed).said:
        return listed
    return f"{listed}:{about}" if about else None


@cache
def _listed() -> dict[str, str]:
    """Every name and alias of the list, as `_plain` has it, to the listed name."""
    names = ((listed, (listed, *one.aliases)) for listed, one in predicates().items())
    return {_plain(alias): listed for listed, aliases in names for alias in aliases}


def _plain(name: str) -> str:
    return " ".join(re.findall(r"[a-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower()))
