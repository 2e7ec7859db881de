"""What a memory system keeps of a haystack: a part of its fixture, one file or one directory.

A part says how it is made and opened; `prepare` orders, schedules, journals and writes parts, and knows none by name.
`docs/add-a-memory-system.md` shows one from beginning to end.
"""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from msgspec import Struct

from longmemeval.core.arrays import Vectors
from longmemeval.core.part_options import PartOptions
from longmemeval.errors import HarnessError
from longmemeval.llm.access import ModelAccess
from longmemeval.llm.protocol import ChatModel
from longmemeval.records import FixtureMeta, Haystack, Message, PartInfo, Usage
from longmemeval.storage.messages import haystack_messages

T = TypeVar("T")


class FixtureEmbedder(Struct, frozen=True, omit_defaults=True):
    """The embedder that made the vectors of a preparation, as run manifests record it."""

    spec: str
    fingerprint: str
    query_prefix: str = ""
    """What is put before a question."""


class PartTools(Protocol):
    """What `prepare` lends to a part. None of it depends on the clock: same input, same bytes."""

    @property
    def options(self) -> PartOptions:
        """How parts are to be made."""
        ...

    @property
    def embedder(self) -> FixtureEmbedder:
        """The embedder; its fingerprint belongs into the recipe of a part that embeds."""
        ...

    def embed(self, texts: Sequence[str]) -> Vectors:
        """The vectors of texts, shape (len(texts), dimension), rows of length 1; at `make` only.

        What the part declares by `Part.texts` was embedded beforehand, together with the texts of other haystacks.
        """
        ...

    def chat_model(self, spec: str) -> ChatModel:
        """The chat model of that name. Replies are cached, calls counted, paid ones journalled and limited."""
        ...

    @property
    def models(self) -> ModelAccess:
        """For programs that call models themselves; what their calls cost belongs into `PartOutput.usage`."""
        ...


class PartOutput(Struct, frozen=True):
    """What `Part.make` made."""

    data: bytes = b""
    """The part's file; of a directory what is in `PartInput.folder` counts."""
    usage: Usage = Usage()
    """Of models that were not called by `PartTools`: those are counted there."""
    notes: tuple[str, ...] = ()
    """What could not be done, and why."""
    stats: dict[str, Any] = {}
    """What manifests and tables say about it: numbers are added up over the haystacks."""
    dropped: dict[str, int] = {}
    """How much of what models replied was not kept, by reason; told in the summary, in manifests under `dropped_…`."""
    incomplete: str = ""
    """What of it is missing, and why. It is read as it is; the next `prepare` goes on with it, if it is `resumable`."""
    failed: str = ""
    """Why this haystack has none: its questions have no answer. Others go on, and the next `prepare` tries again."""


class Expected(Struct, frozen=True):
    """What the chat-model calls of a part will take, for one haystack."""

    title: str
    """What is paid for: `working memory`."""
    model: str
    calls: int
    prompt_tokens: int
    completion_tokens: int
    figures: dict[str, float]
    """What a dry run shows, by name; added up over the haystacks."""
    most_completion_tokens: int = 0
    """If every reply were as long as it may be; 0: not known."""


class Stored(Protocol):
    """A part as it is in a fixture, for `Part.open`."""

    @property
    def meta(self) -> FixtureMeta:
        """The fixture's."""
        ...

    @property
    def info(self) -> PartInfo | None:
        """Hash and recipe of the part; None where the fixture does not have it."""
        ...

    @property
    def where(self) -> str:
        """The file or directory, for errors."""
        ...

    def data(self) -> bytes:
        """The file's bytes, whose hash holds."""
        ...

    def folder(self) -> Path:
        """The directory, whose hash holds. To be read only: who writes opens a copy."""
        ...

    def part(self, part: "Part[T]") -> T:
        """Another part of the fixture, opened."""
        ...


class _Fixture(Protocol):
    @property
    def meta(self) -> FixtureMeta: ...

    def part(self, part: "Part[T]") -> T: ...


