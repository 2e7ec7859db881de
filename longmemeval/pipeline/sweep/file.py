"""Read a sweep's YAML file and locate its mistakes. `docs/sweep.md` explains the file with an example."""

import re
import typing
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, get_args

import yaml
from annotated_types import Ge
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeFloat,
    PositiveInt,
    Strict,
    ValidationError,
    create_model,
    model_validator,
)

from longmemeval.core.options import Option, options_of
from longmemeval.core.part_options import PartOptions
from longmemeval.core.text.figures import listed
from longmemeval.core.text_files import Location, YamlText, field_path, load_yaml, read_text, reading
from longmemeval.embedding.registry import DEFAULT_EMBEDDER
from longmemeval.errors import HarnessError, nearest
from longmemeval.llm.offline import LAST_SESSION, PARROT, REFUSE
from longmemeval.llm.options import GENERATION, ModelOptions
from longmemeval.memory.configuration import (
    MEMORIES,
    MemoryConfiguration,
    chosen_parameters,
    configuration_of,
    definition_of,
    resolve_configuration,
)
from longmemeval.pipeline.options import OF_ANSWERS, AnsweringOptions, EvaluateOptions, PrepareOptions
from longmemeval.reading.options import ReadingMethod, ReadingOptions
from longmemeval.results.selection import Selection

FORMER_BUDGET = 2000
"""The budget, in tokens, that earlier versions gave to several memories unasked; sweeps begun with it keep it."""
_ANNOTATED: Any = typing.__dict__["Annotated"]
"""`Annotated` for types that are known only at run time."""


class _Section(BaseModel):
    """A section whose values are not converted: `yes` is not a number. A field without a value counts as absent."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    @model_validator(mode="before")
    @classmethod
    def _without_empty(cls, value: object) -> object:
        return {key: entry for key, entry in value.items() if entry is not None} if isinstance(value, dict) else value


class _Entry(_Section):
    """An entry of a list; if it needs only its first field, that field's text alone may be written."""

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, value: object) -> object:
        return {next(iter(cls.model_fields)): value} if isinstance(value, str) else value


M = TypeVar("M", bound=BaseModel)


def _with_options(group: type, *only: str) -> Callable[[type[M]], type[M]]:
    """Return a decorator that adds the options of a class of settings to a section; existing ones stay."""

    def add(section: type[M]) -> type[M]:
        fields: dict[str, Any] = {
            option.yaml_name: (_type_in_file(option), option.default)
            for option in options_of(group, only)
            if option.yaml_name not in section.model_fields
        }
        return create_model(section.__name__, __base__=section, __module__=__name__, __doc__=section.__doc__, **fields)

    return add


def _type_in_file(option: Option) -> object:
    """Return the type of an option in a file."""
    is_converted = option.is_list or Path in (option.type, *get_args(option.type))
    least = option.flag.minimum
    bounds = [*([] if least is None else [Ge(least)]), *([Strict(False)] if is_converted else [])]
    return _ANNOTATED[(option.flag.read or option.type, *bounds)] if bounds else option.flag.read or option.type


def given_options(section: BaseModel, group: type, *only: str) -> dict[str, Any]:
    """Return the values in a section of the file for a class of settings, or for some of its fields."""
    by_name = {option.yaml_name: option.field for option in options_of(group, only)}
    values = section.model_dump(include=set(by_name), exclude_unset=True)
    return {by_name[name]: value for name, value in values.items()}


@_with_options(Selection, "limit", "sample", "seed", "question_ids")
class SelectionSection(_Section):
    """The selected questions: at most one of `limit`, `sample` and `question_ids`."""


OF_EMBEDDER = ("query_prefix", "document_prefix", "embedded_text")
"""Options of `prepare` that may differ between the embedders of a sweep."""


@_with_options(ModelOptions, "api_base", "embed_batch")
@_with_options(PrepareOptions, *OF_EMBEDDER)
class EmbedderEntry(_Entry):
    """An embedder of several, with what differs from the section's options."""

    spec: str
    name: str | None = None


@_with_options(ModelOptions, "api_base", "embed_batch", *GENERATION)
@_with_options(PrepareOptions, *PartOptions.model_fields, "name", "jobs", "executor")
class PrepareSection(_Section):
    """The options of `prepare`."""

    embedder: Annotated[list[EmbedderEntry], Field(min_length=1)] | str = Field(
        default=DEFAULT_EMBEDDER, union_mode="left_to_right"
    )
    """The embedder, or a list: each has a preparation of its own, and memories that read vectors run under each."""


class MemoryEntry(_Entry):
    """A memory configuration, or with `grid` one for each combination of its values."""

    preset: str
    """A preset's name, or a YAML file."""
    name: str | None = None
    parameters: dict[str, Any] = {}
    grid: dict[str, Annotated[list[Any], Field(min_length=1)]] = {}


