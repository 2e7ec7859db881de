"""Turn a sweep's file into its runs: their names, settings and order."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any, Literal, NamedTuple

from msgspec import structs

from longmemeval.benchmarks.catalogue import catalogue
from longmemeval.core.files import sha256_text
from longmemeval.core.secrets.parameters import public
from longmemeval.core.text_files import YamlText
from longmemeval.errors import HarnessError
from longmemeval.llm.offline import CONTROL_MODELS
from longmemeval.llm.options import ModelOptions
from longmemeval.llm.rates import RateLimits
from longmemeval.memory.configuration import (
    MemoryConfiguration,
    chosen_parameters,
    configuration_of,
    definition_of,
    parts_of,
    resolve_configuration,
)
from longmemeval.pipeline.compare.naming import Setup, row_names, value_text
from longmemeval.pipeline.options import AnsweringOptions, EvaluateOptions, PrepareOptions
from longmemeval.pipeline.run.plan import RunOptions, RunPlan
from longmemeval.pipeline.sweep.file import (
    OF_EMBEDDER,
    Budgeted,
    MemoryEntry,
    ModelEntry,
    ReadingEntry,
    SweepFile,
    budgeted,
    control_pairs,
    given_options,
    read_sweep_file,
)
from longmemeval.reading.configuration import ReadingConfiguration, configured, reading_configuration
from longmemeval.reading.options import ReadingOptions
from longmemeval.results.manifest import check_run_id
from longmemeval.results.selection import Selection

_LONGEST = 120
_YAML = (".yaml", ".yml")


class _Model(NamedTuple):
    """An answering model, its connection and its name in run ids."""

    label: str
    spec: str
    options: ModelOptions
    place: str = ""


class _Reading(NamedTuple):
    """A reading and its name in run ids."""

    label: str
    configuration: ReadingConfiguration
    place: str = ""


class _Memory(NamedTuple):
    """A memory, and the preparation that it reads."""

    configuration: MemoryConfiguration
    place: str
    prepare: PrepareOptions
    embedder: str = ""
    """The embedder's name in run ids, if the file lists several."""
    embedder_place: str = ""


class Entries(NamedTuple):
    """The entries of the file that a run is made of: file, line and field; empty for what the file does not name."""

    memory: str
    embedder: str
    model: str
    reading: str
    judges: Mapping[str, str]
    """The entry of each judge, by its spec."""

    def to_check(self, stage: "Stage", judge: str = "") -> str:
        """Return the entry to change where a stage of a run failed, with its fields; empty if the file has none."""
        entry = self.judges.get(judge, "") if stage == "judge" else str(getattr(self, stage))
        return f"{entry} ({_FIELDS[stage]})" if entry else ""


Stage = Literal["memory", "embedder", "model", "reading", "judge"]
"""Where a run can fail."""
_FIELDS: dict[Stage, str] = {
    "memory": "preset, parameters",
    "embedder": "embedder, api_base",
    "model": "spec, api_base, timeout, max_attempts",
    "reading": "max_tokens, context_window, on_overflow",
    "judge": "or api_base of the file",
}


