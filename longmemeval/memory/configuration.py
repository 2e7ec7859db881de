"""Memory configurations as data: a preset, its parameters, and where they came from."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Any

from pydantic import (
    BaseModel,
    ConfigDict,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
    model_validator,
)

from longmemeval.core.secrets.parameters import public, public_command, resolved
from longmemeval.core.text_files import YAML_ENDINGS, UnreadableError, YamlText, load_yaml, read_text, reading
from longmemeval.errors import HarnessError, nearest
from longmemeval.llm.registry import ModelAccess
from longmemeval.memory.asking import errors_of
from longmemeval.memory.definition import HTTP, MemoryDefinition, is_memory_class, is_service
from longmemeval.memory.opaque import AskedQuestions, OpaqueMemory
from longmemeval.memory.parameters import BEFORE, Parameters
from longmemeval.memory.products.adapter import Adapter
from longmemeval.memory.products.known import adapter_of, shipped_adapters
from longmemeval.memory.protocol import MemorySystem, MemoryTools
from longmemeval.plugins import MEMORY, Registry
from longmemeval.ranking.parameters import RankingParameters
from longmemeval.ranking.questions import AnalysisMethod
from longmemeval.ranking.rerank import Reranker, load_reranker
from longmemeval.storage.opaque import is_foreign
from longmemeval.storage.parts import Part

# The memory configurations by name: presets, classes, services at addresses, and products.
#
# Names are listed without pydantic, which reads the entry points of all installed packages when it is imported and
# fails where one of them is damaged.


def _from_class(loaded: object) -> object:
    """Turn a class or an adapter into a definition.

    A class with `recall` is defined by its `Parameters`, its `parts` and its docstring. A class with `add` and `search`
    is a memory service in this process, and an adapter is one in a process of its own.
    """
    if isinstance(loaded, Adapter):
        from longmemeval.memory.external.external_memory import adapter_definition

        return adapter_definition(loaded)
    return class_memory(loaded) if isinstance(loaded, type) else loaded


def class_memory(loaded: type, spec: str = "", source: dict[str, str] | None = None) -> MemoryDefinition[Any]:
    """Return the definition of a class with `add` and `search`, or with `recall`.

    Args:
        loaded: the class.
        spec: for a class with `add` and `search`: see `class_definition`.
        source: the hash of its code; None: the hash of its module.

    Raises:
        HarnessError: it has neither.
    """
    if is_memory_class(loaded) and not hasattr(loaded, "recall"):
        from longmemeval.memory.external.external_memory import class_definition

        return class_definition(loaded, spec, source)
    if not callable(getattr(loaded, "recall", None)):
        raise HarnessError(
            "This is not a class with add(session) and search(query, *, date, limit)",
            where=f"{loaded.__module__}:{loaded.__qualname__}",
            fix="Write an example with `longmemeval memory init mymem.py`",
        )
    from longmemeval.storage.messages_part import MESSAGES

    parameters: type[Parameters] = getattr(loaded, "Parameters", Parameters)
    parts = getattr(loaded, "parts", lambda parameters: (MESSAGES,))
    summary = (loaded.__doc__ or loaded.__name__).strip().splitlines()[0]
    definition: MemoryDefinition[Any] = MemoryDefinition(summary, parameters, parts, loaded)
    return definition


def _from_address(name: str) -> object:
    """Return the definition of a child process, an address or an adapter with a file; None for any other name."""
    adapter = None if is_service(name) else adapter_of(name) if ":" in name else None
    if not is_service(name) and adapter is None:
        return None
    from longmemeval.memory.external.external_memory import adapter_definition, address_definition

    return adapter_definition(adapter) if adapter else address_definition(name)


MEMORIES: Registry[MemoryDefinition[Any]] = Registry(
    MEMORY, "memory configuration", MemoryDefinition, None, _from_class, _from_address, shipped_adapters
)
"""Memory configurations by name; the built-in presets come from the `plugins.toml` of their folders."""


def is_own_class(preset: str) -> bool:
    """Return whether a preset is a class of the user that runs in this process, and no registered memory."""
    return ":" in preset and MEMORIES.spelled(preset) is None and preset not in MEMORIES


def known_parts() -> "dict[str, Part[Any]]":
    """Return the parts of all memories that can be loaded, by name."""
    found: dict[str, Part[Any]] = {}
    for name in MEMORIES.names():
        with suppress(HarnessError):  # `longmemeval plugins` reports the problem.
            found |= MEMORIES.get(name).all_parts()
    return found


_LEAST_ITEM = 10
"""Tokens of the smallest item with its date, which bounds the number of items that a budget can hold."""
_MAX_QUOTED = 60
"""Characters of a faulty override that an error quotes."""


class MemoryConfiguration(BaseModel):
    """The memory configuration of a run, stored whole in its manifest."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = ""
    """The name in tables: the preset's, or the `name` of the YAML file."""
    preset: str
    parameters: dict[str, Any] = {}
    """Every parameter of the preset, defaults included."""
    source: dict[str, str] | None = None
    """Origin and hash of the code of a memory from outside this package; see `Registry.origin`."""

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, raw: object) -> object:
        """Fill in defaults, so that the record does not depend on how the configuration was written.

        Raises:
            HarnessError: there is no such preset or parameter, or a value is invalid.
        """
        if not isinstance(raw, Mapping) or not isinstance(preset := raw.get("preset"), str):
            return raw
        parameters = raw.get("parameters", {})
        if isinstance(parameters, Mapping):
            parameters = _validate(preset, parameters).model_dump(mode="json")
        name = raw.get("name") or _preset(preset).label or preset.rpartition(":")[2]
        return {
            **raw,
            "name": name,
            "parameters": parameters,
            "source": raw.get("source") or MEMORIES.origin(preset),
        }

    @model_serializer(mode="wrap")
    def _without_empty_source(self, whole: SerializerFunctionWrapHandler) -> dict[str, Any]:
        plain: dict[str, Any] = whole(self)
        return {key: value for key, value in plain.items() if key != "source" or value is not None}


