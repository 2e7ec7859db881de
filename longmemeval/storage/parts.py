"""Data a memory system stores for a haystack: a part of its fixture, one file or one directory.

A part defines how it is made and opened; `prepare` orders, schedules, journals and writes parts, and knows none by
name. `docs/add-a-memory-system.md` shows a complete one.
"""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from msgspec import Struct

from longmemeval.core.arrays import Vectors
from longmemeval.core.part_options import PartOptions
from longmemeval.errors import HarnessError
from longmemeval.llm.options import named, split_options
from longmemeval.llm.protocol import ChatModel
from longmemeval.llm.reasoning import ReplyLimits
from longmemeval.llm.registry import ModelAccess
from longmemeval.llm.tokens import CharacterCounter
from longmemeval.records import FixtureMeta, Haystack, Message, PartInfo, Usage
from longmemeval.storage.messages import haystack_messages, thread_ids
from longmemeval.storage.opaque import RECIPE, HistoryIds, is_foreign, opaque_folder

T = TypeVar("T")


class FixtureEmbedder(Struct, frozen=True, omit_defaults=True):
    """The embedder that made the vectors of a preparation, as run manifests record it."""

    spec: str
    fingerprint: str
    query_prefix: str = ""
    """Prefix of a question."""


class PartTools(Protocol):
    """Tools that `prepare` provides to a part. None of them depends on the clock: same input, same bytes."""

    @property
    def options(self) -> PartOptions:
        """Options for making parts."""
        ...

    @property
    def embedder(self) -> FixtureEmbedder:
        """The embedder; its fingerprint belongs in the recipe of a part that embeds."""
        ...

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return the vectors of texts, shape (len(texts), dimension), rows of length 1; during `make` only.

        Texts that the part declares by `Part.texts` were embedded in advance, together with those of other haystacks.
        """
        ...

    def chat_model(self, spec: str) -> ChatModel:
        """Return the chat model of that name: replies are cached, calls counted, paid calls journalled and limited."""
        ...

    @property
    def models(self) -> ModelAccess:
        """Access for programs that call models themselves; the cost of their calls belongs in `PartOutput.usage`."""
        ...


class PartOutput(Struct, frozen=True):
    """The result of `Part.make`."""

    data: bytes = b""
    """The part's file; for a directory, the content of `PartInput.folder` counts."""
    usage: Usage = Usage()
    """Usage of models that were not called through `PartTools`; those are counted there."""
    notes: tuple[str, ...] = ()
    """Steps that failed, and why."""
    stats: dict[str, Any] = {}
    """Figures for manifests and tables; numbers are added up over the haystacks."""
    dropped: dict[str, int] = {}
    """Amounts of model output that were discarded, by reason; reported in the summary, in manifests under
    `dropped_…`."""
    incomplete: str = ""
    """Missing content, and why. The part is read as it is; the next `prepare` continues it if it is `resumable`."""
    failed: str = ""
    """Reason why this haystack has no such part: its questions get no answer. Other haystacks are not affected, and the
    next `prepare` tries again."""


class Expected(Struct, frozen=True):
    """Expected chat-model calls of a part, for one haystack."""

    title: str
    """Item that is paid for: `working memory`."""
    model: str
    calls: int
    prompt_tokens: int
    completion_tokens: int
    figures: dict[str, float]
    """Figures of a dry run by name; added up over the haystacks."""
    most_completion_tokens: int = 0
    """Completion tokens if every reply had maximum length; 0: not known."""


class Stored(Protocol):
    """A part as stored in a fixture, for `Part.open`."""

    @property
    def meta(self) -> FixtureMeta:
        """Metadata of the fixture."""
        ...

    @property
    def info(self) -> PartInfo | None:
        """Hash and recipe of the part; None if the fixture does not have it."""
        ...

    @property
    def where(self) -> str:
        """The file or directory, for errors."""
        ...

    def data(self) -> bytes:
        """Return the file's bytes, verified by their hash."""
        ...

    def folder(self) -> Path:
        """Return the directory, verified by its hash. Read only: to write, open a copy."""
        ...

    def part(self, part: "Part[T]") -> T:
        """Return another part of the fixture, opened."""
        ...