@dataclass(frozen=True)
class SweepPlan:
    """The plan that a sweep's file describes."""

    name: str
    file: Path
    dataset: str | Path
    """A name of the catalogue, or a path."""
    selection: Selection
    prepare: PrepareOptions
    """Options of the preparation; with several embedders, that of the memories which read no vectors."""
    configurations: tuple[MemoryConfiguration, ...]
    runs: tuple[RunPlan, ...]
    """The runs, repeats last: if a sweep ends early, its runs are comparable."""
    judges: tuple[str, ...]
    """Specs of judges; empty: the benchmark's own."""
    grading: EvaluateOptions
    """Options of grading, including the number of calls in flight."""
    max_cost: float | None
    """US dollars for all calls of answering and grading."""
    holdout: float | None = None
    """Share of the haystacks to hold out; None: nothing is held out."""
    query_model: str | None = None
    """The model that analyses questions; None: the answering model."""
    embedders: tuple[PrepareOptions, ...] = ()
    """Options of the preparation of each embedder, if the file lists them."""
    budget: str = ""
    """The sentence on the budget of tokens, and on memories that it does not apply to; empty: there is none."""
    begun: bool = False
    """True if the file names no budget, and the sweep keeps the one that earlier versions began it with."""
    entries: Mapping[str, Entries] = field(default_factory=dict)
    """The entries that each run is made of, by run id."""

    @property
    def preparations(self) -> list[tuple[PrepareOptions, tuple[MemoryConfiguration, ...]]]:
        """The preparations, each with the configurations that read it."""
        if not self.embedders:
            return [(self.prepare, self.configurations)]
        vectors = tuple(filter(reads_vectors, self.configurations))
        others = tuple(one for one in self.configurations if not reads_vectors(one))
        pairs = [(self.prepare, others), *((options, vectors) for options in self.embedders)]
        return [(options, configurations) for options, configurations in pairs if configurations]

    @property
    def names(self) -> dict[str, str]:
        """The name of each run by its id: what tells it from the others, as the comparison will show it."""
        firsts = [run for run in self.runs if run.options.repeat == 1]
        names = dict(zip((run.run_id for run in firsts), row_names([_setup(run) for run in firsts]), strict=True))
        for run in self.runs:
            if run.run_id not in names:
                first = names[run.run_id.removesuffix(f"_r{run.options.repeat}")]
                names[run.run_id] = f"{first} (repeat {run.options.repeat})"
        return names

    def under(self, rates: RateLimits) -> "SweepPlan":
        """Return the plan with limits for the calls of all stages."""

        def limited(run: RunPlan) -> RunPlan:
            options = run.options
            connections = {
                name: structs.replace(connection, rates=rates)
                for name in ("model_options", "prepare_options")
                if (connection := getattr(options, name))
            }
            return run.with_options(**connections)

        model_options = structs.replace(self.grading.model_options, rates=rates)
        return replace(
            self,
            prepare=self.prepare.replaced(rates=rates),
            embedders=tuple(options.replaced(rates=rates) for options in self.embedders),
            runs=tuple(map(limited, self.runs)),
            grading=structs.replace(self.grading, model_options=model_options),
        )


def plan(file: str | Path, *, begun: bool = False) -> SweepPlan:
    """Read a sweep's file and lay out its runs.

    A run's id consists of the names of sweep, memory, listed embedder, model and reading, and from the second on the
    repeat: it does not change when other entries are added to the file.

    Args:
        file: the YAML file.
        begun: True if the sweep was begun by a version that gave memories a budget unasked (`FORMER_BUDGET`).

    Raises:
        HarnessError: the file is not as `docs/sweep.md` says, names something missing, or two entries have one name.
    """
    path = Path(file)
    content, text = read_sweep_file(path)
    under, memories, embedders = _memories(content, text, begun=begun)
    models = [_model(entry, content, text.place("models", place)) for place, entry in enumerate(content.models)]
    readings = _readings(content, text)
    with _located(text, "selection"):
        selection = Selection(**given_options(content.selection, Selection))
    everything = [
        (repeat, model, memory, reading)
        for repeat, model, memory in product(range(1, content.repeat + 1), models, memories)
        for reading in _readings_of(memory.configuration, readings)
    ]
    configurations, prepare = under.configurations, _prepare(content, path)
    if content.controls:
        controls = list(_controls(memories, models, readings, prepare))
        everything += controls
        added = (memory.configuration for _, _, memory, _ in controls)
        configurations = list({memory.name: memory for memory in (*configurations, *added)}.values())
    whole = SweepPlan(
        name=content.name,
        file=path,
        dataset=_dataset(content.dataset, path),
        selection=selection,
        prepare=prepare,
        configurations=tuple(configurations),
        runs=(),
        judges=tuple(dict.fromkeys(content.judges)),
        grading=EvaluateOptions(
            model_options=ModelOptions(
                **given_options(content, ModelOptions), **given_options(content.judge_options, ModelOptions)
            ),
            **given_options(content, EvaluateOptions, "votes", "concurrency"),
        ),
        max_cost=content.max_cost,
        holdout=content.holdout,
        embedders=embedders,
        query_model=given_options(content, AnsweringOptions, "query_model").get("query_model"),
        budget=under.line,
        begun=begun and under.kept,
    )
    runs = [_run(whole, *settings) for settings in everything]
    _refuse_same_ids(runs, path)
    judges = {spec: text.place("judges", place) for place, spec in enumerate(content.judges)}
    entries = {
        run.run_id: Entries(memory.place, memory.embedder_place, model.place, reading.place, judges)
        for run, (_, model, memory, reading) in zip(runs, everything, strict=True)
    }
    return replace(whole, runs=tuple(runs), entries=entries)