class PartInput:
    """What a part is made of.

    Args:
        haystack: the sessions.
        fixture: holds the needed parts; None where there are none.
        folder: where a directory part writes; empty, or as an attempt left it that did not come to its end.
    """

    def __init__(self, haystack: Haystack, fixture: _Fixture | None = None, folder: Path | None = None) -> None:
        self.haystack = haystack
        self._fixture = fixture
        self._folder = folder

    @cached_property
    def messages(self) -> list[Message]:
        """All turns as stored messages, oldest session first."""
        return haystack_messages(self.haystack)

    @cached_property
    def characters(self) -> int:
        """Characters of all messages."""
        return sum(len(message.content) for message in self.messages)

    @property
    def folder(self) -> Path:
        """Where a directory part writes."""
        if self._folder is None:
            raise ValueError("only a directory part has a folder to write to")
        return self._folder

    def holds(self, part: "Part[Any]") -> bool:
        """Whether a needed part is there already."""
        return self._fixture is not None and part.info(self._fixture.meta) is not None

    def part(self, part: "Part[T]") -> T:
        """A part that the one being made `needs`, opened."""
        if self._fixture is None:
            raise ValueError(f"part '{part.name}' is not among the needs of the part that is made")
        return self._fixture.part(part)


class Part(ABC, Generic[T]):
    """One part of a fixture; `T` is what it is opened to.

    A part has a name, `recipe`, `make` and `open`. All else has a usual answer. Parts are compared by their names: two
    that differ have different ones.
    """

    name: str
    """Its file is `<name>.json`, its directory `<name>`."""
    needs: "tuple[Part[Any], ...]" = ()
    """The parts it is made of; they are in the fixture when it is made, and their hashes in its recipe."""
    directory: bool = False
    """Whether it is a directory: `make` writes into `PartInput.folder`."""
    reproducible: bool = True
    """Whether the same input gives the same bytes. If not, `meta.json`, manifests and tables say so."""
    resumable: bool = False
    """Of a directory: whether `make` goes on in the folder of an attempt that was killed, or in a copy of a part that
    is `incomplete`; else it gets an empty one."""
    derived: bool = False
    """Whether it follows from the other parts by rules alone: fixtures without it are read, `open` makes it then.
    `info` passes over one of other rules, which is made again."""
    calls_models: bool = False
    """Whether making it may ask a chat model, or cost anything else but embeddings: who reads it pays for that."""
    embeds: bool = False
    """Whether it holds vectors of `texts`."""
    exposes_models: bool = False
    """Whether programs outside call models by `PartTools.models`, which decides it."""
    legacy_part: str = ""
    """The part in which an earlier version kept it."""

    @abstractmethod
    def recipe(self, tools: PartTools) -> dict[str, Any]:
        """All that its bytes depend on, except for haystack and needed parts: versions of rules, prompts, models.

        Raises:
            HarnessError: an option is missing, or a model cannot be called.
        """

    @abstractmethod
    def make(self, source: PartInput, tools: PartTools) -> PartOutput | Awaitable[PartOutput]:
        """Make the part of one haystack; may be a coroutine.

        Raises:
            HarnessError: it cannot be made.
        """

    @abstractmethod
    def open(self, stored: Stored) -> T:
        """What readers get; kept as long as the fixture is open.

        Raises:
            FixtureError: it is damaged or contradicts another part.
        """

    def settings(self) -> dict[str, Any]:
        """What of the memory's own parameters decides it: a part of the recipe that runs compare too."""
        return {}

    def under_way(self, preparation: Path, since: float) -> str:
        """What is to be shown of those of its fixtures that are being made, whatever process makes them.

        Args:
            preparation: the folder of all fixtures.
            since: when the command began, in seconds as files have them; what is older is a leftover.
        """
        return ""

    def texts(self, source: PartInput, options: PartOptions) -> Sequence[str]:
        """What it embeds, as the embedder gets it; asked for once the needed parts are there."""
        return ()

    def embedder(self, stored: Stored) -> FixtureEmbedder | None:
        """The embedder of its vectors, by which questions are to be embedded; None: it has none."""
        return None

    def models(self, options: PartOptions) -> tuple[str, ...]:
        """The chat models that making it asks."""
        return ()

    def expected(self, source: PartInput, options: PartOptions) -> Expected | None:
        """What its calls of a chat model will take; None: nothing that is known."""
        return None

    def size(self, source: PartInput, options: PartOptions, dimension: int) -> float | None:
        """Bytes it will take; None: as its share of the characters in haystacks where it is made for a sample.

        Args:
            source: as for `make`, perhaps without the needed parts.
            options: as for `make`.
            dimension: numbers in a vector.
        """
        return None

    def stored_name(self, meta: FixtureMeta) -> str:
        """The name under which a fixture holds it."""
        return self.name

    def info(self, meta: FixtureMeta) -> PartInfo | None:
        """What a fixture says of it; None: it has none."""
        return meta.parts.get(self.name)

    def flags(self, stored: Stored | None) -> dict[str, str]:
        """The options that make it as it is; of one that is not there, those that have to be given."""
        return {}

    def check_replaced(self, info: PartInfo, made: Collection[str], where: str) -> None:
        """Refuse to make it again where something would be lost.

        Args:
            info: of the one that is there.
            made: the parts that are made with it.
            where: the fixture, for the error.
        """

    def contradictions(self, stored: Stored) -> Iterable[str]:
        """Where it, or what `meta.json` says of it, does not fit the rest of the fixture."""
        return ()

    def shown(self, stored: Stored) -> str:
        """What `inspect` says of it; a document is shown under its name."""
        return ""

    def dependency_key(self, need: "Part[Any]") -> str:
        """Under which the recipe holds the hash of a needed part."""
        return f"{need.name}_sha256"

    def comparable_recipe(self, recipe: Mapping[str, Any]) -> dict[str, Any]:
        """What decides whether one made by `recipe` can be read: all but the needed parts' hashes, a fixture's own."""
        own = {self.dependency_key(need) for need in self.needs}
        return {key: value for key, value in recipe.items() if key not in own}

    def hashes_of_needs(self, meta: FixtureMeta | None) -> dict[str, str]:
        """The hashes of the needed parts as a fixture has them now, as its recipe is to hold them."""
        infos = {self.dependency_key(need): need.info(meta) for need in self.needs} if meta else {}
        return {key: info.sha256 for key, info in infos.items() if info}