class _Fixture(Protocol):
    @property
    def meta(self) -> FixtureMeta: ...

    def part(self, part: "Part[T]") -> T: ...

    def seen_by(self, reader: object) -> "_Fixture": ...


class PartInput:
    """The input a part is made from.

    Args:
        haystack: the sessions.
        fixture: holds the needed parts; None if there are none.
        folder: folder that a directory part writes to; empty, or as an unfinished attempt left it.
    """

    def __init__(self, haystack: Haystack, fixture: _Fixture | None = None, folder: Path | None = None) -> None:
        self.haystack = haystack
        self._fixture = fixture
        self._folder = folder
        self._opaque: PartInput | None = None

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
        """Folder that a directory part writes to."""
        if self._folder is None:
            raise ValueError("only a directory part has a folder to write to")
        return self._folder

    def seen_by(self, part: "Part[Any]") -> "PartInput":
        """Return this input as the code of `part` may see it: with opaque ids, unless it is of this package."""
        if not is_foreign(part):
            return self
        if self._opaque is None:
            ids = HistoryIds(self.haystack.haystack_id, thread_ids(self.haystack))
            fixture = self._fixture and self._fixture.seen_by(part)
            folder = self._folder and opaque_folder(self._folder)
            self._opaque = PartInput(ids.haystack(self.haystack), fixture, folder)
        return self._opaque

    def holds(self, part: "Part[Any]") -> bool:
        """Return whether a needed part already exists."""
        return self._fixture is not None and part.info(self._fixture.meta) is not None

    def part(self, part: "Part[T]") -> T:
        """Return an opened part from the `needs` of the one being made."""
        if self._fixture is None:
            raise ValueError(f"part '{part.name}' is not among the needs of the part that is made")
        return self._fixture.part(part)


