"""The `settings` of `run.json`, by the kind of run: everything that decides its answers or rankings.

A setting that a version does not write is `UNSET` and stays absent when the settings are written again: a manifest of
an earlier version keeps the hash of its settings.
"""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType

from longmemeval.memory.configuration import MemoryConfiguration
from longmemeval.storage.parts import FixtureEmbedder

RunKind = Literal["run", "hypotheses", "retrieval"]
"""Answers of this harness, answers of another system, rankings."""


class MemorySettings(Struct, frozen=True):
    """A `MemoryConfiguration`."""

    name: str
    preset: str
    parameters: dict[str, Any]
    source: dict[str, str] | UnsetType = UNSET
    """For a memory from outside: the origin of its code, and its hash."""


class ModelSettings(Struct, frozen=True):
    """The answering model."""

    spec: str
    api_base: str | UnsetType | None = UNSET
    """Address at which it was reached, without secrets; None: its provider's own."""
    temperature: int | float | UnsetType = UNSET
    max_tokens: int | UnsetType = UNSET


class ReadingSettings(Struct, frozen=True):
    """The way the model was prompted; templates by the hashes of their texts."""

    method: str
    history_format: str | UnsetType = UNSET
    on_overflow: str | UnsetType = UNSET
    context_window: int | UnsetType | None = UNSET
    template: str | UnsetType = UNSET
    options_template: str | UnsetType = UNSET
    note_template: str | UnsetType = UNSET

    @property
    def shown(self) -> str:
        """Method and history format, as tables show them."""
        return self.method if isinstance(self.history_format, UnsetType) else f"{self.method}, {self.history_format}"


class QueryModelSettings(Struct, frozen=True):
    """The chat model that analysed the questions."""

    spec: str
    api_base: str | None
    temperature: int | float
    templates: dict[str, str]
    """Hash of each template, by its purpose."""


class HypothesesSettings(Struct, frozen=True):
    """The file with the answers of another system."""

    file: str
    sha256: str


class _Settings(Struct, frozen=True, kw_only=True, tag_field="kind"):
    """The settings common to all kinds of run; an absent setting has its default value."""

    others: dict[str, Any] = {}
    """Settings of a benchmark's own ranker, and those that another version wrote and this one does not know."""

    @property
    def plain(self) -> dict[str, Any]:
        """The settings as JSON values, without the kind."""
        values: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(self))
        return {name: value for name, value in values.items() if name not in ("kind", "others")} | self.others

    @property
    def memory_name(self) -> str:
        """Name of the memory in tables; empty if unknown."""
        return ""

    @property
    def memory_record(self) -> MemorySettings | None:
        """The memory; None if unknown."""
        return None

    @property
    def model_name(self) -> str:
        """Spec of the answering model; empty if none answered."""
        return ""

    @property
    def embedder_spec(self) -> str:
        """Spec of the embedder; empty if no vectors are read."""
        return ""

    @property
    def preparation_name(self) -> str:
        """Name of the preparation; empty if nothing prepared is read."""
        return ""

    @property
    def is_ceiling(self) -> bool:
        """True if the memory reads the gold evidence."""
        return False

    @property
    def marked_parts(self) -> tuple[str, ...]:
        """Parts that would differ if they were prepared again."""
        return ()

    @property
    def part_stats(self) -> dict[str, dict[str, Any]]:
        """Statistics of each of them."""
        return {}

    @property
    def times(self) -> dict[str, int] | None:
        """Number of times each question was answered, of those answered more than once; None if none was."""
        return None

    @property
    def official_protocol(self) -> dict[str, Any]:
        """Record of the benchmark's own answering protocol; empty without one."""
        return {}