def with_needs(parts: Iterable[Part[Any]]) -> list[Part[Any]]:
    """`parts` and all they need, each once, what is needed first.

    Raises:
        HarnessError: two different parts have one name, or a part needs itself.
    """
    found: dict[str, Part[Any]] = {}

    def add(part: Part[Any], above: tuple[str, ...]) -> None:
        if part.name in above:
            raise HarnessError(f"Part '{part.name}' needs itself: {' → '.join((*above, part.name))}")
        if type(found.get(part.name, part)) is not type(part):
            raise HarnessError(
                f"Two memories declare different parts of the name '{part.name}'", fix="Prepare them under two --name"
            )
        for need in part.needs:
            add(need, (*above, part.name))
        found.setdefault(part.name, part)

    for part in parts:
        add(part, ())
    return list(found.values())


def stages(parts: Sequence[Part[Any]]) -> Iterator[list[Part[Any]]]:
    """`parts`, with their needs among them, in groups, each in order.

    What embeds or asks is made of what the groups before have made: so its texts are known beforehand. Another part
    may stand in one group with what it needs, behind it.
    """
    depths: dict[str, int] = {}
    for part in with_needs(parts):
        later = int(part.embeds or part.calls_models)
        depths[part.name] = max((depths[need.name] + later for need in part.needs), default=0)
    for depth in range(max(depths.values(), default=-1) + 1):
        yield [part for part in parts if depths[part.name] == depth]
