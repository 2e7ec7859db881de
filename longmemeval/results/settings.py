"""The `settings` of `run.json`, by the kind of run: everything that decides its answers or rankings.

A setting with a default is written only if its value differs, as in version 0.2: the hash of the settings, by
which runs are known, depends on it.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from longmemeval.core.secrets.parameters import comparable, comparable_command, public, public_command
from longmemeval.memory.definition import label_of
from longmemeval.storage.parts import FixtureEmbedder

if TYPE_CHECKING:
    from longmemeval.memory.configuration import MemoryConfiguration

RunKind = Literal["run", "hypotheses", "retrieval"]
"""Answers of this harness, answers of another system, rankings."""


class MemorySettings(Struct, frozen=True, omit_defaults=True):
    """The memory configuration of a run."""

    name: str
    preset: str
    parameters: dict[str, Any]
    source: dict[str, str] = {}
    """For a memory from outside: the origin of its code, and its hash."""


class ModelSettings(Struct, frozen=True):
    """The answering model."""

    spec: str
    api_base: str | None = None
    """Address at which it was reached, without secrets; None: its provider's own."""
    temperature: int | float | None = None
    max_tokens: int | None = None
    """Maximum tokens of the visible reply."""
    options: dict[str, Any] | UnsetType = UNSET
    """What else decides its replies (`ModelOptions.recorded`); absent if nothing does."""


class ReadingSettings(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The way the model was prompted; templates by the hashes of their texts."""

    method: str
    history_format: str = ""
    template: str = ""
    options_template: str = ""
    note_template: str = ""
    others: dict[str, Any] = {}
    """The other options of `ReadingOptions`, and the hash of the file that describes the tools, if there are any."""

    @property
    def shown(self) -> str:
        """Method and history format, as tables show them."""
        return f"{self.method}, {self.history_format}" if self.history_format else self.method


class QueryModelSettings(Struct, frozen=True):
    """The chat model that analysed the questions."""

    spec: str
    api_base: str | None
    temperature: int | float
    templates: dict[str, str]
    """Hash of each template, by its purpose."""


class HypothesesSettings(Struct, frozen=True, omit_defaults=True):
    """The file with the answers of another system."""

    file: str
    sha256: str
    format: str = ""
    """The harness that wrote it; empty: hypotheses or a log in the official form."""


class _Settings(Struct, frozen=True, kw_only=True, tag_field="kind", omit_defaults=True):
    """The settings that all kinds of runs share."""

    memory: MemorySettings | None = None
    """The memory; None if unknown."""
    reads_gold: bool = False
    """True if the memory reads the gold evidence."""
    embedder: FixtureEmbedder | None = None
    """The embedder; None if no vectors are read."""
    reranker: str = ""
    """Fingerprint of the model that reads the best units again; empty if none does."""
    preparation: str = ""
    """Name of the preparation; empty if nothing prepared is read."""
    not_reproducible: tuple[str, ...] = ()
    """Parts that would differ if they were prepared again."""
    parts: dict[str, dict[str, Any]] = {}
    """Statistics of each part that is not reproducible, added up over the haystacks."""
    query_model: QueryModelSettings | None = None
    model: ModelSettings | None = None
    """The answering model; None if none answered, or if it is unknown."""
    reading: ReadingSettings | None = None
    protocol: dict[str, Any] | Literal["standard", "official"] = {}
    others: dict[str, Any] = {}
    """Settings of a benchmark's own ranker, and those that another version wrote and this one does not know."""

    @property
    def plain(self) -> dict[str, Any]:
        """The settings as JSON values, without the kind."""
        values: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(self))
        plain = {name: value for name, value in values.items() if name not in ("kind", "others")} | self.others
        if self.reading:
            plain["reading"].pop("others", None)
            plain["reading"] |= self.reading.others
        return plain

    @property
    def comparable(self) -> dict[str, Any]:
        """The plain settings with every secret of the memory as `[redacted]`: any secret equals any other."""
        settings = self.plain
        if self.memory:
            source = {key: comparable_command(value) for key, value in self.memory.source.items()}
            preset, parameters = comparable_command(self.memory.preset), comparable(self.memory.parameters)
            settings["memory"] |= {"preset": preset, "parameters": parameters} | ({"source": source} if source else {})
        return settings

    @property
    def memory_name(self) -> str:
        """Name of the memory in tables; empty if unknown."""
        return self.memory.name if self.memory else ""

    @property
    def model_name(self) -> str:
        """Spec of the answering model; empty if none answered."""
        return self.model.spec if self.model else ""

    @property
    def embedder_spec(self) -> str:
        """Spec of the embedder; empty if no vectors are read."""
        return self.embedder.spec if self.embedder else ""

    @property
    def official_protocol(self) -> dict[str, Any]:
        """Record of the benchmark's own answering protocol; empty without one."""
        return self.protocol if isinstance(self.protocol, dict) else {}