def _controls(
    memories: Sequence[_Memory], models: Sequence[_Model], readings: Sequence[_Reading], prepare: PrepareOptions
) -> Iterator[tuple[int, _Model, _Memory, _Reading]]:
    """Yield the runs of `controls: true`, once each and with the first reading."""
    offline = [_Model(spec, spec, ModelOptions()) for spec in CONTROL_MODELS]
    by_spec = {model.spec: model for model in (*offline, *models)}
    own = {memory.configuration.name: memory for memory in reversed(memories)}
    shown = next((reading for reading in readings if not reading.configuration.tools), None)
    first = shown or _Reading("direct", reading_configuration())  # Controls ask for no files.
    configurations = list({memory.configuration.name: memory.configuration for memory in memories}.values())
    for memory, spec in control_pairs(configurations, [model.spec for model in models]):
        yield 1, by_spec[spec], own.get(memory.name) or _Memory(memory, "", prepare), first


def reads_vectors(configuration: MemoryConfiguration) -> bool:
    """Return whether a memory depends on the embedder: it reads vectors, or calls models of its own."""
    return any(part.embeds or part.exposes_models for part in parts_of(configuration))


def _setup(run: RunPlan) -> Setup:
    """Return what the name of a planned run is made of."""
    return Setup(
        run.run_id,
        run.configuration.name,
        run.configuration.parameters,
        run.model,
        run.reading.method,
        (run.options.embedder or "") if reads_vectors(run.configuration) else "",
        run.settings.plain,
    )


def _run(whole: SweepPlan, repeat: int, model: _Model, memory: _Memory, reading: _Reading) -> RunPlan:
    """Return one run of a sweep."""
    connection = memory.prepare.model_options
    options = RunOptions(
        reading=reading.configuration,
        prepared=memory.prepare.name,
        embedder=memory.prepare.embedder,
        model_options=model.options,
        prepare_options=structs.replace(
            model.options.connection,
            **{name: getattr(connection, name) for name in ("api_base", "give_up_after_s", "embed_batch")},
        ),
        query_model=whole.query_model,
        concurrency=whole.grading.concurrency,
        run_id=_run_id(whole.name, [memory.configuration.name, memory.embedder, model.label, reading.label], repeat),
        repeat=repeat,
        sweep=whole.name,
    )
    return RunPlan(
        data=whole.dataset,
        configuration=memory.configuration,
        model=model.spec,
        selection=whole.selection,
        options=options,
    )


def _memories(
    content: SweepFile, text: YamlText, *, begun: bool
) -> tuple[Budgeted, list[_Memory], tuple[PrepareOptions, ...]]:
    """Return the configurations under their budgets, the memories under each embedder, and the embedders' options."""
    found: list[tuple[MemoryConfiguration, Collection[str]]] = []
    places: list[str] = []
    for place, entry in enumerate(content.memories):
        with _located(text, "memories", place):
            named = entry.parameters.keys() | entry.grid.keys()
            found += [(configuration, named) for configuration in _expanded(entry, text.path)]
        places += [text.place("memories", place)] * (len(found) - len(places))
    with _located(text, "budget"):
        under = budgeted(found, content.budget, kept=begun)
    common, prepare = text.place("prepare"), _prepare(content, text.path)
    embedders = list(_embedders(content, text))
    memories: list[_Memory] = []
    for configuration, position in zip(under.configurations, under.positions, strict=True):
        if embedders and reads_vectors(configuration):
            memories += [
                _Memory(configuration, places[position], options, label, at) for label, options, at in embedders
            ]
        else:
            memories.append(_Memory(configuration, places[position], prepare, embedder_place=common))
    return under, memories, tuple(options for _, options, _ in embedders)


def _embedders(content: SweepFile, text: YamlText) -> Iterator[tuple[str, PrepareOptions, str]]:
    """Yield the label of each listed embedder, the options of its preparation, and its place in the file."""
    whole = _prepare(content, text.path)
    entries = content.prepare.embedder
    for place, entry in enumerate(() if isinstance(entries, str) else entries):
        label = _word(entry.name or entry.spec)
        name = label if whole.name == PrepareOptions().name else f"{whole.name}-{label}"
        options = given_options(entry, PrepareOptions, *OF_EMBEDDER) | given_options(entry, ModelOptions)
        yield label, whole.replaced(embedder=entry.spec, name=name, **options), text.place("prepare", "embedder", place)


def _expanded(entry: MemoryEntry, file: Path) -> Iterator[MemoryConfiguration]:
    """Yield the configuration of an entry, or one for each combination of its grid's values."""
    is_file = Path(entry.preset).suffix in _YAML
    base = resolve_configuration(str(file.parent / entry.preset) if is_file else entry.preset)
    if twice := sorted(entry.parameters.keys() & entry.grid.keys()):
        raise HarnessError(f"'{twice[0]}' is in parameters and in grid", fix="Keep one of them")
    for values in product(*entry.grid.values()):
        own = dict(zip(entry.grid, values, strict=True))
        checked = _checked(base, entry.parameters | own)
        # As the parameters were parsed: YAML's `off` is false, and shown with its meaning.
        shown = {key: checked.parameters.get(key, value) for key, value in own.items()}
        yield checked.model_copy(update={"name": _labelled(entry.name or base.name, public(shown))})