class _OfMemory(_Settings, frozen=True, kw_only=True):
    memory: MemorySettings
    reads_gold: bool
    embedder: FixtureEmbedder | UnsetType | None = UNSET
    """The embedder; None if no vectors are read."""
    preparation: str | UnsetType = UNSET
    not_reproducible: tuple[str, ...] | UnsetType = UNSET
    """Parts that would differ if they were prepared again."""
    parts: dict[str, dict[str, Any]] | UnsetType = UNSET
    """Statistics of each of them, added up over the haystacks."""
    query_model: QueryModelSettings | UnsetType = UNSET

    @property
    def memory_name(self) -> str:
        """See `_Settings`."""
        return self.memory.name

    @property
    def memory_record(self) -> MemorySettings | None:
        """See `_Settings`."""
        return self.memory

    @property
    def embedder_spec(self) -> str:
        """See `_Settings`."""
        return self.embedder.spec if isinstance(self.embedder, FixtureEmbedder) else ""

    @property
    def preparation_name(self) -> str:
        return "" if isinstance(self.preparation, UnsetType) else self.preparation

    @property
    def is_ceiling(self) -> bool:
        """See `_Settings`."""
        return self.reads_gold

    @property
    def marked_parts(self) -> tuple[str, ...]:
        """See `_Settings`."""
        return () if isinstance(self.not_reproducible, UnsetType) else self.not_reproducible

    @property
    def part_stats(self) -> dict[str, dict[str, Any]]:
        """See `_Settings`."""
        return {} if isinstance(self.parts, UnsetType) else self.parts


class AnswerSettings(_OfMemory, frozen=True, kw_only=True, tag="run"):
    """Settings of answers of this harness."""

    model: ModelSettings
    reading: ReadingSettings
    protocol: dict[str, Any] | UnsetType = UNSET
    """The benchmark's own protocol, if the run followed it."""
    repeat: int | UnsetType = UNSET
    abstain_below: int | float | UnsetType = UNSET
    token_counter: str | UnsetType = UNSET
    save_prompts: bool | UnsetType = UNSET
    batch: bool | UnsetType = UNSET
    """True if the model was called through its provider's batch endpoints."""

    @property
    def model_name(self) -> str:
        """See `_Settings`."""
        return self.model.spec

    @property
    def official_protocol(self) -> dict[str, Any]:
        """See `_Settings`."""
        return {} if isinstance(self.protocol, UnsetType) else self.protocol


class RetrievalSettings(_OfMemory, frozen=True, kw_only=True, tag="retrieval"):
    """Settings of rankings."""

    protocol: Literal["standard", "official"]
    granularity: Literal["session", "turn"]


class ImportedSettings(_Settings, frozen=True, kw_only=True, tag="hypotheses"):
    """Settings of answers of another system, whose making is unknown."""

    hypotheses: HypothesesSettings
    unknown_questions: tuple[str, ...]
    """Ids in the file that are not in the data set."""
    repeated_questions: dict[str, int] | UnsetType = UNSET
    """Number of answers by question id, for questions that the file answers more than once."""

    @property
    def times(self) -> dict[str, int] | None:
        """See `_Settings`."""
        return None if isinstance(self.repeated_questions, UnsetType) else self.repeated_questions


RunSettings = AnswerSettings | RetrievalSettings | ImportedSettings


_KINDS: dict[RunKind, type[RunSettings]] = {
    "run": AnswerSettings,
    "retrieval": RetrievalSettings,
    "hypotheses": ImportedSettings,
}


def settings_of(kind: RunKind, plain: Mapping[str, Any]) -> RunSettings:
    """Return the settings that plain values stand for.

    Raises:
        msgspec.ValidationError: they are not those of a run of this kind, or there is no such kind.
    """
    if kind not in _KINDS:
        raise msgspec.ValidationError(f"there is no kind of run {kind!r}")
    known = _KINDS[kind].__struct_fields__
    values = {name: value for name, value in plain.items() if name in known}
    others = {name: value for name, value in plain.items() if name not in known}
    return msgspec.convert({"kind": kind, **values, "others": others}, _KINDS[kind])


def retrieval_settings(plain: Mapping[str, Any]) -> RetrievalSettings:
    """Return the settings of rankings that plain values stand for, including a ranker's own."""
    settings = settings_of("retrieval", plain)
    return msgspec.convert(settings, RetrievalSettings)


def kind_of(settings: RunSettings) -> RunKind:
    """Return the kind of run that has such settings."""
    if isinstance(settings, AnswerSettings):
        return "run"
    return "retrieval" if isinstance(settings, RetrievalSettings) else "hypotheses"


def memory_settings(configuration: MemoryConfiguration) -> MemorySettings:
    """Return a configuration as it is recorded."""
    return msgspec.convert(configuration.model_dump(), MemorySettings)