@_with_options(ModelOptions, "api_base", "timeout_s", "max_attempts", *OF_ANSWERS)
class ModelEntry(_Entry):
    """An answering model."""

    spec: str
    name: str | None = None


@_with_options(ReadingOptions)
class ReadingEntry(_Entry):
    """A reading method, with the options of `run`."""

    method: ReadingMethod
    name: str | None = None


@_with_options(ModelOptions, *GENERATION)
class JudgeOptionsSection(_Section):
    """Options for the calls of every judge that is a chat model."""


@_with_options(ModelOptions, "api_base", "give_up_after_s")
@_with_options(EvaluateOptions, "votes", "concurrency")
@_with_options(AnsweringOptions, "query_model")
class SweepFile(_Section):
    """The whole file."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._+-]{0,39}$")
    dataset: str
    memories: list[MemoryEntry] = Field(min_length=1)
    models: list[ModelEntry] = Field(min_length=1)
    budget: list[PositiveInt] | PositiveInt | Literal[False] | None = Field(None, union_mode="left_to_right")
    """Most tokens that each memory recalls, or several such limits; None or False (`off`): as under `run`."""
    selection: SelectionSection = SelectionSection()
    prepare: PrepareSection = PrepareSection()
    readings: list[ReadingEntry] = Field([ReadingEntry(method="direct")], min_length=1)
    controls: bool = False
    """True if the controls are run too, once each and with the first reading."""
    judges: list[str] = []
    judge_options: JudgeOptionsSection = JudgeOptionsSection()
    holdout: Annotated[float, Field(gt=0, lt=1)] | None = None
    """Share of haystacks held out: the best configuration is chosen without them and reported on them; None: none."""
    repeat: PositiveInt = 1
    max_cost: NonNegativeFloat | None = None


_SECTIONS: dict[int | str, type[BaseModel]] = {
    "selection": SelectionSection,
    "prepare": PrepareSection,
    "memories": MemoryEntry,
    "models": ModelEntry,
    "readings": ReadingEntry,
}


def read_sweep_file(path: Path) -> tuple[SweepFile, YamlText]:
    """Return the file's content, and its text to find lines in.

    Raises:
        HarnessError: it cannot be read or is invalid: with file, line, field and the nearest valid name.
    """
    with reading("The sweep file", path, "is not YAML"):
        written = read_text(path)
        document = load_yaml(written)
    text = YamlText(path, written)
    if text.root is None or not isinstance(document, dict):
        raise HarnessError("The sweep file must be a mapping with name, dataset, memories and models", where=str(path))
    _refuse_doubled_keys(text, text.root)
    try:
        return SweepFile.model_validate(document), text
    except ValidationError as error:
        # A misspelt field is also missing under its right name: report the misspelt one.
        # Where a text or a list may stand, the list's own problem says more.
        problem = min(error.errors(), key=lambda found: (found["type"] != "extra_forbidden", -len(found["loc"])))
        location = text.without_kinds(problem["loc"])
        raise HarnessError(
            _what(problem["type"], location, problem["msg"]),
            where=text.place(*location),
            fix=_fix(problem["type"], location, problem["input"], problem.get("ctx", {})),
        ) from error


def _what(kind: str, location: Location, message: str) -> str:
    name = field_path(location)
    if kind == "extra_forbidden":
        return f"Unknown field '{name}' in a sweep file"
    if kind == "missing":
        return f"The field '{name}' is missing"
    if kind == "model_type":
        return f"The field '{name}' must be a name, or a mapping of fields to values"
    if kind == "string_pattern_mismatch":
        return f"The field '{name}' may hold letters, digits and . _ + -, at most 40, a letter or digit first"
    return f"The field '{name}' has an invalid value: {message}"


def _fix(kind: str, location: Location, value: object, context: dict[str, Any]) -> str:
    if kind == "missing":
        return "Add it; docs/sweep.md explains every field"
    if kind == "extra_forbidden":
        if location == ("prepare", "backend"):
            return "It is called `executor` now: processes (was loky) or threads (was threading)"
        within = [name for name, one in _SECTIONS.items() if location[0] in one.model_fields]
        if len(location) == 1 and within:
            return f"Write it under `{within[0]}`"
        section = _SECTIONS.get(location[0], SweepFile) if len(location) > 1 else SweepFile
        section = EmbedderEntry if location[:2] == ("prepare", "embedder") else section
        return nearest(str(location[-1]), section.model_fields)
    if kind == "literal_error":
        return nearest(str(value), re.findall(r"'([^']*)'", str(context["expected"])))
    return ""


def _refuse_doubled_keys(text: YamlText, root: yaml.Node) -> None:
    """Raise if a key occurs twice: YAML itself would silently use the last value."""
    waiting, seen = [root], set[int]()
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            waiting.extend(node.value)
        elif isinstance(node, yaml.MappingNode):
            waiting.extend(value for _, value in node.value)
            keys = [key for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
            values = [key.value for key in keys]
            if again := next((key for place, key in enumerate(keys) if key.value in values[:place]), None):
                raise HarnessError(
                    f"The key '{again.value}' occurs twice",
                    where=f"{text.path}, line {again.start_mark.line + 1}",
                    fix="Keep one of them",
                )


# Give the memories of a sweep equal budgets of tokens where the file asks for them, so that none wins by length alone.


class Budgeted(NamedTuple):
    """The configurations of a sweep under its budgets."""

    configurations: list[MemoryConfiguration]
    positions: list[int]
    """For each, which of the file's configurations it is."""
    tokens: tuple[int, ...]
    """The budgets; empty: none."""
    without: dict[str, str]
    """Names of the configurations that the budgets do not apply to -> the reason."""
    kept: bool = False
    """True if the file names no budget and the sweep keeps the one it was begun with (`FORMER_BUDGET`)."""

    @property
    def line(self) -> str:
        """The plan's sentence on the budget; empty if there is none."""
        if not self.tokens:
            return ""
        reasons = dict.fromkeys(self.without.values())
        groups = {why: [name for name, own in self.without.items() if own == why] for why in reasons}
        exempt = "; ".join(f"{listed(names, 3)} ({why})" for why, names in groups.items())
        because = " (this sweep was begun with it; a sweep of another name has none)" if self.kept else ""
        several = "budgets" if len(self.tokens) > 1 else "budget"
        amounts = ", ".join(f"{tokens:,}" for tokens in self.tokens)
        return f"Token {several} per recall: {amounts}{because}. " + (
            f"It does not apply to {exempt}." if exempt else "It applies to all memories."
        )