class AnswerSettings(_Settings, frozen=True, kw_only=True, tag="run"):
    """Settings of answers of this harness."""

    memory: MemorySettings
    reads_gold: bool
    embedder: FixtureEmbedder | None
    model: ModelSettings
    reading: ReadingSettings
    protocol: dict[str, Any] = {}
    """The benchmark's own protocol, if the run followed it."""
    repeat: int = 1
    abstain_below: int | float | None = None
    token_counter: str = ""
    save_prompts: bool | None = None
    batch: bool = False
    """True if the model was called through its provider's batch endpoints."""


class RetrievalSettings(_Settings, frozen=True, kw_only=True, tag="retrieval"):
    """Settings of rankings."""

    memory: MemorySettings
    reads_gold: bool
    embedder: FixtureEmbedder | None
    protocol: Literal["standard", "official"]
    granularity: Literal["session", "turn"]


class ImportedSettings(_Settings, frozen=True, kw_only=True, tag="hypotheses"):
    """Settings of answers of another system, whose making is unknown."""

    hypotheses: HypothesesSettings
    unknown_questions: tuple[str, ...]
    """Ids in the file that are not in the dataset."""
    repeated_questions: dict[str, int] = {}
    """Number of answers by question id, for questions that the file answers more than once."""


RunSettings = AnswerSettings | RetrievalSettings | ImportedSettings


_KINDS: dict[RunKind, type[RunSettings]] = {
    "run": AnswerSettings,
    "retrieval": RetrievalSettings,
    "hypotheses": ImportedSettings,
}


def settings_of(kind: RunKind, plain: Mapping[str, Any], *, as_stored: bool = False) -> RunSettings:
    """Return the settings that plain values stand for.

    Args:
        as_stored: True: with the secrets of the memory, if an earlier version stored them.

    Raises:
        msgspec.ValidationError: they are not those of a run of this kind, or there is no such kind.
    """
    if kind not in _KINDS:
        raise msgspec.ValidationError(f"unknown kind of run {kind!r}")
    known = _KINDS[kind].__struct_fields__
    values = {name: value for name, value in plain.items() if name in known}
    others = {name: value for name, value in plain.items() if name not in known}
    if reading := values.get("reading"):
        values["reading"] = reading_settings(reading)
    settings = msgspec.convert({"kind": kind, **values, "others": others}, _KINDS[kind])
    if as_stored or settings.memory is None:
        return settings
    return replace(settings, memory=without_secrets_of_memory(settings.memory))


def reading_settings(plain: Mapping[str, Any]) -> ReadingSettings:
    """Return the settings of reading that plain values stand for."""
    known = ReadingSettings.__struct_fields__
    others = {name: value for name, value in plain.items() if name not in known}
    return msgspec.convert(
        {name: value for name, value in plain.items() if name in known} | {"others": others}, ReadingSettings
    )


def retrieval_settings(plain: Mapping[str, Any]) -> RetrievalSettings:
    """Return the settings of rankings that plain values stand for, including a ranker's own."""
    settings = settings_of("retrieval", plain)
    return msgspec.convert(settings, RetrievalSettings)


def kind_of(settings: RunSettings) -> RunKind:
    """Return the kind of run that has such settings."""
    if isinstance(settings, AnswerSettings):
        return "run"
    return "retrieval" if isinstance(settings, RetrievalSettings) else "hypotheses"


def memory_settings(configuration: "MemoryConfiguration") -> MemorySettings:
    """Return the settings that record a configuration, without secrets."""
    return without_secrets_of_memory(msgspec.convert(configuration.model_dump(), MemorySettings))


def without_secrets_of_memory(memory: MemorySettings) -> MemorySettings:
    """Return the record of a memory without the secrets of its command and parameters, which earlier versions stored.

    A memory without a name of its own was named by the last word of its command, which may be a secret.
    """
    preset, name = public_command(memory.preset), memory.name
    if preset != memory.preset and memory.preset.endswith(name):
        name = label_of(preset)
    source = {key: public_command(value) for key, value in memory.source.items()}
    return replace(memory, name=name, preset=preset, parameters=public(memory.parameters), source=source)
