"""The parameters of the engine's presets."""

import re
import tomllib
from functools import cache, lru_cache
from importlib import resources
from typing import Annotated, Any, Literal

from msgspec import Struct
from pydantic import Field
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from longmemeval.core.text.words import content_words
from longmemeval.errors import HarnessError
from longmemeval.memory.engram.stores.kinds import Side, store_kind, stores_of_side
from longmemeval.memory.parameters import BEFORE, Parameters


class _StoreOf:
    """The name of a store that keeps facts, or their vectors."""

    def __init__(self, side: Side) -> None:
        self.side: Side = side

    def __get_pydantic_core_schema__(self, source: object, handler: object) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self._known, core_schema.str_schema())

    def __get_pydantic_json_schema__(self, core: object, handler: object) -> dict[str, Any]:
        return {"type": "string", "enum": stores_of_side(self.side)}

    def _known(self, name: str) -> str:
        try:
            store_kind(name, self.side)
        except HarnessError as error:
            raise PydanticCustomError("store", "{why}", {"why": f"{error.what}. {error.fix}"}) from error
        return name


class Weights(Struct, frozen=True):
    """Weights of the five signals. The defaults are the published ones (arXiv 2606.09900)."""

    semantic: float = 1.0
    lexical: float = 0.6
    graph: float = 0.8
    recency: float = 0.3
    salience: float = 0.25


class Numbers(Struct, frozen=True):
    """The maximum number to recall of each kind."""

    facts: int
    top_k: int
    sessions: int = 0
    summaries: int = 0


NUMBERS = {"scores": Numbers(4, 1_000_000), "published": Numbers(8, 15, 2, 28)}
"""The numbers by profile."""


class EngramParameters(Parameters):
    """Parameters of `engram-full`."""

    facts: int | None = Field(None, ge=0)
    """Maximum facts to recall; 4, or the profile's number; 0: messages only. `engram-lean` shows those whose messages
    do not fit, or all if the question asks for the present state."""
    fusion: Literal["scores", "published"] = "scores"
    """`scores`: messages ranked as by `hybrid`, facts by scores; graph and recency count if the question asks for the
    present state. `published`: five signals as ranks (RRF, k = 60) with the published weights and numbers: 8 facts, 15
    messages, 2 whole sessions, 28 summaries."""
    hops: int = Field(2, ge=0, le=4)
    """Hops in the graph from the question's entities; 0: the graph is not used."""
    recency_days: float = Field(30.0, ge=0)
    """Days after which the recency of a fact has fallen to 1/e; 0: recency is not used."""
    store: Annotated[str, _StoreOf("facts")] = "embedded"
    """The store of facts: in memory (networkx), or in a database that is filled from the part `engram`:
    `falkordb` (LONGMEMEVAL_FALKORDB_URL), `postgres` (LONGMEMEVAL_POSTGRES_URL), `ladybug` (a file), or one from
    another package. Recall is the same from each."""
    vectors: Annotated[str, _StoreOf("vectors")] = "embedded"
    """The store of their vectors: in memory, in `postgres` (pgvector), or in files: `qdrant`, `lancedb`."""
    as_of: bool = True
    """Leave out what was said, or believed, only after the question was asked."""

    @property
    def most_facts(self) -> int:
        """Maximum number of facts to recall."""
        return NUMBERS[self.fusion].facts if self.facts is None else self.facts

    def weights(self) -> Weights:
        """Return the weights of the five signals."""
        return Weights()


class LeanParameters(EngramParameters):
    """Parameters of `engram-lean`."""

    budget: int = Field(4000, ge=1)
    """Maximum tokens to recall, counted as rendered: with dates, speakers and headings."""
    top_k: int | None = Field(None, ge=0)
    """Maximum messages to recall; as many as fit the budget, or the profile's number."""
    sessions: int | None = Field(None, ge=0)
    """Best sessions to recall in full, before single messages; none, or the profile's number."""
    summaries: int | None = Field(None, ge=0)
    """Summaries of the best sessions, after the messages; none, or the profile's number."""
    newest_first: bool = Field(True, json_schema_extra={BEFORE: False})
    """Rank the newest first among messages that differ only in how the sentence ends ("The mayor of Ulm is …")."""
    abstain_below: float = Field(0.0, ge=0)
    """Recall nothing if no message and no fact has a better score; 0 switches it off."""

    def numbers(self) -> Numbers:
        """Return the number of each kind to recall, as set or by the profile."""
        profile = NUMBERS[self.fusion]
        return Numbers(
            self.most_facts,
            profile.top_k if self.top_k is None else self.top_k,
            profile.sessions if self.sessions is None else self.sessions,
            profile.summaries if self.summaries is None else self.summaries,
        )


# The list of predicates in `predicates.toml`: which have one value at a time, and how they are worded.


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