class Part(ABC, Generic[T]):
    """One part of a fixture; `T` is the type it is opened to.

    A part defines a name, `recipe`, `make` and `open`. Everything else has a default. Parts are compared by their
    names: different parts have different names.
    """

    name: str
    """Name of the part: its file is `<name>.json`, its directory `<name>`."""
    needs: "tuple[Part[Any], ...]" = ()
    """Parts it is made from; they are in the fixture when it is made, and their hashes in its recipe."""
    directory: bool = False
    """True if it is a directory: `make` writes into `PartInput.folder`."""
    reproducible: bool = True
    """True if the same input gives the same bytes. If not, `meta.json`, manifests and tables say so."""
    optionless: bool = False
    """True if it follows from the haystack alone, without options and quickly: `verify` makes it again for each
    haystack, also where the fixture is missing."""
    resumable: bool = False
    """For a directory: True if `make` continues in the folder of a killed attempt, or in a copy of an `incomplete`
    part; otherwise it gets an empty one."""
    derived: bool = False
    """True if it follows from the other parts by rules alone: fixtures without it are read, and `open` computes it
    then. `info` ignores one made by other rules, which is rebuilt."""
    calls_models: bool = False
    """True if making it may call a chat model, or has costs other than embeddings: its readers pay for that."""
    embeds: bool = False
    """True if it contains vectors of `texts`."""
    exposes_models: bool = False
    """True if external programs call models through `PartTools.models`, on which its content depends."""

    @abstractmethod
    def recipe(self, tools: PartTools) -> dict[str, Any]:
        """Return all that its bytes depend on besides haystack and needed parts: versions of rules, prompts, models.

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
        """Return the object readers get; kept as long as the fixture is open.

        Raises:
            FixtureError: it is damaged or contradicts another part.
        """

    def settings(self) -> dict[str, Any]:
        """Return the memory's own parameters it depends on: a part of the recipe that runs also compare."""
        return {}

    def under_way(self, preparation: Path, since: float) -> str:
        """Return the progress of its fixtures in preparation, in any process, for display.

        Args:
            preparation: folder of all fixtures.
            since: start of the command, in seconds like file times; anything older is a leftover.
        """
        return ""

    def texts(self, source: PartInput, options: PartOptions) -> Sequence[str]:
        """Return the texts it embeds, as the embedder gets them; called once the needed parts exist."""
        return ()

    def embedder(self, stored: Stored) -> FixtureEmbedder | None:
        """Return the embedder of its vectors, which questions must use too; None: it has none."""
        return None

    def at_once(self, options: PartOptions) -> int | None:
        """Return how many haystacks to work on at once, if the work is mostly waiting; None: one per core."""
        return None

    def models(self, options: PartOptions) -> tuple[str, ...]:
        """Return the chat models called to make it."""
        return ()

    def expected(self, source: PartInput, options: PartOptions) -> Expected | None:
        """Return the expected chat-model calls; None: nothing is known."""
        return None

    def size(self, source: PartInput, options: PartOptions, dimension: int) -> float | None:
        """Estimate its bytes; None: estimated from its bytes per character in a sample of haystacks.

        Args:
            source: as for `make`, possibly without the needed parts.
            options: as for `make`.
            dimension: numbers in a vector.
        """
        return None

    def stored_name(self, meta: FixtureMeta) -> str:
        """Return its name in a fixture, which may be an earlier one."""
        return self.name

    def names_by(self, source: Mapping[str, str]) -> tuple[str, ...]:
        """Return the names under which a run may have recorded it that was made with code of this origin."""
        return (self.name,)

    def earlier_recipe(self, meta: FixtureMeta) -> Mapping[str, Any] | None:
        """Return the recipe of a part that earlier code made, and beside which this one is made; None without one."""
        return None

    def info(self, meta: FixtureMeta) -> PartInfo | None:
        """Return its entry in a fixture; None: it has none."""
        return meta.parts.get(self.stored_name(meta))

    def is_kept_elsewhere(self, info: PartInfo) -> bool:
        """Return whether some of its data is outside the fixture, at a service for example."""
        return False

    def outdated(self, info: PartInfo) -> str:
        """Return what is wrong with the earlier rules that made a part, if it is read and `prepare` makes it again."""
        return ""

    def settled(self, options: PartOptions, recipe: Mapping[str, Any] | None) -> PartOptions:
        """Return the options with a value for what was left open.

        Args:
            recipe: the recipe of this part in other fixtures of the preparation; None: there are none.
        """
        return options

    def flags(self, stored: Stored | None) -> dict[str, str]:
        """Return the options that recreate it; for a missing part, the required options."""
        return {}

    def contradictions(self, stored: Stored) -> Iterable[str]:
        """Return the ways in which it, or its entry in `meta.json`, contradicts the rest of the fixture."""
        return ()

    def agrees(self, stored: bytes, made: bytes) -> bool:
        """Return whether stored bytes are those of the same input made again, on a machine that may round otherwise."""
        return stored == made

    def shown(self, stored: Stored) -> str:
        """Return its description in `inspect`; a document is shown under its name."""
        return ""

    def dependency_key(self, need: "Part[Any]") -> str:
        """Return the recipe's key for the hash of a needed part."""
        return f"{need.name}_sha256"

    def comparable_recipe(self, recipe: Mapping[str, Any]) -> dict[str, Any]:
        """Return the part of a recipe that decides readability: without hashes of needs, which vary per fixture."""
        own = {self.dependency_key(need) for need in self.needs}
        if not self.directory:  # A file that code of others made from our ids is translated.
            own.update(RECIPE)
        return {key: value for key, value in recipe.items() if key not in own}

    def hashes_of_needs(self, meta: FixtureMeta | None) -> dict[str, str]:
        """Return the hashes of the needed parts as a fixture has them now, for its recipe."""
        infos = {self.dependency_key(need): need.info(meta) for need in self.needs} if meta else {}
        return {key: info.sha256 for key, info in infos.items() if info}