def budgeted(
    configurations: Sequence[tuple[MemoryConfiguration, Collection[str]]], budget: object, *, kept: bool = False
) -> Budgeted:
    """Return the configurations under each budget; those with a bound of their own, or without a budget, unchanged.

    Args:
        configurations: the file's configurations, in its order, each with the parameters that its entry names.
        budget: the file's budget: one or several limits in tokens; None or False: none.
        kept: True if a sweep whose file names no budget keeps `FORMER_BUDGET`.
    """
    why = {configuration.name: _why_not(configuration, named) for configuration, named in configurations}
    kept = kept and budget is None
    asked = FORMER_BUDGET if kept else budget
    tokens: list[Any] = asked if isinstance(asked, list) else [asked] if asked else []
    under = [
        (one, position)
        for position, (configuration, _) in enumerate(configurations)
        for one in (
            [configuration]
            if why[configuration.name] or not tokens
            else _with_budgets(configuration, tokens, named=not kept)
        )
    ]
    return Budgeted(
        [one for one, _ in under],
        [position for _, position in under],
        tuple(tokens),
        {name: reason for name, reason in why.items() if reason},
        kept,
    )


def _with_budgets(
    configuration: MemoryConfiguration, tokens: Sequence[Any], *, named: bool
) -> Iterator[MemoryConfiguration]:
    """Yield a configuration under each budget; its name includes the budget if the file gives one."""
    for most in tokens:
        name = f"{configuration.name} budget={most}" if named else configuration.name
        yield configuration_of(configuration.preset, {**chosen_parameters(configuration), "budget": most}, name=name)


def _why_not(configuration: MemoryConfiguration, named: Collection[str]) -> str:
    """Return why the sweep's budget does not apply to a memory; empty if it does."""
    kind = definition_of(configuration).parameters
    if "budget" not in kind.model_fields:
        return "takes none"
    own = {*named, *chosen_parameters(configuration)}
    bound = next((name for name in ("budget", *kind.limits) if name in own), "")
    return f"{bound} of its own" if bound else ""


# Add the controls of `controls: true` to a sweep: baselines that are not memory systems, shown next to every one.


def control_pairs(
    memories: Sequence[MemoryConfiguration], models: Sequence[str]
) -> Iterator[tuple[MemoryConfiguration, str]]:
    """Yield memories and answering models of the controls that a sweep does not have yet.

    Args:
        memories: the sweep's memories; `offline/parrot` repeats the recall of the first that is not a control.
        models: specs of the sweep's answering models, each of which answers with every memory that is a control.
    """
    controls = [name for name in MEMORIES.built_in if MEMORIES.get(name).control]
    present = {configuration.name for configuration in memories}
    for spec in models:
        yield from ((resolve_configuration(name), spec) for name in controls if name not in present)
    floor = next(name for name in controls if MEMORIES.get(name).control == "floor")
    whole = next(name for name in controls if MEMORIES.get(name).recalls_everything)
    yield resolve_configuration(floor), REFUSE
    yield (
        next((configuration for configuration in memories if configuration.preset not in controls), memories[0]),
        PARROT,
    )
    yield resolve_configuration(whole), LAST_SESSION