def resolve_configuration(name_or_file: str, overrides: Sequence[str] = ()) -> MemoryConfiguration:
    """Resolve a preset name, `package.module:Class` or YAML file, with `key=value` overrides applied.

    A YAML file holds `preset: NAME` and optionally `name: LABEL` and `parameters: {key: value}`. Without a name
    there, a service at an address is asked for its own.

    Raises:
        HarnessError: unknown preset or parameter (with the nearest name), bad value, unreadable file, or a product
            that is not installed.
    """
    where = name_or_file if Path(name_or_file).suffix in YAML_ENDINGS else ""
    name, preset, parameters = _read_yaml(Path(where)) if where else (name_or_file, name_or_file, {})
    parameters |= parsed_overrides(overrides)
    configuration = configuration_of(preset, parameters, name="" if name == preset else name, where=where)
    if name == preset and preset.startswith(HTTP):
        from longmemeval.memory.external.external_memory import own_name

        return configuration.model_copy(update={"name": own_name(preset)})
    return configuration


def configuration_of(
    preset: str, parameters: Mapping[str, Any], *, name: str = "", where: str = "", recorded: bool = False
) -> MemoryConfiguration:
    """Return a configuration of a preset.

    Args:
        preset: its name, or a spec such as `package.module:Class`.
        parameters: parameters that differ from the defaults.
        name: the name in tables; empty for the preset's.
        where: the file that holds the configuration, for errors.
        recorded: True if a run recorded the parameters: any introduced since then get the value that reproduces the
            earlier behaviour.

    Raises:
        HarnessError: as for `resolve_configuration`.
    """
    _validate(preset, parameters, where)
    _preset(preset).require()
    if recorded:
        parameters = _before(preset) | dict(parameters)
    return MemoryConfiguration(name=name, preset=preset, parameters=completed(preset, parameters))