def _checked(base: MemoryConfiguration, parameters: Mapping[str, Any]) -> MemoryConfiguration:
    """Return `base` with other values for some parameters."""
    candidate = base.model_copy(update={"parameters": {**base.parameters, **parameters}})
    parts_of(candidate)
    return configuration_of(base.preset, chosen_parameters(base) | dict(parameters), name=base.name)


def _model(entry: ModelEntry, content: SweepFile, place: str) -> _Model:
    options = given_options(content, ModelOptions) | given_options(entry, ModelOptions)
    return _Model(entry.name or entry.spec, entry.spec, ModelOptions(**options), place)


def _readings(content: SweepFile, text: YamlText) -> list[_Reading]:
    found = []
    for place, entry in enumerate(content.readings):
        with _located(text, "readings", place):
            found.append(_reading(entry, text.path.parent)._replace(place=text.place("readings", place)))
    return found


def _readings_of(memory: MemoryConfiguration, readings: Sequence[_Reading]) -> Sequence[_Reading]:
    """Return the readings of a memory; if it requires one method, only those with that method."""
    required_method = definition_of(memory).reading
    if required_method is None:
        return readings
    fitting = [reading for reading in readings if reading.configuration.method == required_method]
    return fitting or [_Reading(required_method, reading_configuration(required_method))]


def _reading(entry: ReadingEntry, folder: Path) -> _Reading:
    options = given_options(entry, ReadingOptions)
    shown = {
        name: value.stem if isinstance(value, Path) else value for name, value in options.items() if name != "method"
    }
    label = entry.name or _labelled(entry.method, shown)
    return _Reading(label, configured(ReadingOptions(**_resolve_paths(folder, options))))


def _prepare(content: SweepFile, file: Path) -> PrepareOptions:
    connection = given_options(content, ModelOptions) | given_options(content.prepare, ModelOptions)
    options = connection | given_options(content.prepare, PrepareOptions)
    if not isinstance(embedder := content.prepare.embedder, str):
        options["embedder"] = embedder[0].spec
    return PrepareOptions(**_resolve_paths(file.parent, options))


def _resolve_paths(folder: Path, options: dict[str, Any]) -> dict[str, Any]:
    """Return the options with paths relative to a folder."""
    return {name: folder / value if isinstance(value, Path) else value for name, value in options.items()}


def _dataset(name: str, file: Path) -> str | Path:
    """Return a name of the catalogue unchanged; anything that looks like a path or is one, relative to the file."""
    path = file.parent / name
    is_path = "/" in name or name.endswith(".json") or path.exists()
    return path if name not in catalogue() and is_path else name


def _run_id(sweep: str, names: Sequence[str], repeat: int) -> str:
    parts = [sweep, *map(_word, filter(None, names)), *([f"r{repeat}"] if repeat > 1 else [])]
    run_id = "_".join(parts)
    if len(run_id) > _LONGEST:
        run_id = f"{run_id[: _LONGEST - 13]}-{sha256_text(run_id)[:12]}"
    return check_run_id(run_id)


def _word(name: str) -> str:
    """Return a name as a part of a run id; one without a usable character becomes a hash."""
    return re.sub(r"[^A-Za-z0-9._+]+", "-", name).strip("-") or sha256_text(name)[:8]


def _refuse_same_ids(runs: Sequence[RunPlan], file: Path) -> None:
    ids = [run.run_id for run in runs]
    if twice := next((run_id for run_id in ids if ids.count(run_id) > 1), None):
        raise HarnessError(
            f"Two runs would have the id '{twice}'",
            where=str(file),
            fix="Remove the duplicate entry, or give memory, model or reading a `name` of its own",
        )


def _labelled(name: str, values: Mapping[str, object]) -> str:
    """Return a label such as `hybrid top_k=5 message_range=0`."""
    return " ".join([name, *(f"{key}={value_text(value)}" for key, value in values.items())])


@contextmanager
def _located(text: YamlText, *location: int | str) -> Iterator[None]:
    """Add the position in the file to errors raised inside the context."""
    with placed(text.place(*location)):
        yield


@contextmanager
def placed(place: str) -> Iterator[None]:
    """Add a position in a file, as `YamlText.place` returns it, to errors raised inside the context."""
    try:
        yield
    except HarnessError as error:
        where = ": ".join(filter(None, [place, error.where]))
        raise type(error)(error.what, where=where, fix=error.fix) from error