def recipe_of(part: Part[Any], tools: PartTools) -> dict[str, Any]:
    """Return the recipe of a part without the hashes of the parts it is made from, which are each fixture's own.

    Raises:
        HarnessError: as by `Part.recipe`.
    """
    return part.recipe(tools) | part.settings() | (RECIPE if is_foreign(part) else {})


def with_needs(parts: Iterable[Part[Any]]) -> list[Part[Any]]:
    """Return `parts` and all they need, each once, needed ones first.

    Raises:
        HarnessError: two different parts have one name, or a part needs itself.
    """
    found: dict[str, Part[Any]] = {}

    def add(part: Part[Any], above: tuple[str, ...]) -> None:
        if part.name in above:
            raise HarnessError(f"Part '{part.name}' needs itself: {' → '.join((*above, part.name))}")
        if type(found.get(part.name, part)) is not type(part):
            raise HarnessError(
                f"Two memories declare different parts named '{part.name}'",
                fix="Prepare each under a name of its own",
            )
        for need in part.needs:
            add(need, (*above, part.name))
        found.setdefault(part.name, part)

    for part in parts:
        add(part, ())
    return list(found.values())


def stages(parts: Sequence[Part[Any]]) -> Iterator[list[Part[Any]]]:
    """Iterate over `parts`, with their needs among them, in groups, each in order.

    A part that embeds or calls models only needs parts of earlier groups, so that its texts are known in advance.
    Another part may be in the same group as its needs, after them.
    """
    depths: dict[str, int] = {}
    for part in with_needs(parts):
        later = int(part.embeds or part.calls_models)
        depths[part.name] = max((depths[need.name] + later for need in part.needs), default=0)
    for depth in range(max(depths.values(), default=-1) + 1):
        yield [part for part in parts if depths[part.name] == depth]


# Parts made from the sessions by a chat model, or by rules if an option says so.


class ModelPart(Part[T]):
    """A part whose option names the chat model that reads the sessions, or is `rules`."""

    calls_models = True
    option: str
    """Name of the option."""
    title: str
    """Item that is paid for: `working memory`."""
    figure_names: tuple[str, ...]
    """Names that a dry run shows for the number of calls and, if there is a second one, the tokens of the sessions."""
    prompt_tokens: int
    """Tokens of a prompt without the session."""
    reply_tokens: int
    most_reply_tokens: int
    share: float
    """Bytes per character of a haystack."""
    empty_bytes = 0
    calls_per_session = 1

    def models(self, options: PartOptions) -> tuple[str, ...]:
        """Return the chat model that reads the sessions, unless rules do."""
        model: str = getattr(options, self.option)
        return () if model == "rules" else split_options(model)[:1]

    def expected(self, source: PartInput, options: PartOptions) -> Expected | None:
        """Estimate the calls by the number of sessions; further calls cannot be predicted."""
        if not (models := self.models(options)):
            return None
        calls = len(source.haystack.sessions) * self.calls_per_session
        most = ReplyLimits(*named(getattr(options, self.option))).first(self.most_reply_tokens)
        tokens = sum(CharacterCounter().count(message.content) for message in source.messages)
        return Expected(
            self.title,
            models[0],
            calls=calls,
            prompt_tokens=tokens * self.calls_per_session + self.prompt_tokens * calls,
            completion_tokens=self.reply_tokens * calls,
            most_completion_tokens=most * calls,
            figures=dict(zip(self.figure_names, (calls, tokens), strict=False)),
        )

    def size(self, source: PartInput, options: PartOptions, dimension: int) -> float:
        """Estimate the size: a share of the history."""
        return self.share * source.characters + self.empty_bytes

    def flags(self, stored: Stored | None) -> dict[str, str]:
        """Return the chat model that read the sessions as an option, if one did."""
        recipe = stored.info.recipe if stored and stored.info else {}
        return {self.option: str(recipe["model"])} if "model" in recipe else {}