def _before(preset: str) -> dict[str, Any]:
    """Return the values that reproduce what a preset did before it had these parameters."""
    extras = {name: field.json_schema_extra for name, field in _preset(preset).parameters.model_fields.items()}
    return {name: extra[BEFORE] for name, extra in extras.items() if isinstance(extra, dict) and BEFORE in extra}


def completed(preset: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return `parameters`, completed by those of the profile that they name.

    With a budget, the maximum number of items is raised to what the budget can hold, unless a number is set.

    Args:
        parameters: parameters that differ from the preset's defaults.

    Raises:
        HarnessError: there is no such profile.
    """
    profile = dict(_preset(preset).profiled(parameters))
    budget, kind = parameters.get("budget"), _preset(preset).parameters
    if type(budget) is not int:
        return profile | dict(parameters)
    defaults = {name: kind.model_fields[name].default for name in kind.limits if name in kind.model_fields}
    raised = {name: max(most, budget // _LEAST_ITEM) for name, most in defaults.items() if type(most) is int}
    return profile | raised | dict(parameters)


def chosen_parameters(configuration: MemoryConfiguration) -> dict[str, Any]:
    """Return the parameters that differ from the preset's defaults under the same profile, and the profile itself."""
    kind, own = definition_of(configuration).parameters, configuration.parameters
    profile = {"profile": own["profile"]} if "profile" in kind.model_fields and "profile" in own else {}
    defaults = kind.model_validate(completed(configuration.preset, profile)).model_dump(mode="json")
    return profile | {key: value for key, value in own.items() if key not in defaults or defaults[key] != value}


def given_parameters(**values: str | int | None) -> list[str]:
    """Return `key=value` overrides for the `values` that are not None, from options that abbreviate `--set`."""
    return [f"{key}={value}" for key, value in values.items() if value is not None]


def parsed_overrides(overrides: Sequence[str]) -> dict[str, Any]:
    """Return the values of `key=value` overrides, read as YAML.

    Raises:
        HarnessError: one has no `=`, or its value cannot be read.
    """
    return dict(_parse_override(override) for override in overrides)


def as_configuration(configuration: MemoryConfiguration | str) -> MemoryConfiguration:
    """Return a configuration as it is, or resolve the preset or YAML file that a string names.

    Raises:
        HarnessError: as for `resolve_configuration`.
    """
    if isinstance(configuration, str):
        return resolve_configuration(configuration)
    definition_of(configuration).require()
    return configuration


def definition_of(configuration: MemoryConfiguration) -> MemoryDefinition[Any]:
    """Return the definition of the preset of `configuration`.

    Raises:
        HarnessError: there is no such preset (with the nearest name).
    """
    return _preset(configuration.preset)


def parts_of(configuration: MemoryConfiguration) -> tuple[Part[Any], ...]:
    """Return the parts that the fixtures must hold for this configuration with its parameters."""
    parameters = _validate(configuration.preset, configuration.parameters)
    return tuple(definition_of(configuration).parts(parameters))


def parameters_behind_parts(configuration: MemoryConfiguration) -> list[str]:
    """Return, as `key=value` without secrets, the parameters that change which parts are read or how they are made."""

    def reads(parameters: dict[str, Any]) -> dict[str, dict[str, Any]] | None:
        try:
            parts = parts_of(configuration.model_copy(update={"parameters": parameters}))
        except HarnessError:  # The default is not compatible with the other values.
            return None
        return {part.name: part.settings() for part in parts}

    own = configuration.parameters
    defaults = definition_of(configuration).parameters().model_dump(mode="json")

    def without(key: str) -> dict[str, Any]:
        return {
            name: defaults.get(name) if name == key else value
            for name, value in own.items()
            if name != key or key in defaults
        }

    return [f"{key}={value}" for key, value in public(own).items() if reads(without(key)) != reads(own)]


def analysis_of(configuration: MemoryConfiguration) -> AnalysisMethod:
    """Return the method by which this configuration analyses a question."""
    return _validate(configuration.preset, configuration.parameters).analysis


def reranker_of(configuration: MemoryConfiguration) -> str:
    """Return the spec of the reranker of this configuration's ranking; empty if there is none."""
    parameters = _validate(configuration.preset, configuration.parameters)
    return (parameters.reranker or "") if isinstance(parameters, RankingParameters) else ""


def ready_reranker(configuration: MemoryConfiguration, access: ModelAccess) -> tuple[Callable[[str], Reranker], str]:
    """Return what loads this configuration's reranker, which is loaded now, and its fingerprint; empty without one.

    Raises:
        HarnessError: as for `load_reranker`.
    """
    load, spec = cache(partial(load_reranker, access=access)), reranker_of(configuration)
    return load, load(spec).fingerprint if spec else ""


def build_memory(configuration: MemoryConfiguration, tools: MemoryTools) -> MemorySystem:
    """Build the memory system that `configuration` names.

    Raises:
        HarnessError: unknown preset or parameter, bad value, or `tools` lacks something it needs (gold for the
            oracle, a chat model's analyses of the questions, an environment variable that holds a secret).
    """
    definition = definition_of(configuration)
    parameters = _validate(configuration.preset, resolved(configuration.parameters))
    questions = AskedQuestions()
    with errors_of(definition.build, HarnessError):
        memory = definition.build(parameters, questions.tools(tools))
    return OpaqueMemory(memory, questions) if is_foreign(memory) and not definition.reads_gold else memory


def _preset(name: str, where: str = "") -> MemoryDefinition[Any]:
    try:
        return MEMORIES.get(name)
    except HarnessError as error:
        place = YamlText(Path(where)).place("preset") if where else error.where
        raise HarnessError(error.what, where=place, fix=error.fix) from error


def _validate(preset: str, parameters: Mapping[str, Any], where: str = "") -> Parameters:
    kind: type[Parameters] = _preset(preset, where).parameters
    try:
        return kind.model_validate(parameters)
    except ValidationError as error:
        problem = error.errors()[0]
        key = str(problem["loc"][0])
        if problem["type"] == "extra_forbidden":
            what, fix = f"has no parameter '{key}'", nearest(key, kind.model_fields)
        else:
            what, fix = f"cannot have {key} = {public(problem['input'], key)!r}", problem["msg"]
        # Other parameters are those of --set.
        text = YamlText(Path(where))
        where = text.place("parameters", key) if text.has("parameters", key) else where
        raise HarnessError(f"Memory configuration '{public_command(preset)}' {what}", where=where, fix=fix) from error


def _parse_override(text: str) -> tuple[str, Any]:
    key, separator, value = text.partition("=")
    if not separator or not key.strip():
        raise HarnessError(f"--set '{text}' is not of the form key=value", fix="Write e.g. --set top_k=20")
    try:
        return key.strip(), load_yaml(value)
    except UnreadableError as error:
        shown = f"{key}={public(value, key.strip())}"
        shown = shown if len(shown) <= _MAX_QUOTED else f"{shown[:_MAX_QUOTED]}…"
        raise HarnessError(f"The value in --set '{shown}' cannot be read", fix="Write a number or a word") from error


def _read_yaml(path: Path) -> tuple[str, str, dict[str, Any]]:
    with reading("The configuration file", path, "is not YAML"):
        document = load_yaml(read_text(path))
    if not isinstance(document, dict) or not isinstance(document.get("preset"), str):
        raise HarnessError("The configuration file must hold `preset: NAME`", where=str(path))
    keys = ("name", "preset", "parameters")
    for key in document:
        if key not in keys:
            raise HarnessError(
                f"Unknown key '{key}'", where=YamlText(path).place(str(key)), fix=nearest(str(key), keys)
            )
    parameters = document.get("parameters") or {}
    if not isinstance(parameters, dict):
        raise HarnessError(
            "`parameters` must be a mapping of names to values", where=YamlText(path).place("parameters")
        )
    preset = document["preset"]
    return str(document.get("name") or preset), preset, dict(parameters)
